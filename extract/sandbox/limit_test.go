package sandbox

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimiterSlides(t *testing.T) {
	t.Parallel()
	l := newLimiter(Rate{Requests: 3, Window: time.Second}, "")
	at := func(ms int) verdict { return l.take("key", time.Duration(ms)*time.Millisecond) }
	for i, ms := range []int{0, 400, 800} {
		v := at(ms)
		require.True(t, v.ok)
		require.Equal(t, 2-i, v.remaining)
	}
	v := at(999)
	require.False(t, v.ok)
	require.Equal(t, time.Millisecond, v.reset)
	require.True(t, at(1000).ok, "the first request has left the window")
	require.False(t, at(1399).ok)
	require.True(t, at(1400).ok)
	require.True(t, l.take("other", 0).ok, "each credential has its own window")
}

func TestLimitChanges(t *testing.T) {
	t.Parallel()
	l := newLimiter(Rate{Requests: 4, Window: time.Second}, Sliding)
	for ms := range 4 {
		require.True(t, l.take("key", time.Duration(ms)*time.Millisecond).ok)
	}
	l.set(Rate{Requests: 2, Window: time.Second})
	require.False(t, l.take("key", 1001*time.Millisecond).ok, "the two newest requests still count")
	require.True(t, l.take("key", 1002*time.Millisecond).ok)
	l.set(Rate{})
	require.True(t, l.take("key", 1002*time.Millisecond).ok)
	l.set(Rate{Requests: 1, Window: time.Second})
	require.True(t, l.take("key", 5*time.Second).ok)
}

func TestResetUnits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	require.Equal(t, "1", resetHeader(ResetDelta, now, 30*time.Millisecond))
	s, err := strconv.ParseInt(resetHeader(ResetEpoch, now, time.Second), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, float64(now.Unix()+1), float64(s), 1.5)
	ms, err := strconv.ParseInt(resetHeader(ResetEpochMs, now, time.Second), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, float64(now.UnixMilli()+1000), float64(ms), 200)
}

func ask(s *Server, path, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestLimitsOfBothSurfaces(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Rate: 5, AppRate: Rate{Requests: 4, Window: time.Minute}})
	require.NoError(t, err)
	for i := range 5 {
		w := ask(s, "/v2/tickets", ReadOnlyKey)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, strconv.Itoa(4-i), w.Header().Get("X-RateLimit-Remaining"))
		require.Equal(t, "1", w.Header().Get("X-RateLimit-Reset"))
	}
	refused := ask(s, "/v2/tickets", ReadOnlyKey)
	require.Equal(t, http.StatusTooManyRequests, refused.Code)
	require.Equal(t, "0", refused.Header().Get("X-RateLimit-Remaining"))
	require.Equal(t, http.StatusOK, ask(s, "/v2/tickets", WritingKey).Code)

	for range 4 {
		w := ask(s, "/api/branches", ReadOnlyToken)
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, w.Header().Get("X-RateLimit-Remaining"))
	}
	refused = ask(s, "/api/branches", ReadOnlyToken)
	require.Equal(t, http.StatusTooManyRequests, refused.Code)
	require.Equal(t, "60", refused.Header().Get("Retry-After"))
	require.Equal(t, "4", refused.Header().Get("X-RateLimit-Limit"))
	time.Sleep(gateGrace + 10*time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, ask(s, "/api/branches", ReadOnlyToken).Code)

	stats := s.Stats()
	require.Equal(t, CredentialStats{Requests: 6, MaxPerSecond: 6, MaxConcurrent: 1, Throttled: 2, InsideGate: 1, Bytes: stats.Credentials[ReadOnlyToken].Bytes},
		stats.Credentials[ReadOnlyToken])
	require.Equal(t, 6, stats.Credentials[ReadOnlyKey].MaxPerSecond)
}

func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	s, err := New(Options{NoLimits: true, Latency: 5 * time.Millisecond})
	require.NoError(t, err)
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			for range 10 {
				switch i % 4 {
				case 0:
					s.Touch(0.01)
				case 1:
					_, _ = s.Truth("crm.lead_show")
				default:
					ask(s, "/api/sales-invoice?per_page=7&page=2", ReadOnlyToken)
				}
			}
		})
	}
	wait.Wait()
	require.Equal(t, 80, s.Stats().Requests)
	require.GreaterOrEqual(t, s.Stats().Credentials[ReadOnlyToken].MaxConcurrent, 2)
}

func TestPlans(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]int{"": 100, "free": 100, "pro": 100, "business": 500, "agency": 2000} {
		rate, err := planRate(plan)
		require.NoError(t, err)
		require.Equal(t, Rate{want, time.Second}, rate)
	}
	_, err := New(Options{Plan: "gold"})
	require.ErrorContains(t, err, "unknown plan")
}

func BenchmarkContactPage(b *testing.B) {
	s, err := New(Options{Contacts: 100_000, NoLimits: true})
	require.NoError(b, err)
	p := params{"limit": "1000", "starting_after": strconv.Itoa(firstContact + 50_000)}
	b.ReportAllocs()
	for b.Loop() {
		r := s.contacts.list(p)
		b.SetBytes(int64(len(r.body)))
		r.release()
	}
}
