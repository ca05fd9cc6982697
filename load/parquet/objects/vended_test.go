package objects

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// numbered is a vendor whose keys are numbered.
type numbered struct {
	mu sync.Mutex
	n  int
}

// Location implements [Vendor].
func (*numbered) Location(string) (string, error) { return "", nil }

// Keys implements [Vendor].
func (v *numbered) Keys(context.Context, string) (Keys, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n++
	return Keys{AccessKey: fmt.Sprint("key", v.n), SecretKey: "do not tell", SessionToken: fmt.Sprint("token", v.n), Until: time.Now().Add(time.Hour)}, nil
}

// toVended starts a store, and opens a bucket of it with numbered keys. The function serve gets the number of the keys
// of each request, and returns an error code, or "".
func toVended(t *testing.T, serve func(keys int, object string) string) (Bucket, *numbered) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		_, _ = fmt.Sscanf(after, "key%d/", &n)
		if code := serve(n, strings.TrimPrefix(r.URL.Path, "/lake/")); code != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
			return
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", "Mon, 02 Nov 2026 10:00:00 GMT")
		fmt.Fprint(w, "text")
	}))
	t.Cleanup(s.Close)
	v := &numbered{}
	store, _, err := Open("s3://lake", Options{Endpoint: s.URL, Region: "us-east-1", Path: true, Vendor: v})
	require.NoError(t, err)
	return store, v
}

// No request is repeated with keys that the store has refused.
func TestVendedRefused(t *testing.T) {
	for _, code := range []string{"ExpiredToken", "InvalidToken"} {
		refused := 0
		store, v := toVended(t, func(keys int, _ string) string {
			if keys > 1 {
				return ""
			}
			refused++
			return code
		})
		text, _, err := store.Get(t.Context(), "a", 0, 0)
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		require.Equal(t, []int{1, 2}, []int{refused, v.n}, code)
	}
}

// The store refuses the old keys of two requests. The second refusal comes after the first request has got new keys,
// which must stay in use.
func TestVendedRefusedLate(t *testing.T) {
	for _, code := range []string{"ExpiredToken", "InvalidToken"} {
		sent, renewed := make(chan struct{}), make(chan struct{})
		store, v := toVended(t, func(keys int, object string) string {
			switch {
			case keys == 1 && object == "late":
				close(sent)
				<-renewed
				return code
			case keys == 1:
				<-sent
				return code
			}
			return ""
		})
		late := make(chan error)
		go func() {
			_, _, err := store.Get(t.Context(), "late", 0, 0)
			late <- err
		}()
		<-sent
		_, _, err := store.Get(t.Context(), "early", 0, 0)
		close(renewed)
		require.NoError(t, err)
		require.NoError(t, <-late)
		require.Equal(t, 2, v.n, code)
	}
}
