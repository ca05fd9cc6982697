package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// writeCertificate writes a certificate and its key.
func writeCertificate(t *testing.T, cert, key, name string, until time.Time) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: until.Add(-2 * 24 * time.Hour), NotAfter: until}
	text, err := x509.CreateCertificate(rand.Reader, form, form, &k.PublicKey, k)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// TestCertificateFiles: when the files of a certificate change, it is read again. While the new files are unusable, the
// previous certificate stays in use.
func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	f := &certificateFiles{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), log: slog.New(slog.DiscardHandler)}
	require.Error(t, f.load(time.Now()))
	name := func() string {
		f.looked = time.Time{}
		c, err := f.get(nil)
		require.NoError(t, err)
		return c.Leaf.DNSNames[0]
	}
	writeCertificate(t, f.cert, f.key, "old.example", time.Now().Add(time.Hour))
	require.NoError(t, f.load(time.Now()))
	require.Equal(t, "old.example", name())
	require.NoError(t, os.WriteFile(f.key, []byte("half a key"), 0o600))
	require.Equal(t, "old.example", name())
	writeCertificate(t, f.cert, f.key, "over.example", time.Now().Add(-time.Hour))
	require.Equal(t, "old.example", name(), "the new certificate has expired, so the old one stays in use")
	writeCertificate(t, f.cert, f.key, "new.example.org", time.Now().Add(time.Hour))
	require.Equal(t, "new.example.org", name())

	// The files are unusable. The log gives the reason only once. But each check reads the files again, even if their
	// times and sizes are unchanged, because their mode may have changed.
	var log bytes.Buffer
	f.log = slog.New(slog.NewTextHandler(&log, nil))
	writeCertificate(t, f.cert, f.key, "late.example.org", time.Now().Add(time.Hour))
	good, err := os.ReadFile(f.key)
	require.NoError(t, err)
	when := time.Now().Add(time.Second)
	for _, text := range [][]byte{bytes.Repeat([]byte("x"), len(good)), good} {
		require.Equal(t, "new.example.org", f.current.Leaf.DNSNames[0])
		require.NoError(t, os.WriteFile(f.key, text, 0o600))
		require.NoError(t, os.Chtimes(f.key, when, when))
		name()
		name()
	}
	require.Equal(t, "late.example.org", name())
	require.Equal(t, 1, strings.Count(log.String(), "certificate not reloaded"))

	c := &config.Config{Serve: config.Serve{TLS: &config.ServeTLS{Cert: f.cert, Key: f.key}}}
	got := CheckTLS(t.Context(), c)
	require.True(t, got[0].OK)
	require.Contains(t, got[0].Detail, "late.example.org until ")
	require.Contains(t, got[0].Hint, "expires soon")
	require.NoError(t, os.Remove(f.key))
	require.False(t, CheckTLS(t.Context(), c)[0].OK)
}
