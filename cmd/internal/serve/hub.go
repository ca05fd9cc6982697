package serve

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Hub knows the present state of every pipeline and of the streams that are
// being read, and wakes those who follow it. It holds one entry a pipeline and
// one a stream of its present or last run, never a history: its memory does not
// grow with time. // Invariant 6
//
// It is safe for concurrent use.
type Hub struct {
	mu        sync.Mutex
	pipelines map[string]*Status
	followers map[*Follower]struct{}
}

// NewHub returns a hub that knows nothing yet.
func NewHub() *Hub {
	return &Hub{pipelines: map[string]*Status{}, followers: map[*Follower]struct{}{}}
}

// Status is the present state of a pipeline.
type Status struct {
	Name         string
	Sources      []string
	Destinations []string
	Streams      []string
	Schedule     string // as it is written; "" without one
	Paused       bool
	Next         []time.Time      // the next slots, the nearest first
	Running      *Running         // nil: no run is under way
	Last         *pipeline.Report // of the last run that this process has made
	LastErr      error            // that kept the last run from its work
	Deltas       *DeltasApplied   // what webhooks have last come to
	Receiving    bool             // webhooks are applied to it
}

// Running is a run under way.
type Running struct {
	Run     string
	Trigger Trigger
	Due     time.Time // of its slot; zero: it has none
	Started time.Time
	Streams []Reading // in the order they began; of several sources, those under way
	Past    Past      // of the others
	Rates   []Rate    // of the surfaces it asks

	rates func() []Rate
}

// Rate is the budget of requests of one surface, as a run sees it at a moment.
type Rate struct {
	Surface  string    // v2, app, or a stream that has a credential of its own
	Limit    string    // such as 100/s; "" while it is unknown
	Allowed  float64   // requests a second at present
	Used     float64   // share of Allowed used in the last seconds, 0 to about 1
	Sent     uint64    // requests so far, of all that share the credential
	Refused  uint64    // of them answered 429
	InFlight int       // requests under way
	Waiting  string    // what the next request waits for; "" for nothing
	Until    time.Time // how long; zero or past: not
}

// Past sums up the streams of several sources that a run has come to the end of.
type Past struct {
	Streams, Pages, Requests int
	Records                  int64
}

// Reading is a stream of a run: how far it is, or how it has ended.
type Reading struct {
	Source   string // "" where the run is over one
	Stream   string
	Started  time.Time
	Updated  time.Time
	Records  int64
	Bytes    int64
	Pages    int
	Requests int
	Total    int64 // records the list says it has; -1: it does not say
	Counts   pipeline.Counts
	Windows  int                     // of a pass that goes window by window: those done
	Of       int                     // of how many; 0: it does not
	Reports  []pipeline.StreamReport // one a destination, once it has ended
}

// Statuses are all pipelines by name. The caller may keep what it gets.
func (h *Hub) Statuses() []Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Status, 0, len(h.pipelines))
	for _, name := range slices.Sorted(maps.Keys(h.pipelines)) {
		all = append(all, h.pipelines[name].clone())
	}
	return all
}

// Status is one pipeline.
func (h *Hub) Status(name string) (Status, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.pipelines[name]
	if !ok {
		return Status{}, false
	}
	return s.clone(), true
}

func (s *Status) clone() Status {
	c := *s
	c.Next = slices.Clone(s.Next)
	if s.Running != nil {
		r := *s.Running
		r.Streams = slices.Clone(r.Streams)
		if r.rates != nil {
			r.Rates = r.rates()
		}
		c.Running = &r
	}
	return c
}

// update changes what is known of a pipeline and wakes the followers.
func (h *Hub) update(name string, f func(*Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.pipelines[name]
	if s == nil {
		s = &Status{Name: name}
		h.pipelines[name] = s
	}
	f(s)
	h.changed(name)
}

// drop forgets a pipeline that the configuration does not have any more.
func (h *Hub) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pipelines, name)
	h.changed(name)
}

// Changed wakes the followers because of something that has a page of its own,
// such as "webhooks".
func (h *Hub) Changed(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed(topic)
}

func (h *Hub) changed(topic string) {
	for f := range h.followers {
		f.dirty[topic] = true
		select {
		case f.wake <- struct{}{}:
		default: // it is awake and has not looked yet
		}
	}
}

// progress takes one step of a run.
func (h *Hub) progress(name, run string, e pipeline.Event, now time.Time) {
	h.update(name, func(s *Status) {
		if s.Running != nil && s.Running.Run == run {
			s.Running.step(e, now)
		}
	})
}

func (r *Running) step(e pipeline.Event, now time.Time) {
	i := slices.IndexFunc(r.Streams, func(s Reading) bool { return s.Stream == e.Stream && s.Source == e.Source })
	if i < 0 {
		r.Streams = append(r.Streams, Reading{Source: e.Source, Stream: e.Stream, Started: now, Total: -1})
		i = len(r.Streams) - 1
	}
	s := &r.Streams[i]
	s.Updated = now
	switch e.Kind {
	case pipeline.EventPage:
		s.Pages++
		s.Records += e.Records
		s.Bytes += e.Bytes
		s.Requests += e.Requests
		s.Total = max(s.Total, e.Total)
		if e.Windows != nil {
			s.Windows, s.Of = e.Windows.Done, e.Windows.Of
		}
	case pipeline.EventCommit:
		s.Counts = e.Counts
	case pipeline.EventEnd:
		if s.Source != "" { // of thousands of sources, none stays // Invariant 6
			r.Past.add(*s)
			r.Streams = slices.Delete(r.Streams, i, i+1)
		} else if e.Report != nil {
			s.Reports = append(slices.Clip(s.Reports), *e.Report)
		}
	}
}

func (p *Past) add(s Reading) {
	p.Streams++
	p.Pages += s.Pages
	p.Requests += s.Requests
	p.Records += s.Records
}

// Follower is told what has changed since it has last looked. Changes that come
// faster than it looks are one: what it holds is bounded by what there is, and
// a reader that is slow keeps nobody waiting.
type Follower struct {
	hub   *Hub
	wake  chan struct{}
	dirty map[string]bool // guarded by the hub
}

// Follow begins to note changes. Close the follower when done.
func (h *Hub) Follow() *Follower {
	f := &Follower{hub: h, wake: make(chan struct{}, 1), dirty: map[string]bool{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers[f] = struct{}{}
	return f
}

// Next waits for a change and gives the names of what has changed, pipelines
// and other topics, in order.
func (f *Follower) Next(ctx context.Context) ([]string, error) {
	select {
	case <-f.wake:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	names := slices.Sorted(maps.Keys(f.dirty))
	clear(f.dirty)
	return names, nil
}

// Close ends the following.
func (f *Follower) Close() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	delete(f.hub.followers, f)
}
