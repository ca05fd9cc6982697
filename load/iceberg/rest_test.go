//go:build iceberg && unix

package iceberg

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startReference starts the reference implementation of the Iceberg project: see .ci/servers.
func startReference(t testing.TB, settings ...string) string {
	t.Helper()
	jars, port, own := server(t, "catalog"), freePort(t), t.TempDir()
	cmd := exec.Command("java", "-Xmx512m", "-cp", jars+"/*", "org.apache.iceberg.rest.RESTCatalogServer")
	cmd.Env = append(append(os.Environ(), "CATALOG_REST_PORT="+port, "CATALOG_URI=jdbc:sqlite:"+own+"/catalog.db", "CATALOG_WAREHOUSE=file://"+own), settings...)
	base := "http://127.0.0.1:" + port
	startServer(t, cmd, func() bool { return responds(base + "/v1/config") })
	return base
}

func freePort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	require.NoError(t, l.Close())
	return port
}

// startServer starts a server and waits until it is ready. The server ends with the test.
func startServer(t testing.TB, cmd *exec.Cmd, ready func() bool) {
	cmd.Dir = t.TempDir()
	log, err := os.Create(filepath.Join(cmd.Dir, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if text, err := os.ReadFile(log.Name()); t.Failed() && testing.Verbose() && err == nil {
			t.Log(string(text[max(0, len(text)-20000):]))
		}
	})
	for begun := time.Now(); !ready(); { // half an hour: on a machine under load, Trino takes more than ten minutes
		require.Less(t, time.Since(begun), 30*time.Minute, "the server does not respond")
		select {
		case <-ended:
			t.Fatal("the server has ended")
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// faults describes how a proxy changes the answers of a catalog.
type faults struct {
	tableByTable bool // hide transactions/commit, and refuse it
	mu           sync.Mutex
	commit       func(path string, pass func() *httptest.ResponseRecorder) *httptest.ResponseRecorder // handles a commit
}

func (f *faults) set(commit func(path string, pass func() *httptest.ResponseRecorder) *httptest.ResponseRecorder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commit = commit
}

// forward starts a proxy in front of a catalog.
func forward(t testing.TB, catalog string, f *faults) string {
	t.Helper()
	to, err := url.Parse(catalog)
	require.NoError(t, err)
	behind := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Del("Accept-Encoding")
		answer := httptest.NewRecorder()
		pass := func() *httptest.ResponseRecorder {
			behind.ServeHTTP(answer, r)
			return answer
		}
		f.mu.Lock()
		commit := f.commit
		f.mu.Unlock()
		if f.tableByTable && strings.HasSuffix(r.URL.Path, "/transactions/commit") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		commits := r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/transactions/commit") || strings.Contains(r.URL.Path, "/tables/") && bytes.Contains(body, []byte("assert-ref-snapshot-id")))
		if commit != nil && commits {
			answer = commit(r.URL.Path, pass)
		} else {
			pass()
		}
		text := answer.Body.Bytes()
		if f.tableByTable {
			text = bytes.ReplaceAll(text, []byte(`"POST /v1/{prefix}/transactions/commit",`), nil)
		}
		for name, values := range answer.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(cmp.Or(answer.Code, http.StatusOK))
		_, _ = w.Write(text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// The answers to commits are lost, or replaced by answers of a proxy. Each commit must take place exactly once, and
// penstock must find out that it took place. Invariants 1, 2
func TestRESTUnknownOutcomes(t *testing.T) {
	catalog := startReference(t)
	for _, tableByTable := range []bool{false, true} {
		f := &faults{tableByTable: tableByTable}
		o := inREST(t, forward(t, catalog, f))(t)
		l := open(t, o)
		at, n := must(t, l, "", 1, 3), 1
		for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 0} {
			for _, passed := range []bool{true, false} {
				// If tables change one at a time, commit 1 makes the claim, which reserves the stream for this process.
				// Commit 2 changes the first table, and commit 4 changes the head table, which has the cursor.
				for _, which := range []int{1, 2, 4} {
					var commits atomic.Int64
					f.set(func(_ string, pass func() *httptest.ResponseRecorder) *httptest.ResponseRecorder {
						if commits.Add(1) != int64(which) {
							return pass()
						}
						if passed {
							pass()
						}
						return failed(status)
					})
					n++
					at = must(t, l, at, n, 3)
					name := fmt.Sprint(tableByTable, status, passed, which)
					require.Equal(t, at, now(t, open(t, o)), name)
					same(t, o, n, name)
				}
			}
		}
		f.set(func(string, func() *httptest.ResponseRecorder) *httptest.ResponseRecorder {
			return failed(http.StatusBadGateway)
		})
		_, err := put(t.Context(), l, at, n+1, 3)
		require.ErrorIs(t, err, errUnknown)
		f.set(nil)
		require.Equal(t, at, now(t, l))
		at = must(t, l, at, n+1, 3)
		same(t, o, n+1, "a commit without an answer of the catalog")
		require.Equal(t, at, now(t, l))
	}
}

// failed() returns the answer of a proxy whose server fails. If status is 0, failed() cuts the connection.
func failed(status int) *httptest.ResponseRecorder {
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	out := httptest.NewRecorder()
	out.WriteHeader(status)
	_, _ = out.WriteString("<html>the gateway is down</html>")
	return out
}

// same() checks that all tables have the rows of the same batch.
func same(t *testing.T, o Options, batch int, name string) {
	t.Helper()
	for _, of := range []string{"leads", "leads__mails"} {
		rows := read(t, o, of)
		require.Len(t, rows, 3, name)
		for _, r := range rows {
			require.Equal(t, fmt.Sprint(batch), r["batch"], "%s: %s", name, of)
		}
	}
}

// The catalog has no transactions/commit. A commit changes the first one, two or three tables. Then the connection is
// cut, so penstock cannot undo the commit. The next run must repair the tables, whether it repeats the same commit or
// makes another one. Invariants 1, 2
func TestRESTInterrupted(t *testing.T) {
	catalog := startReference(t)
	for tables := 1; tables <= 3; tables++ {
		for _, rows := range []int{3, 5} {
			f := &faults{tableByTable: true}
			o := inREST(t, forward(t, catalog, f))(t)
			l := open(t, o)
			at := must(t, l, "", 1, 3)
			var commits atomic.Int64
			ctx, kill := context.WithCancel(t.Context())
			f.set(func(_ string, pass func() *httptest.ResponseRecorder) *httptest.ResponseRecorder {
				if commits.Add(1) > int64(tables) {
					kill()
					panic(http.ErrAbortHandler)
				}
				return pass()
			})
			_, err := put(ctx, l, at, 2, rows)
			require.Error(t, err)
			f.set(nil)
			l = open(t, o)
			require.Equal(t, at, now(t, l))
			at = must(t, l, at, 3, 3)
			same(t, o, 3, fmt.Sprint(tables, " tables, ", rows, " rows"))
			require.Equal(t, at, now(t, open(t, o)))
			must(t, l, at, 4, 3)
			same(t, o, 4, "a commit later")
		}
	}
}

// Penstock sends the token only to the catalog, and no message contains it. Invariants 5, 10
func TestRESTCredentials(t *testing.T) {
	const secret = "s3cret/+x"
	var tokens, refused atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Error("a request to another server: ", r.Header)
	}))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/oauth/tokens", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_id") != "me" || r.FormValue("client_secret") != secret || r.FormValue("scope") != "catalog" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error": "invalid_client", "error_description": %q}`, r.FormValue("client_secret"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token": "token %d", "token_type": "bearer", "expires_in": 3600}`, tokens.Add(1))
	})
	mux.HandleFunc("GET /v1/config", func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer token 1": // refuse the first token once, so that penstock must get a new one
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		case "Bearer token 2":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `{"error": {"message": "no rights for %s", "type": "ForbiddenException"}}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		}
	})
	catalog := httptest.NewServer(mux)
	defer catalog.Close()
	opened := func(change func(*Options)) error {
		o := warehouse(t)
		o.Catalog = catalog.URL
		change(&o)
		_, err := Open(t.Context(), o)
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
		return err
	}
	require.ErrorContains(t, opened(func(o *Options) { o.Credential = "me:" + secret }), "307")
	require.EqualValues(t, 1, refused.Load())
	require.ErrorContains(t, opened(func(o *Options) { o.Token = secret }), "no rights for [redacted]")
	require.ErrorContains(t, opened(func(o *Options) { o.Credential = "you:" + secret }), "get a token: the server answered 401 Unauthorized invalid_client\nhint: check credential, token_url and scope")
	require.ErrorContains(t, opened(func(o *Options) { o.Token, o.Catalog = secret, "http://catalog.example" }), "without encryption")
	require.ErrorContains(t, opened(func(o *Options) { o.Token, o.Catalog = secret, "https://me:"+secret+"@catalog.example" }), "without a user")
}
