package wire

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAttempted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []Attempt
		n := 0
		c := virtualClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			switch n {
			case 1:
				panic(http.ErrAbortHandler)
			case 2:
				time.Sleep(time.Second)
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				good(w, r)
			}
		}), func(o *Options) {
			o.Attempted = func(a Attempt) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, a)
			}
		})
		_, err := c.Read(t.Context(), Request{Path: "/v2/contacts/{id}", Params: map[string]string{"id": "secret"}})
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, seen, 3)
		for i, status := range []int{0, 503, 200} {
			require.Equal(t, status, seen[i].Status)
			require.Equal(t, "/v2/contacts/{id}", seen[i].Path)
			require.Equal(t, "GET", seen[i].Method)
		}
		require.Equal(t, time.Second, seen[1].Elapsed)
	})
}

// A connection that ends without an answer is not a file that ends.
func TestClosedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := virtualClient(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), nil)
		_, err := c.Read(t.Context(), Request{Path: "/v2/contacts"})
		require.ErrorContains(t, err, "read /v2/contacts: the connection was closed (")
		require.ErrorIs(t, err, io.EOF)
	})
}
