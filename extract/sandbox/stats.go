package sandbox

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Stats counts the requests that the server has received. Tests use it to check that a client keeps the limits, and
// calls only endpoints that read.
type Stats struct {
	Credentials map[string]CredentialStats `json:"credentials"`
	Calls       []Call                     `json:"calls"`         // every endpoint called
	Outside     []Call                     `json:"outside"`       // requests to endpoints that write, to session endpoints and to unknown paths
	OutsideSum  int                        `json:"outside_total"` // sum of the counts in Outside
	Requests    int                        `json:"requests"`
}

// CredentialStats are the statistics of one credential.
type CredentialStats struct {
	Requests      int `json:"requests"`
	MaxPerSecond  int `json:"max_per_second"` // requests in the busiest period of one second
	MaxConcurrent int `json:"max_concurrent"` // largest number of requests at the same time
	Throttled     int `json:"throttled"`      // 429 answers
	InsideGate    int `json:"inside_gate"`    // requests that came although an earlier 429 required a longer wait
	Unauthorized  int `json:"unauthorized"`   // 401 answers
	ServerErrors  int `json:"server_errors"`  // 5xx answers
	Bytes         int `json:"bytes"`          // size of the bodies, before compression
}

// Call counts the requests of one endpoint. Path is a template. An unknown path is as the client sent it.
type Call struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Stream string `json:"stream,omitempty"`
	Count  int    `json:"count"`
}

// gateGrace is how long after a 429 further requests may arrive. The client may have sent them before it received the
// 429.
const gateGrace = 100 * time.Millisecond

type counter struct {
	mu      sync.Mutex
	by      map[string]*tally
	calls   map[string]*Call // by method and template
	outside map[string]*Call
}

type tally struct {
	CredentialStats
	recent     []time.Duration
	current    int
	gateOpens  time.Duration
	gateClosed time.Duration
}

func newCounter() *counter {
	return &counter{by: map[string]*tally{}, calls: map[string]*Call{}, outside: map[string]*Call{}}
}

func (c *counter) begin(who string, now time.Duration) *tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.by[who]
	if t == nil {
		t = &tally{}
		c.by[who] = t
	}
	t.Requests++
	t.current++
	t.MaxConcurrent = max(t.MaxConcurrent, t.current)
	i := 0
	for i < len(t.recent) && now-t.recent[i] >= time.Second {
		i++
	}
	t.recent = append(t.recent[i:], now)
	t.MaxPerSecond = max(t.MaxPerSecond, len(t.recent))
	if now > t.gateClosed+gateGrace && now < t.gateOpens {
		t.InsideGate++
	}
	return t
}

func (c *counter) end(t *tally, r reply, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.current--
	t.Bytes += len(r.body)
	switch {
	case r.status == 429:
		t.Throttled++
	case r.status == 401:
		t.Unauthorized++
	case r.status >= 500:
		t.ServerErrors++
	}
	if r.wait > 0 {
		t.gateClosed = now
		t.gateOpens = max(t.gateOpens, now+r.wait)
	}
}

func (c *counter) call(method, path, stream string, inside bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, calls := range []map[string]*Call{c.calls, c.outside} {
		key := method + " " + path
		if calls[key] == nil {
			calls[key] = &Call{Method: method, Path: path, Stream: stream}
		}
		calls[key].Count++
		if inside {
			return
		}
	}
}

// Stats returns the statistics so far.
func (s *Server) Stats() Stats {
	c := s.counter
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Stats{Credentials: map[string]CredentialStats{}, Calls: sortedCalls(c.calls), Outside: sortedCalls(c.outside)}
	for who, t := range c.by {
		out.Credentials[who] = t.CredentialStats
		out.Requests += t.Requests
	}
	for _, call := range out.Outside {
		out.OutsideSum += call.Count
	}
	return out
}

// ResetStats clears the statistics.
func (s *Server) ResetStats() {
	c := s.counter
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.by {
		*t = tally{current: t.current}
	}
	clear(c.calls)
	clear(c.outside)
}

func sortedCalls(calls map[string]*Call) []Call {
	all := []Call{}
	for _, call := range calls {
		all = append(all, *call)
	}
	slices.SortFunc(all, func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return all
}
