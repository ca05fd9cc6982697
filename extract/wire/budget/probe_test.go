package budget

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type hanging struct {
	refuseAt time.Time

	mu      sync.Mutex
	refused time.Time
	passed  bool
	ahead   []time.Time // requests after the gate opened, while the field passed is false
}

// arrive answers a request. The last result is false if the request gets no answer.
func (h *hanging) arrive(hangs bool) (status int, header http.Header, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.refused.IsZero() && !now.Before(h.refuseAt) {
		h.refused = now
		return http.StatusTooManyRequests, http.Header{"Retry-After": {"30"}}, true
	}
	opened := !h.refused.IsZero() && now.Sub(h.refused) >= 30*time.Second
	if opened && !h.passed {
		h.ahead = append(h.ahead, now)
	}
	if hangs {
		return 0, nil, false
	}
	h.passed = h.passed || opened
	return http.StatusOK, http.Header{}, true
}

// ask sends a request, and gives up after an hour without an answer.
func (h *hanging) ask(t *testing.T, g *Governor, hangs bool) {
	s, err := g.Take(t.Context(), 2*time.Hour)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Done()
	s.Sent()
	time.Sleep(50 * time.Millisecond)
	status, header, ok := h.arrive(hangs)
	if !ok {
		time.Sleep(time.Hour)
		s.Lost()
		return
	}
	s.Answered(&http.Response{StatusCode: status, Header: header})
}

// After the gate opens, the first request may hang. Then the other requests wait for probeWait, and again only one of
// them goes first. // Invariant 4
func TestProbeHangs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fleet, governors := rapid.Bool().Draw(rt, "fleet"), rapid.IntRange(1, 3).Draw(rt, "governors")
		hang := rapid.SliceOfN(rapid.Bool(), 3, 9).Draw(rt, "hang")
		at := time.Duration(rapid.IntRange(0, 3000).Draw(rt, "at")) * time.Millisecond
		bubble(t, func(t *testing.T) {
			h := &hanging{refuseAt: time.Now().Add(at)}
			var all []*Governor
			d := newMemoryLedger(2 * time.Millisecond)
			for range governors {
				if fleet {
					all = append(all, joinFleet(t, d, Plan{Rate: Rate{100, time.Second}}))
				} else if len(all) == 0 {
					all = append(all, New(Plan{Rate: Rate{100, time.Second}}))
				}
			}
			begun, hangs := time.Now(), 0
			var sound, rest sync.WaitGroup
			for i, bad := range hang {
				g := all[i%len(all)]
				if bad {
					hangs++
					rest.Go(func() { time.Sleep(time.Duration(i) * 300 * time.Millisecond); h.ask(t, g, true) })
					continue
				}
				sound.Go(func() {
					for range 8 {
						h.ask(t, g, false)
						time.Sleep(500 * time.Millisecond)
					}
				})
			}
			sound.Wait()
			took := time.Since(begun)
			rest.Wait()
			for i := 1; i < len(h.ahead); i++ {
				require.GreaterOrEqual(t, h.ahead[i].Sub(h.ahead[i-1]), probeWait-time.Second, "after each request that hangs, only one further request goes first")
			}
			// Each request waits once for the gate, and once for each request that hangs.
			require.LessOrEqual(t, took, 40*time.Second+time.Duration(hangs+1)*(probeWait+time.Second), "%v", hang)
			for _, g := range all {
				require.NoError(t, g.Close())
			}
		})
	})
}

// With a ledger, failed probes leave the gate open. Other failed requests close it for all workers.
func TestProbeRefutedInFleet(t *testing.T) {
	for _, probe := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			d := newMemoryLedger(2 * time.Millisecond)
			a, b := joinFleet(t, d, Plan{Rate: Rate{100, time.Second}}), joinFleet(t, d, Plan{Rate: Rate{100, time.Second}})
			for range patience {
				s, err := a.Take(t.Context(), time.Hour)
				require.NoError(t, err)
				s.Probe = probe
				s.Sent()
				s.Answered(&http.Response{StatusCode: 500})
				s.Done()
			}
			time.Sleep(100 * time.Millisecond)
			_, err := b.Take(t.Context(), 0)
			if probe {
				require.NoError(t, err)
			} else {
				require.Error(t, err, "the gate is closed for all workers")
			}
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}
