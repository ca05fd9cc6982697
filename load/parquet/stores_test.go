package parquet

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/parquet/objects"
)

type store struct {
	*httptest.Server
	bucket string
	access objects.Options

	mu     sync.Mutex
	counts map[string]int
	fault  func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) bool
}

// onStores runs f on a server in this process, and on the independent servers that `make stores` has installed.
func onStores(t *testing.T, f func(t *testing.T, s *store)) {
	t.Run("here", func(t *testing.T) { f(t, newStore(t)) })
	dir := os.Getenv("PENSTOCK_TEST_SERVERS")
	if dir == "" {
		return
	}
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	for name, start := range map[string]func(*testing.T, string) *store{"versitygw": startVersity, "fake-gcs-server": startGoogle, "azurite": startAzurite} {
		t.Run(name, func(t *testing.T) { f(t, start(t, dir)) })
	}
}

func newStore(t testing.TB) *store {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("lake"))
	s := serve(t, "s3://lake", gofakes3.New(backend).Server())
	s.access = objects.Options{Region: "us-east-1", Path: true, AccessKey: "key", SecretKey: "do not tell"}
	return s
}

func serve(t testing.TB, bucket string, to http.Handler) *store {
	s := &store{bucket: bucket, counts: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" { // for Google's accounts
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token": "do not tell", "token_type": "Bearer", "expires_in": 3600}`))
			return
		}
		s.mu.Lock()
		s.counts[asked(r)]++
		fault := s.fault
		s.mu.Unlock()
		if fault == nil || !fault(w, r, func(w http.ResponseWriter) { to.ServeHTTP(w, r) }) {
			to.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func asked(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && (q.Has("list-type") || q.Has("uploads") || q.Get("comp") == "list" || strings.HasSuffix(r.URL.Path, "/o")):
		return "LIST"
	case r.Method == http.MethodPost:
		return "PUT"
	}
	return r.Method
}

func (s *store) options(prefix string) Options {
	o := Options{Bucket: s.bucket + "/" + prefix, Store: s.access}
	o.Store.Endpoint = s.URL + s.access.Endpoint
	return o
}

// process starts a server and waits until it accepts connections. It returns a proxy that forwards requests to the
// server with their Host header.
func process(t *testing.T, cmd *exec.Cmd, address string) http.Handler {
	t.Helper()
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if _, err := os.Stat(cmd.Path); err != nil {
		t.Skipf("%s is missing: run make stores", cmd.Path)
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v\n%s", cmd.Path, err, log)
		}
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", address, r.In.Host
	}}
}

func free(t *testing.T) (address, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	address = l.Addr().String()
	_, port, err = net.SplitHostPort(address)
	require.NoError(t, err)
	return address, port
}

func startVersity(t *testing.T, dir string) *store {
	address, _ := free(t)
	cmd := exec.Command(filepath.Join(dir, "bin", "versitygw"), "--port", address, "--quiet", "posix", t.TempDir())
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=key", "ROOT_SECRET_KEY=do not tell")
	s := serve(t, "s3://lake", process(t, cmd, address))
	s.access = objects.Options{Region: "us-east-1", Path: true, AccessKey: "key", SecretKey: "do not tell"}
	of, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4("key", "do not tell", ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
	require.NoError(t, err)
	require.NoError(t, of.MakeBucket(t.Context(), "lake", minio.MakeBucketOptions{}))
	return s
}

func startGoogle(t *testing.T, dir string) *store {
	address, port := free(t)
	to := process(t, exec.Command(filepath.Join(dir, "bin", "fake-gcs-server"), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-log-level", "error"), address)
	s := serve(t, "gs://lake", to)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "lake@example.com", "private_key_id": "1", "token_uri": s.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	require.NoError(t, err)
	s.access = objects.Options{SecretKey: string(account)}
	resp, err := http.Post("http://"+address+"/storage/v1/b", "application/json", strings.NewReader(`{"name": "lake"}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return s
}

// startAzurite uses the key that Microsoft publishes in the manual of the emulator.
func startAzurite(t *testing.T, dir string) *store {
	address, port := free(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Azurite needs node, which is not installed")
	}
	program := filepath.Join(dir, "npm", "node_modules", "azurite", "dist", "src", "blob", "main.js")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%s is missing: run make stores", program)
	}
	cmd := exec.Command(node, program, "--silent", "--inMemoryPersistence", "--disableTelemetry", "--blobPort", port)
	cmd.Dir = t.TempDir()
	s := serve(t, "azblob://lake", process(t, cmd, address))
	s.access = objects.Options{Endpoint: "/devstoreaccount1", AccessKey: "devstoreaccount1",
		SecretKey: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="}
	makeContainer(t, address, s.access)
	return s
}

func makeContainer(t *testing.T, address string, o objects.Options) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+address+o.Endpoint+"/lake?restype=container", nil)
	require.NoError(t, err)
	version, date := "2021-08-06", time.Now().UTC().Format(http.TimeFormat)
	key, err := base64.StdEncoding.DecodeString(o.SecretKey)
	require.NoError(t, err)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "PUT%sx-ms-date:%s\nx-ms-version:%s\n/%s%s/lake\nrestype:container", strings.Repeat("\n", 12), date, version, o.AccessKey, o.Endpoint)
	r.Header.Set("x-ms-version", version)
	r.Header.Set("x-ms-date", date)
	r.Header.Set("Authorization", "SharedKey "+o.AccessKey+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
}

func TestStoreKeys(t *testing.T) {
	for of, o := range map[string]objects.Options{
		"gs://lake":     {SecretKey: "no JSON, do not tell"},
		"gs://lake/a":   {SecretKey: `{"type": "authorized_user", "refresh_token": "do not tell"}`},
		"azblob://lake": {AccessKey: "account", SecretKey: "no base64, do not tell"},
		"azblob://a":    {SecretKey: "ZG8gbm90IHRlbGw="},
		"ftp://lake":    {},
		"s3:lake":       {},
	} {
		_, err := Open(t.Context(), Options{Bucket: of, Store: o})
		require.Error(t, err, of)
		require.NotContains(t, err.Error(), "do not tell")
		require.Contains(t, err.Error(), fmt.Sprintf("open %s: ", of))
	}
}
