package sandbox

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Stats is what the sandbox has seen: the other side's word on whether a client
// was lawful.
type Stats struct {
	Credentials map[string]CredentialStats `json:"credentials"`
	Calls       []Call                     `json:"calls"`         // every endpoint called
	Outside     []Call                     `json:"outside"`       // writes, sessions and unknown paths
	OutsideSum  int                        `json:"outside_total"` // requests among Outside
	Requests    int                        `json:"requests"`
}

// CredentialStats are the figures of one credential.
type CredentialStats struct {
	Requests      int `json:"requests"`
	MaxPerSecond  int `json:"max_per_second"` // in the fullest of all sliding seconds
	MaxConcurrent int `json:"max_concurrent"` // requests in hand at once
	Throttled     int `json:"throttled"`      // answers 429
	InsideGate    int `json:"inside_gate"`    // requests sent although an answer had said when to come back
	Unauthorized  int `json:"unauthorized"`   // answers 401
	ServerErrors  int `json:"server_errors"`  // answers 5xx
	Bytes         int `json:"bytes"`          // of bodies, before compression
}

// Call counts the requests of one endpoint; an unknown path stands as it came.
type Call struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Stream string `json:"stream,omitempty"`
	Count  int    `json:"count"`
}

// gateGrace is how long after a refusal a request may still arrive that was
// under way when it was written.
const gateGrace = 100 * time.Millisecond

// counter gathers the statistics.
type counter struct {
	mu      sync.Mutex
	by      map[string]*tally
	calls   map[string]*Call // by method and template
	outside map[string]*Call
}

type tally struct {
	CredentialStats
	recent     []time.Duration // arrivals within the last second
	current    int
	gateOpens  time.Duration
	gateClosed time.Duration
}

func newCounter() *counter {
	return &counter{by: map[string]*tally{}, calls: map[string]*Call{}, outside: map[string]*Call{}}
}

// begin counts an arrival and returns what its end must call.
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

// end counts an answer.
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
	if r.gate > 0 {
		t.gateClosed = now
		t.gateOpens = max(t.gateOpens, now+r.gate)
	}
}

// call counts a request of an endpoint.
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

// Stats returns the figures so far.
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

// ResetStats begins the figures anew.
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
