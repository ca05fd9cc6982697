//go:build iceberg && unix

package iceberg

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/parquet"
)

// guard is a bucket that accepts the keys of the test, and the keys that it has made for parts of the bucket.
type guard struct {
	behind http.Handler
	mu     sync.Mutex
	parts  map[string]string // by access key: the beginning of the names of the objects
	calls  atomic.Int64      // requests for keys
	change func(n int64, keys map[string]any)
}

// startGuard starts a store with such a bucket. It returns the address of the store.
func startGuard(t testing.TB) (*guard, string) {
	t.Helper()
	store, err := url.Parse(bucket(t).Store.Endpoint)
	require.NoError(t, err)
	g := &guard{behind: httputil.NewSingleHostReverseProxy(store), parts: map[string]string{}}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return g, s.URL
}

// ServeHTTP refuses requests with unknown keys, and requests for objects outside of the part for which the keys are.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ = strings.Cut(key, "/")
	g.mu.Lock()
	part, known := g.parts[key]
	g.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/lake/") + r.URL.Query().Get("prefix")
	switch {
	case key == "key":
	case !known || r.Header.Get("X-Amz-Security-Token") != "token of "+key:
		refuse(w, "InvalidAccessKeyId")
		return
	case !strings.HasPrefix(name, part):
		refuse(w, "AccessDenied")
		return
	}
	g.behind.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, code string) {
	w.WriteHeader(http.StatusForbidden)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
}

// give replaces the keys in an answer of the catalog by new keys for the folder of the table.
func (g *guard) give(t testing.TB, answer map[string]any) {
	config, _ := answer["config"].(map[string]any)
	if config == nil {
		config = map[string]any{}
		answer["config"] = config
	}
	config["s3.access-key-id"], config["s3.secret-access-key"] = nil, nil
	at, _ := answer["metadata"].(map[string]any)["location"].(string)
	n := g.calls.Add(1)
	key := fmt.Sprint("vended", n)
	keys := map[string]any{"s3.access-key-id": key, "s3.secret-access-key": "do not tell", "s3.session-token": "token of " + key, "s3.path-style-access": "true"}
	answer["storage-credentials"] = []any{map[string]any{"prefix": at, "config": keys}}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts[key] = strings.TrimPrefix(at, "s3://lake/") + "/"
	if g.change != nil {
		g.change(n, keys)
	}
}

// forward starts a proxy in front of the reference implementation. The reference gives out its own keys, which the proxy
// replaces.
func (g *guard) forward(t testing.TB, catalog string) string {
	t.Helper()
	to, err := url.Parse(catalog)
	require.NoError(t, err)
	behind := httputil.NewSingleHostReverseProxy(to)
	behind.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode != http.StatusOK || r.Request.Header.Get("X-Iceberg-Access-Delegation") != "vended-credentials" {
			return nil
		}
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte("s3.secret-access-key")) {
			t.Errorf("the catalog gives out no keys: %s", text)
		}
		var answer map[string]any
		if err := json.Unmarshal(text, &answer); err != nil {
			return err
		}
		g.give(t, answer)
		text, err = json.Marshal(answer)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", fmt.Sprint(len(text)))
		return err
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// startVended starts the reference implementation, which gives out keys, with a store that checks them.
func startVended(t testing.TB) (*guard, place) {
	g, store := startGuard(t)
	return g, vended(inRESTBucket(t, g.forward(t, startReferenceIn(t, store, "CATALOG_INCLUDE__CREDENTIALS=true")), store))
}

// Each key of the catalog is valid only for the folder of one table.
func TestVended(t *testing.T) {
	_, at := startVended(t)
	conformance(t, at)
}

// Keys come close to their expiry, or the store refuses them. In both cases penstock requests new keys, and the commit
// succeeds. Otherwise penstock uses keys again.
func TestVendedRenewal(t *testing.T) {
	g, place := startVended(t)
	o := place(t)
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	first := g.calls.Load()
	at = must(t, l, at, 2, 3)
	require.Equal(t, first, g.calls.Load())
	g.change = func(_ int64, keys map[string]any) {
		keys["s3.session-token-expires-at-ms"] = fmt.Sprint(time.Now().UnixMilli()) // no longer valid, so each request needs new keys
	}
	l = open(t, o)
	at = must(t, l, at, 3, 3)
	require.Greater(t, g.calls.Load(), 3*first)
	g.change = nil
	l = open(t, o)
	at = must(t, l, at, 4, 3)
	g.mu.Lock()
	clear(g.parts) // the store no longer knows the keys
	g.mu.Unlock()
	must(t, l, at, 5, 3)
	same(t, o, 5, "after keys were refused")
}

// configured returns options like o, but with the keys of the test.
func configured(t testing.TB, o Options) Options {
	keys := bucketAt(t, o.Store.Endpoint).Store
	o.Vended, o.Store.AccessKey, o.Store.SecretKey = false, keys.AccessKey, keys.SecretKey
	return o
}

// manifestFolders returns the folders of penstock's manifests in a bucket.
func manifestFolders(t testing.TB, o Options) (out []string) {
	t.Helper()
	store, prefix := storeOf(t, o)
	require.NoError(t, store.List(t.Context(), prefix, 0, func(key string, _ int64) bool {
		if at, _, ok := strings.Cut(strings.TrimPrefix(key, prefix), "/_manifests/"); ok && !slices.Contains(out, at) {
			out = append(out, at)
		}
		return true
	}))
	return out
}

// If the catalog has lost the head table, a commit must not replace all rows by its own. Invariants 1, 2
func TestVendedHeadLost(t *testing.T) {
	_, place := startVended(t)
	o := place(t)
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	must(t, l, at, 2, 3)
	require.Equal(t, []string{namespaceOf(o) + "_penstock/penstock_state__crm__leads"}, manifestFolders(t, o))
	c := catalogOf(t, configured(t, o)).(*restCatalog)
	head := parquet.HeadTable(key.Stream)
	require.NoError(t, c.client.do(t.Context(), http.MethodDelete, nil, nil, c.table(head, "?purgeRequested=false")...))
	_, err := put(t.Context(), open(t, o), "", 3, 5)
	require.ErrorContains(t, err, "the catalog has lost it: register it again")
	same(t, configured(t, o), 2, "after the head table was dropped")
}

// With configured keys, the manifests are outside of the folders of tables. Keys of the catalog are not enough to read
// them, and the message says so. Keys of the bucket are enough for all manifests.
func TestVendedSwitch(t *testing.T) {
	_, place := startVended(t)
	o := place(t)
	at := must(t, open(t, configured(t, o)), "", 1, 3)
	require.Equal(t, []string{namespaceOf(o) + "_penstock/crm.leads"}, manifestFolders(t, o))
	_, err := put(t.Context(), open(t, o), at, 2, 3)
	require.ErrorContains(t, err, "was loaded with access_key and secret_key")
	must(t, open(t, configured(t, o)), at, 2, 3)

	o = place(t)
	at = must(t, open(t, o), "", 1, 3)
	must(t, open(t, configured(t, o)), at, 2, 3)
	same(t, configured(t, o), 2, "after keys were configured")
}

// Sources that share tables can use keys of the catalog, because all files of a table are in one folder.
func TestVendedShared(t *testing.T) {
	_, place := startVended(t)
	o := place(t)
	l := open(t, o)
	at := must(t, of(t, l, "berlin"), "", 1, 3)
	must(t, of(t, l, "boston"), "", 1, 2)
	must(t, of(t, open(t, o), "berlin"), at, 2, 4)
	now := metadata(t, o, "leads")
	require.Equal(t, map[string]int{"berlin": 4, "boston": 2}, bySource(t, now, now.CurrentSnapshot().SnapshotID))
	require.Equal(t, []string{namespaceOf(o) + "_penstock/penstock_state__crm__leads"}, manifestFolders(t, o))
}

// A catalog must not choose to which server the files and keys go, and keys must not be in messages.
// Invariants 5, 10
func TestVendedKeys(t *testing.T) {
	const secret = "do not tell"
	now, at := time.Unix(1_000_000, 0), "s3://lake/warehouse/crm/leads"
	keys := map[string]string{"s3.access-key-id": "key", "s3.secret-access-key": secret, "s3.session-token": secret, "s3.region": "eu-central-1"}
	with := func(name, value string) map[string]string {
		out := map[string]string{name: value}
		for k, v := range keys {
			if k != name {
				out[k] = v
			}
		}
		return out
	}
	for fault, config := range map[string]map[string]string{
		"":                               keys,
		"the store \"http://169.254":     with("s3.endpoint", "http://169.254.169.254"),
		"the store \"https://evil":       with("s3.endpoint", "https://evil.example"),
		"the store \"https://s3.amazon":  with("s3.endpoint", "https://s3.amazonaws.com.evil.example"),
		"the store \"http://s3":          with("s3.endpoint", "http://s3.eu-central-1.amazonaws.com"),
		"the region \"evil.example/\"":   with("s3.region", "evil.example/"),
		"gives out no keys":              {"s3.remote-signing-enabled": "true", "s3.session-token": secret},
		"gives out no keys: allow it to": with("s3.secret-access-key", ""),
	} {
		got, err := (&vendor{bucket: "s3://lake", prefix: "warehouse/"}).keys(delegation{Config: config}, at, now)
		if fault == "" {
			require.NoError(t, err)
			require.Equal(t, "eu-central-1", got.Region)
			require.Equal(t, now.Add(keysFor), got.Until)
			continue
		}
		require.ErrorContains(t, err, fault)
		require.NotContains(t, err.Error(), secret)
	}
	own := &vendor{bucket: "s3://lake", prefix: "warehouse/", endpoint: "https://store.example"}
	got, err := own.keys(delegation{Config: with("s3.endpoint", "http://store.internal:9000")}, at, now)
	require.NoError(t, err) // the configured endpoint is used
	require.Equal(t, secret, got.SecretKey)

	var answer delegation
	require.NoError(t, json.Unmarshal([]byte(`{"storage-credentials": [
		{"prefix": "gs://lake", "config": {"s3.access-key-id": "google", "s3.secret-access-key": "x"}},
		{"prefix": "s3://lake/warehouse/crm/leads2", "config": {"s3.access-key-id": "sibling", "s3.secret-access-key": "x"}},
		{"prefix": "s3://lake/warehouse/crm/leads", "config": {"s3.access-key-id": "table", "s3.secret-access-key": "x", "s3.session-token-expires-at-ms": "1000060000"}},
		{"prefix": "s3://lake/", "config": {"s3.access-key-id": "bucket", "s3.secret-access-key": "x"}},
		{"prefix": "s3", "config": {"s3.access-key-id": "any", "s3.secret-access-key": "x"}}]}`), &answer))
	for location, key := range map[string]string{at: "table", at + "2": "sibling", "s3://lake/else": "bucket", "s3://other/x": "any"} {
		got, err := own.keys(answer, location, now)
		require.NoError(t, err)
		require.Equal(t, key, got.AccessKey, location)
		if key == "table" {
			require.Equal(t, now.Add(30*time.Second), got.Until) // the keys are valid for a minute
		}
	}
}

func TestVendedOptions(t *testing.T) {
	o := Options{Options: bucketAt(t, "https://store.example"), Catalog: "https://catalog.example", Vended: true}
	_, err := Open(t.Context(), o)
	require.ErrorContains(t, err, "there are two kinds of keys")
	o.Store.AccessKey, o.Store.SecretKey, o.Catalog = "", "", "sqlite:x"
	_, err = Open(t.Context(), o)
	require.ErrorContains(t, err, "only a REST catalog")
	o = warehouse(t)
	o.Catalog, o.Vended = "https://catalog.example", true
	_, err = Open(t.Context(), o)
	require.ErrorContains(t, err, "only for s3://bucket/prefix")
}
