package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/segments"
	"github.com/penstock-data/penstock/extract/wire"
)

// A list is read in segments only if reading one page after another would use less than about a sixth of the rate
// limit.
const (
	leastParallel = 32
	leastLatency  = 25 * time.Millisecond
)

// segmented reads several segments of a list at the same time, if the list is paged by key: see package segments. The
// methods divide(), note() and stop() accept nil, and then do nothing.
type segmented struct {
	l     *listReader
	q     *ahead[paging.Position]
	plan  *segments.Plan
	param string
	under map[string]*pending[paging.Position] // requests whose answers the pass has not taken, by key
	noted map[*pending[paging.Position]]bool   // requests whose answers are in the plan
	taken string                               // the key whose answer the pass waits for
	near  bool                                 // answers come so fast that segments are not needed
}

func (l *listReader) readInSegments(q *ahead[paging.Position]) {
	if l.stepwise || l.s.Parent != "" {
		return
	}
	l.segments = &segmented{l: l, q: q, plan: segments.New(l.c.cfg.Now()), under: map[string]*pending[paging.Position]{}, noted: map[*pending[paging.Position]]bool{}}
	q.apart = l.segments
}

// keysOf returns the keys of a page, the place of its records, and its signals. The result ok is false if the next page
// is not requested by the key of the last record.
func (g *segmented) keysOf(a *answer) (keys []string, list records.Found, s paging.Signals, ok bool) {
	list, err := g.l.locate(a.d)
	if err != nil || len(list.Places) > 1 || len(list.Places) == 1 && list.Places[0].Form != records.FormList {
		return nil, list, s, false
	}
	for _, p := range list.Places {
		for r := range a.d.Elements(p.Value) {
			keys = append(keys, g.l.idOf(a.d, r))
		}
	}
	s = a.signals(list, len(keys))
	return keys, list, s, a.d.Err() == nil && s.Token == "" && s.Next == nil && !s.Linked && !s.Tokened && s.LastPage < 0
}

// ends() reports whether a page may be the last page.
func (g *segmented) ends(n int, s paging.Signals) bool {
	return n == 0 || s.More == paging.No || s.Total >= 0 && int64(n) < g.l.pager.Step
}

// divide adds the keys of the page a to the plan. It removes from the page the records that are also on a page that was
// requested in advance.
func (g *segmented) divide(a *answer, at paging.Position) {
	if g == nil || g.plan.Stopped() || g.l.pager.Hint.Type != "since_id" || at.Kind != paging.KindCursor && at.Kind != paging.KindNone {
		return
	}
	if g.near = a.resp == nil || a.resp.Elapsed < leastLatency; g.near && len(g.under) == 0 {
		g.plan.Skip() // no request is sent, so the plan needs no keys
		return
	}
	if p := g.l.pager; !p.Settled && !p.Stated && p.Rows == 0 {
		g.plan.Skip() // the second page shows whether the list continues after a key
		return
	}
	keys, list, s, ok := g.keysOf(a)
	if !ok {
		g.plan.Stop()
		return
	}
	g.param = cmp.Or(at.Param, g.l.pager.Named("starting_after", "since_id", "cursor"))
	left := int64(-1)
	if s.Total > g.l.pager.Rows+int64(len(keys)) {
		left = s.Total - g.l.pager.Rows - int64(len(keys))
	}
	if n := g.plan.Passed(keys, left, g.ends(len(keys), s)); n < len(keys) {
		if err := a.d.Parse(a.d.Shorten(list.Places[0].Value, n)); err != nil {
			a.d.Fail(0, err.Error())
		}
		a.cut = len(keys) - n
	}
}

// note() returns a sentence about how the list was read, or "" if it was read one page after another.
func (g *segmented) note() string {
	if g == nil || g.plan.Segments() == 1 {
		return ""
	}
	return fmt.Sprintf("the list was read in %d segments at the same time; each begins after a record that the segment before it has read", g.plan.Segments())
}

func (g *segmented) has(at paging.Position) bool {
	return at.Kind == paging.KindCursor && g.plan.Take(at.At) && g.under[at.At] != nil && g.under[at.At].key == at
}

func (g *segmented) pending(at paging.Position) *pending[paging.Position] {
	g.taken = at.At
	return g.under[at.At]
}

// used() reports whether the answer can be used. An answer that ends the list cannot be used, because records may have
// moved to the end of the list since the request.
func (g *segmented) used(at paging.Position) bool {
	g.collect()
	p, use := g.under[at.At], g.plan.Take(at.At)
	g.plan.Used(at.At)
	delete(g.noted, p)
	delete(g.under, at.At)
	g.taken = ""
	if use {
		p.a.apart = true
	} else {
		g.count(p)
	}
	return use
}

// count() counts the requests of an answer that is not used.
func (g *segmented) count(p *pending[paging.Position]) {
	if p.err != nil {
		g.l.requests += max(requestsOf(p.err), 1)
		return
	}
	g.l.requests += p.a.requests
	g.l.bytes += p.a.bytes
}

// extend sends the requests of the plan. // Invariant 6
func (g *segmented) extend(ctx context.Context) {
	g.collect()
	room, most := g.l.c.room(g.l.s)
	w, err := g.l.c.wireFor(g.l.s)
	if err != nil || most < leastParallel || g.near {
		return
	}
	c, s, params, size := g.l.c, g.l.s, g.l.params, g.q.estimate()
	room = min(room, int((c.maxBytes-c.inFlight.Load())/size))
	for _, r := range g.plan.Requests(room, w.Governor().Parallel(), int(c.maxBytes/2/size)) {
		p := g.q.request(ctx, paging.Position{Kind: paging.KindCursor, Param: g.param, At: r.Key}, false,
			func(ctx context.Context, at paging.Position, take func(int64) bool) (*answer, error) {
				return c.send(ctx, s, params, at, r.Guessed, take)
			})
		p.apart = true
		g.under[r.Key] = p
	}
}

// collect adds arrived answers to the plan, and releases the answers that are not needed. An error does not stop the
// pass, because the pass itself requests each page whose answer is missing.
func (g *segmented) collect() {
	for _, key := range slices.Sorted(maps.Keys(g.under)) {
		p := g.under[key]
		select {
		case <-p.done:
		default:
			continue
		}
		if g.noted[p] {
			continue
		}
		g.noted[p] = true
		if p.err != nil {
			_, refused := errors.AsType[*wire.Error](p.err)
			g.plan.Failed(key, refused && !p.shed || key == g.taken) // the pass itself requests the page that it waits for
		} else if keys, _, s, ok := g.keysOf(p.a); !ok {
			g.plan.Failed(key, true)
		} else {
			g.plan.Answered(key, keys, g.ends(len(keys), s))
		}
	}
	for _, key := range g.plan.Dropped() {
		if key != g.taken {
			g.drop(key)
		}
	}
}

func (g *segmented) drop(key string) {
	p := g.under[key]
	p.cancel()
	<-p.done
	g.count(p)
	g.q.discard(p)
	delete(g.noted, p)
	delete(g.under, key)
}

func (g *segmented) stop() {
	if g == nil {
		return
	}
	for _, p := range g.under {
		p.cancel()
	}
	for key := range g.under {
		g.drop(key)
	}
}
