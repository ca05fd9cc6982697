package sandbox

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Stats counts the requests that the server has received. It shows whether a client kept the limits, and whether it
// called only endpoints that read.
type Stats struct {
	Credentials map[string]CredentialStats `json:"credentials"`
	Calls       []Call                     `json:"calls"`         // every endpoint called
	Outside     []Call                     `json:"outside"`       // requests of writes, sessions and unknown paths
	OutsideSum  int                        `json:"outside_total"` // number of requests in Outside
	Requests    int                        `json:"requests"`
}

// CredentialStats are the statistics of one credential.
type CredentialStats struct {
	Requests      int `json:"requests"`
	MaxPerSecond  int `json:"max_per_second"` // in the busiest second, at any offset
	MaxConcurrent int `json:"max_concurrent"` // requests under way at once
	Throttled     int `json:"throttled"`      // 429 answers
	InsideGate    int `json:"inside_gate"`    // requests that came before the end of the wait that an earlier 429 required
	Unauthorized  int `json:"unauthorized"`   // 401 answers
	ServerErrors  int `json:"server_errors"`  // 5xx answers
	Bytes         int `json:"bytes"`          // of bodies, before compression
}

// Call counts the requests of one endpoint. Path is the template, or an unknown path as sent.
type Call struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Stream string `json:"stream,omitempty"`
	Count  int    `json:"count"`
}

// gateGrace is how long after a 429 requests may arrive that were sent before the client received it.
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
