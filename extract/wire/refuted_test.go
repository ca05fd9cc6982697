package wire

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A 5xx answer to a probe ends that request at once, and does not delay other requests. But if the answer has a
// Retry-After, the governor stops all requests for that time. A request that is not a probe is repeated after a 5xx
// answer. After several such answers, the governor stops all requests for a time.
func TestProbeRefuted(t *testing.T) {
	for _, status := range []int{500, 501, 502, 503} {
		bubble(t, func(t *testing.T) {
			down := false
			c := virtualClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if down || r.URL.Query().Has("page[number]") {
					jsonText(status, `{"message":"expected Hash (got String) for param 'page'"}`)(w, r)
					return
				}
				good(w, r)
			}), nil)
			probe := Request{Path: contacts.Path, Query: map[string][]string{"page": {"2"}, "page[number]": {"2"}}, Probe: true}
			begin := time.Now()
			for range 2 * outageFailures {
				_, err := c.Read(t.Context(), probe)
				require.Equal(t, 1, faultOf(t, err, Transient).Attempts)
			}
			resp, err := c.Read(t.Context(), contacts)
			require.NoError(t, err)
			require.Equal(t, 1, resp.Attempts)
			require.Less(t, time.Since(begin), firstOutage)

			down = true
			_, err = c.Read(t.Context(), contacts)
			require.Equal(t, c.opts.MaxAttempts, faultOf(t, err, Transient).Attempts)
			require.Greater(t, time.Since(begin), firstOutage)
		})
	}
	bubble(t, func(t *testing.T) {
		h := inTurn(jsonText(503, `{}`, "Retry-After", "20"), good)
		c := virtualClient(t, h, nil)
		begin := time.Now()
		resp, err := c.Read(t.Context(), Request{Path: contacts.Path, Probe: true})
		require.NoError(t, err)
		require.Equal(t, 2, resp.Attempts)
		require.GreaterOrEqual(t, time.Since(begin), 20*time.Second)
	})
}

func TestProbeHangsOverHTTP(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		refused := false
		var mu sync.Mutex
		c := virtualClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			first := !refused
			refused = true
			mu.Unlock()
			switch {
			case first:
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(http.StatusTooManyRequests)
			case strings.HasSuffix(r.URL.Path, "/a"):
				<-release
				good(w, r)
			default:
				good(w, r)
			}
		}), func(o *Options) { o.Timeouts.Header, o.Timeouts.Total = time.Hour, time.Hour })
		read := func(path string) {
			resp, err := c.Read(t.Context(), Request{Path: path})
			if err != nil {
				t.Error(path, err)
				return
			}
			resp.Release()
		}
		begun := time.Now()
		var hung, others sync.WaitGroup
		hung.Go(func() { read("/a") }) // this request is refused first, and is sent first when requests are permitted again
		time.Sleep(2100 * time.Millisecond)
		for _, path := range []string{"/b", "/c", "/d"} {
			others.Go(func() { read(path) })
		}
		others.Wait()
		require.Less(t, time.Since(begun), time.Minute)
		close(release)
		hung.Wait()
	})
}
