//go:build unix

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
)

// certify writes a certificate and its key.
func certify(t *testing.T, cert, key, name string, until time.Time) {
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

const quietConfig = `version: 1
sources: {main: {app: {base_url: "http://127.0.0.1:1", auth: {token: pat_sandbox_readonly}}}}
destinations: {lake: "parquet:%[1]s/lake"}
pipelines: {all: {from: main, to: lake, streams: [crm.leads]}}
state: %[1]s/state
`

// TestServeTLS: the daemon uses the configured certificate, and serves no page without TLS. Browsers send its cookies
// only over TLS. `penstock status --health` uses TLS.
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certify(t, cert, key, "penstock.example.org", time.Now().Add(24*time.Hour))
	conf := fmt.Sprintf(quietConfig, dir) + fmt.Sprintf("serve: {listen: \"127.0.0.1:0\", tls: {cert: %s, key: %s}, auth: {token: a-token-of-32-bytes-0123456789ab}}\n", cert, key)
	d := serveIn(t, dir, conf)
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(text))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "penstock.example.org"}}}
	address := strings.TrimPrefix(d.url, "http://")
	resp, err := client.Get("https://" + address + "/signin")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.Len(t, resp.Cookies(), 1)
	require.True(t, resp.Cookies()[0].Secure && strings.HasPrefix(resp.Cookies()[0].Name, "__Host-"))
	code, body := d.get(t, "/signin")
	require.Equal(t, 400, code, body)

	asked := filepath.Join(dir, "asked.yaml")
	require.NoError(t, os.WriteFile(asked, []byte(strings.ReplaceAll(conf, "127.0.0.1:0", address)), 0o600))
	require.Equal(t, 0, (&app{out: io.Discard, err: io.Discard}).execute(t.Context(), []string{"status", "--health", "-c", asked}))
	require.Equal(t, 143, d.stop())
}

// TestServeSocket: the daemon listens on a Unix socket that its user and group can connect to. The daemon replaces a
// socket that no process uses any more. It never replaces a file, or a socket on which a process listens.
func TestServeSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	s := config.Serve{Listen: "unix:" + path}
	_, err = daemon.Listen(&config.Config{Serve: s}, "serve", s.Listen, slog.New(slog.DiscardHandler))
	require.Error(t, err, "serve must not replace a socket on which a process listens")
	left.SetUnlinkOnClose(false)
	require.NoError(t, left.Close())

	conf := fmt.Sprintf(quietConfig, dir) + fmt.Sprintf("serve: {listen: \"unix:%s\"}\n", path)
	d := serveIn(t, dir, conf)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	ask := func(header ...string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/v1/status", nil)
		require.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, 200, ask())
	require.Equal(t, 403, ask("X-Forwarded-For", "192.0.2.1"), "without a token, requests through a proxy are refused")
	require.Equal(t, 0, (&app{out: io.Discard, err: io.Discard}).execute(t.Context(), []string{"status", "--health", "-c", filepath.Join(dir, "pipelines.yaml")}))
	require.Equal(t, 143, d.stop())
	require.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err = daemon.Listen(&config.Config{Serve: s}, "serve", s.Listen, slog.New(slog.DiscardHandler))
	require.Error(t, err, "serve must not replace a file")
	require.FileExists(t, path)
}

// TestServeAudit: a request with a wrong token is recorded in the audit log and counted in the metrics. A token with
// the role "metrics" can read only metrics.
func TestServeAudit(t *testing.T) {
	dir := t.TempDir()
	const owner, scraper = "owner-token-0123456789", "scraper-token-0123456789"
	d := serveIn(t, dir, fmt.Sprintf(quietConfig, dir)+
		fmt.Sprintf("serve: {listen: \"127.0.0.1:0\", auth: {token: %s, tokens: [{name: prometheus, token: %s, role: metrics}]}}\n", owner, scraper))
	ask := func(path, token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	code, _ := ask("/metrics", "wrong")
	require.Equal(t, 401, code)
	code, text := ask("/metrics", scraper)
	require.Equal(t, 200, code)
	require.Contains(t, text, `penstock_access_refused_total{outcome="wrong"} 1`)
	code, _ = ask("/api/v1/audit", scraper)
	require.Equal(t, 403, code)
	require.Eventually(t, func() bool {
		_, text := ask("/api/v1/audit", owner)
		return strings.Contains(text, `"what":"token for /metrics","from":"127.0.0.1","outcome":"wrong token","refused":true`)
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, 143, d.stop())
}
