package wire

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A 5xx answer to a probe ends that request at once and does not delay other requests. Other requests with the same
// answer are repeated and close the gate, and so does an answer with Retry-After.
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
			for range 2 * patience {
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

func TestProbeRefutedInFleet(t *testing.T) {
	for _, probe := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			d := newMemoryLedger(2 * time.Millisecond)
			a, b := joinFleet(t, d, Budget{Rate: Rate{100, time.Second}}), joinFleet(t, d, Budget{Rate: Rate{100, time.Second}})
			for range patience {
				s, err := a.acquire(t.Context(), time.Hour)
				require.NoError(t, err)
				s.probe = probe
				s.wrote()
				s.answered(&http.Response{StatusCode: 500})
				s.done()
			}
			time.Sleep(100 * time.Millisecond)
			_, err := b.acquire(t.Context(), 0)
			if probe {
				require.NoError(t, err)
			} else {
				require.Error(t, err, "the gate is closed for all")
			}
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}
