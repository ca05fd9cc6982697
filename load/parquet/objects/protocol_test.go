package objects

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

type fakeStore struct {
	mu  sync.Mutex
	all map[string]string
}

func (m *fakeStore) put(key string, r *http.Request, absent bool) bool {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.all[key]; there && absent {
		return false
	}
	m.all[key] = string(text)
	return true
}

// page() returns the next page of a list: at most two names. They begin with the prefix, and sort behind the name in
// the parameter after. If a name contains the delimiter behind the prefix, the page has only the part of the name up to
// this delimiter. If there are more names, the result next is the last name of the page.
func (m *fakeStore) page(prefix, delimiter, after string) (names []string, next string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.all)) {
		rest, ok := strings.CutPrefix(key, prefix)
		if head, _, folder := strings.Cut(rest, delimiter); delimiter != "" && folder {
			key = prefix + head + delimiter
		}
		if !ok || key <= after || slices.Contains(names, key) {
			continue
		}
		if len(names) == 2 {
			return names, names[1]
		}
		names = append(names, key)
	}
	return names, ""
}

func (m *fakeStore) object(w http.ResponseWriter, r *http.Request, key, ranged string) bool {
	m.mu.Lock()
	text, ok := m.all[key]
	m.mu.Unlock()
	if !ok {
		return false
	}
	var from, to int
	if _, err := fmt.Sscanf(ranged, "bytes=%d-%d", &from, &to); err == nil {
		to = min(to+1, len(text))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(text)))
		w.WriteHeader(http.StatusPartialContent)
		text = text[from:to]
	}
	_, _ = io.WriteString(w, text)
	return true
}

func (m *fakeStore) drop(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.all[key]
	delete(m.all, key)
	return ok
}

func (m *fakeStore) google(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	key := strings.TrimPrefix(r.URL.Path, "/storage/v1/b/lake/o/")
	refuse := func(status int, reason string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error": {"code": %d, "message": "no", "errors": [{"reason": %q}]}}`, status, reason)
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer of the machine":
		refuse(http.StatusUnauthorized, "authError")
	case r.Method == http.MethodPost && !m.put(q.Get("name"), r, q.Get("ifGenerationMatch") == "0"):
		refuse(http.StatusPreconditionFailed, "conditionNotMet")
	case r.Method == http.MethodDelete && !m.drop(key), r.Method == http.MethodGet && q.Get("alt") == "media" && !m.object(w, r, key, r.Header.Get("Range")):
		refuse(http.StatusNotFound, "notFound")
	case r.Method == http.MethodGet && q.Get("alt") == "":
		var page struct {
			Items    []map[string]string `json:"items,omitempty"`
			Prefixes []string            `json:"prefixes,omitempty"`
			Next     string              `json:"nextPageToken,omitempty"`
		}
		var names []string
		names, page.Next = m.page(q.Get("prefix"), q.Get("delimiter"), q.Get("pageToken"))
		for _, name := range names {
			if q.Get("delimiter") != "" && strings.HasSuffix(name, "/") {
				page.Prefixes = append(page.Prefixes, name)
				continue
			}
			page.Items = append(page.Items, map[string]string{"name": name, "size": strconv.Itoa(len(m.all[name]))})
		}
		_ = json.NewEncoder(w).Encode(page)
	}
}

func (m *fakeStore) azure(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	key := strings.TrimPrefix(r.URL.Path, "/account/lake/")
	refuse := func(status int, code string) {
		w.Header().Set("x-ms-error-code", code)
		w.WriteHeader(status)
		fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>no`+"\n"+`RequestId:1</Message></Error>`, code)
	}
	switch {
	case q.Get("sig") != "do not tell" || r.Header.Get("x-ms-version") == "":
		refuse(http.StatusForbidden, "AuthenticationFailed")
	case r.Method == http.MethodPut && !m.put(key, r, r.Header.Get("If-None-Match") == "*"):
		refuse(http.StatusConflict, "BlobAlreadyExists")
	case r.Method == http.MethodPut:
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodDelete && !m.drop(key), r.Method == http.MethodGet && q.Get("comp") == "" && !m.object(w, r, key, r.Header.Get("x-ms-range")):
		refuse(http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodGet && q.Get("comp") == "list":
		names, next := m.page(q.Get("prefix"), q.Get("delimiter"), q.Get("marker"))
		fmt.Fprint(w, `<?xml version="1.0"?><EnumerationResults><Blobs>`)
		for _, name := range names {
			var text bytes.Buffer
			_ = xml.EscapeText(&text, []byte(name))
			if q.Get("delimiter") != "" && strings.HasSuffix(name, "/") {
				fmt.Fprintf(w, `<BlobPrefix><Name>%s</Name></BlobPrefix>`, &text)
			} else {
				fmt.Fprintf(w, `<Blob><Name>%s</Name><Properties><Content-Length>%d</Content-Length></Properties></Blob>`, &text, len(m.all[name]))
			}
		}
		fmt.Fprint(w, `</Blobs><NextMarker>`)
		_ = xml.EscapeText(w, []byte(next))
		fmt.Fprint(w, `</NextMarker></EnumerationResults>`)
	}
}

// The server is in this process, and uses the same protocol as the servers of `make stores`. The first requests of
// each kind fail.
func TestProtocols(t *testing.T) {
	for name, to := range map[string]func(t *testing.T) (Bucket, *fakeStore){"google": toGoogle, "azure": toAzure} {
		t.Run(name, func(t *testing.T) {
			store, m := to(t)
			ctx := t.Context()
			keys := []string{"of/a & b/1 %41.parquet", "of/a & b/2.parquet", "of/c/it's.parquet", "of/d.parquet", "of/e+f/3?.parquet"}
			for _, key := range keys {
				require.NoError(t, store.Put(ctx, key, strings.NewReader("text of "+key), int64(len("text of "+key))))
			}
			require.NoError(t, store.Create(ctx, "of/z.json", []byte("1")))
			require.ErrorIs(t, store.Create(ctx, "of/z.json", []byte("2")), ErrTaken)
			for _, key := range keys {
				text, size, err := store.Get(ctx, key, 0, 0)
				require.NoError(t, err)
				require.Equal(t, "text of "+key, string(text))
				require.EqualValues(t, len(text), size)
				text, size, err = store.Get(ctx, key, 5, 2)
				require.NoError(t, err)
				require.Equal(t, "of", string(text))
				require.EqualValues(t, len("text of "+key), size)
			}
			var found []string
			require.NoError(t, store.List(ctx, "of/", 0, func(key string, size int64) bool {
				require.EqualValues(t, len(m.all[key]), size)
				found = append(found, key)
				return true
			}))
			require.Equal(t, append(slices.Clone(keys), "of/z.json"), found, "page by page")
			folders, err := store.Folders(ctx, "of/")
			require.NoError(t, err)
			require.Equal(t, []string{"a & b", "c", "e+f"}, folders)
			require.NoError(t, store.Remove(ctx, keys[0]))
			require.NoError(t, store.Remove(ctx, keys[0]), "removing an object that no longer exists is not an error")
			_, _, err = store.Get(ctx, keys[0], 0, 0)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NotContains(t, err.Error(), "do not tell")
		})
	}
}

func stumbles(to http.HandlerFunc) http.Handler {
	var mu sync.Mutex
	seen := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Method]++
		n := seen[r.Method]
		mu.Unlock()
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if n == 2 {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = c.Close()
				return
			}
		}
		to(w, r)
	})
}

func toGoogle(t *testing.T) (Bucket, *fakeStore) {
	m := &fakeStore{all: map[string]string{}}
	server := httptest.NewServer(stumbles(m.google))
	t.Cleanup(server.Close)
	g, err := newGoogle("lake", Options{Endpoint: server.URL, Transport: inCloud(t, "Metadata-Flavor", "Google", `{"access_token": "of the machine", "expires_in": 3600}`)})
	require.NoError(t, err)
	return g, m
}

func toAzure(t *testing.T) (Bucket, *fakeStore) {
	m := &fakeStore{all: map[string]string{}}
	server := httptest.NewServer(stumbles(m.azure))
	t.Cleanup(server.Close)
	a, err := newAzure("lake", Options{Endpoint: server.URL + "/account", SecretKey: "?sv=1&sig=do%20not%20tell"})
	require.NoError(t, err)
	return a, m
}

func inCloud(t *testing.T, header, value, said string) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != "metadata.google.internal" && r.URL.Host != "169.254.169.254" {
			return http.DefaultTransport.RoundTrip(r)
		}
		if r.Header.Get(header) != value {
			t.Errorf("the request lacks the header %s", header)
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(said)), Request: r}, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// In the answer with an Azure machine's token, the lifetime is a string.
func TestMachine(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	t.Cleanup(server.Close)
	a, err := newAzure("lake", Options{Endpoint: server.URL, Transport: inCloud(t, "Metadata", "true", `{"access_token": "azure's", "expires_in": "86399"}`)})
	require.NoError(t, err)
	require.NoError(t, a.Remove(t.Context(), "key"))
	require.Equal(t, "Bearer azure's", got)
}
