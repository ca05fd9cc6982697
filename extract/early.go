package extract

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/schemas"
)

// earlyAnswers are answers to requests that were sent before they are needed. A negotiation begins independent probes
// together, and then takes their answers one by one. It also keeps the answers that show the beginning of the list, so
// that the pass after it need not read these pages again.
//
// A pass takes kept answers only in the order in which their requests were sent. After the first request that it sends
// itself, it takes no more kept answers. So each of its pages was requested later than the page before. Otherwise a
// record of a changing list could be lost between two pages. A nil *earlyAnswers has no answers: probed(), watch(),
// take() and drop() accept it.
type earlyAnswers struct {
	c *Client

	mu    sync.Mutex
	begun map[string]*pending[string] // by request; the negotiation takes them
	kept  map[string]*answer          // by request; the pass takes them
	ended bool                        // no more answers are kept
	last  time.Time                   // send time of the request whose answer was taken last
}

// Limits of the kept answers of all streams. // Invariant 6
const (
	earlyShare = 4           // a quarter of the bytes that may be requested in advance
	earlyAge   = time.Minute // older answers are dropped
)

// newEarly replaces the early answers of a stream. If the argument `keeps` is false, no answers are kept for a pass.
func (c *Client) newEarly(stream string, keeps bool) *earlyAnswers {
	e := &earlyAnswers{c: c, begun: map[string]*pending[string]{}, kept: map[string]*answer{}, ended: !keeps}
	c.mu.Lock()
	before := c.early[stream]
	c.early[stream] = e
	c.mu.Unlock()
	before.drop()
	return e
}

// takeEarly returns the early answers of a stream for a pass.
func (c *Client) takeEarly(stream string) *earlyAnswers {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.early[stream]
	delete(c.early, stream)
	return e
}

// requestKey identifies a request.
func requestKey(s schemas.Stream, params []bound, at paging.Position) string {
	r := request(s, params, at)
	return fmt.Sprintf("%s %s %v %s %s %s", r.Method, r.Path, r.Params, r.Query.Encode(), r.Range, r.Body)
}

// begin sends a probe that the negotiation will probably need.
func (e *earlyAnswers) begin(ctx context.Context, l *listClient, at paging.Position) {
	s, params, key := l.s, l.params, requestKey(l.s, l.params, at)
	if e.begun[key] != nil || e.kept[key] != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pending[string]{key: key, cancel: cancel, done: make(chan struct{})}
	e.begun[key] = p
	go func() {
		defer close(p.done)
		p.a, p.err = e.c.probe(ctx, s, params, at)
	}()
}

// probed() returns the answer to a probe that was begun.
func (e *earlyAnswers) probed(l *listClient, at paging.Position) (a *answer, begun bool, err error) {
	if e == nil {
		return nil, false, nil
	}
	key := requestKey(l.s, l.params, at)
	p := e.begun[key]
	if p == nil {
		return nil, false, nil
	}
	delete(e.begun, key)
	<-p.done // returns at the latest when the context of the negotiation ends
	p.cancel()
	if p.err == nil {
		p.a.at = at
	}
	return p.a, true, p.err
}

// settle ends the probes that the negotiation did not need, and returns the number of their requests. // Invariant 15
func (e *earlyAnswers) settle() (requests int) {
	for _, p := range e.begun {
		p.cancel()
	}
	for _, p := range e.begun {
		<-p.done
		if p.err != nil {
			requests += max(requestsOf(p.err), 1)
			continue
		}
		requests += p.a.requests
		e.c.release(p.a)
	}
	clear(e.begun)
	return requests
}

// watch marks the answer to a request, so that release() keeps it.
func (e *earlyAnswers) watch(a *answer, l *listClient, at paging.Position) {
	if e != nil && a.resp != nil {
		a.early, a.key = e, requestKey(l.s, l.params, at)
	}
}

// keep stores an answer that the negotiation has released, and reports whether it is stored. For each request, it
// stores only the first answer.
func (e *earlyAnswers) keep(a *answer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept[a.key] == a {
		return true
	}
	if e.ended || e.kept[a.key] != nil {
		return false
	}
	size := max(a.bytes, leastBody)
	if e.c.keptBytes.Add(size) > e.c.maxBytes/earlyShare {
		e.c.keptBytes.Add(-size)
		return false
	}
	e.kept[a.key] = a
	return true
}

// take returns the kept answer to a request, or nil. The caller must release it.
func (e *earlyAnswers) take(l *listClient, at paging.Position) *answer {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.kept[requestKey(l.s, l.params, at)]
	if a == nil || a.resp.Sent.Before(e.last) || time.Since(a.resp.Sent) > earlyAge {
		e.dropKept()
		return nil
	}
	e.forget(a)
	e.last = a.resp.Sent
	a.at, a.requests = at, 0 // the negotiation has counted the request
	return a
}

func (e *earlyAnswers) forget(a *answer) {
	delete(e.kept, a.key)
	e.c.keptBytes.Add(-max(a.bytes, leastBody))
	a.early = nil
}

// drop releases all answers that no pass has taken.
func (e *earlyAnswers) drop() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropKept()
}

func (e *earlyAnswers) dropKept() {
	e.ended = true
	for _, a := range slices.Collect(maps.Values(e.kept)) {
		e.forget(a)
		e.c.release(a)
	}
}
