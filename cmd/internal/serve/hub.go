package serve

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Hub keeps the current state of every pipeline, and of the streams that are being read. It notifies followers of
// changes. It has one entry per pipeline, and one per stream of the current or last run. It keeps no history, so its
// memory does not grow with time. // Invariant 6
//
// Hub is safe for concurrent use.
type Hub struct {
	mu        sync.Mutex
	pipelines map[string]*Status
	followers map[*Follower]struct{}
}

// NewHub returns an empty hub.
func NewHub() *Hub {
	return &Hub{pipelines: map[string]*Status{}, followers: map[*Follower]struct{}{}}
}

// Status is the current state of a pipeline.
type Status struct {
	Name          string
	Sources       []string
	Destinations  []string
	Streams       []string
	Schedule      string // as configured; "" if there is none
	Paused        bool
	Next          []time.Time      // the next slots, earliest first
	Running       *Running         // nil: no run is in progress
	Last          *pipeline.Report // report of the last run in this process
	LastErr       error            // error of the last run itself, not of its streams
	Deltas        *DeltasApplied   // the last time that webhook events were applied, and the result
	AppliesEvents bool             // the pipeline applies webhook events
}

// Running is a run in progress.
type Running struct {
	Run     string
	Trigger Trigger
	Due     time.Time // when its slot was due; zero: the run has no slot
	Started time.Time
	Streams []Reading // in the order in which they began; if the run reads several sources, only the streams in progress
	Past    Past      // if the run reads several sources: sums of the finished streams
	Rates   []Rate    // request budgets of the surfaces to which the run sends requests

	rates func() []Rate
}

// Rate is the current request budget of one surface, as a run sees it.
type Rate struct {
	Surface  string    // v2, app, or a stream that has a credential of its own
	Limit    string    // for example 100/s; "" while unknown
	Allowed  float64   // requests per second at present
	Used     float64   // share of Allowed that was used in the last seconds, from 0 to about 1
	Sent     uint64    // requests so far with the credential, by all processes
	Refused  uint64    // how many of the requests in Sent got status 429
	InFlight int       // requests in progress
	WaitsFor string    // what the next request waits for; "" if it does not wait
	Until    time.Time // when the next request may be sent; zero or a past time means now
}

// Past has the sums of the finished streams of a run over several sources.
type Past struct {
	Streams, Pages, Requests int
	Records                  int64
}

// Reading is a stream of a run: its progress, or its outcome.
type Reading struct {
	Source   string // "" if the run reads one source
	Stream   string
	Started  time.Time
	Updated  time.Time
	Records  int64
	Bytes    int64
	Pages    int
	Requests int
	Total    int64 // length of the list, as the API reports it; -1: not reported
	Counts   pipeline.Counts
	Windows  int                     // finished windows of time, if the pass reads the list in windows
	Of       int                     // number of windows; 0: the pass does not use windows
	Reports  []pipeline.StreamReport // one per destination, as soon as the stream has ended there
}

// Statuses returns the state of all pipelines, sorted by name. The caller may keep it.
func (h *Hub) Statuses() []Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Status, 0, len(h.pipelines))
	for _, name := range slices.Sorted(maps.Keys(h.pipelines)) {
		all = append(all, h.pipelines[name].clone())
	}
	return all
}

// Status returns the state of one pipeline.
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

func (h *Hub) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pipelines, name)
	h.changed(name)
}

// Changed notifies the followers of a change that does not belong to one pipeline. The parameter topic names what has
// changed, for example "webhooks".
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
		default:
		}
	}
}

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
		if s.Source != "" { // do not keep finished streams: a run may have thousands of sources // Invariant 6
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

// Follower collects the changes since its last call of Next. Several changes of a topic are merged, so its memory
// is limited, and a slow reader does not delay the hub.
type Follower struct {
	hub   *Hub
	wake  chan struct{}
	dirty map[string]bool // guarded by hub.mu
}

// Follow returns a follower that collects the changes from now on. The caller must close it.
func (h *Hub) Follow() *Follower {
	f := &Follower{hub: h, wake: make(chan struct{}, 1), dirty: map[string]bool{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers[f] = struct{}{}
	return f
}

// Next waits for a change and returns the names of the changed pipelines and topics, sorted.
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

// Close stops the follower.
func (f *Follower) Close() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	delete(f.hub.followers, f)
}
