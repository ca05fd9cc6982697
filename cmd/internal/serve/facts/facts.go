// Package facts tells the dashboard how everything stands. It puts together what
// the daemon's hub knows of this moment, what the journal keeps of slots and runs,
// what waits in the inbox, and what each destination's own tables say of runs,
// certificates, rejects and tables. Those tables are read now and then, not for
// each visitor: a page is made of what was read last. Begin with [New], hand the
// [Facts] to the daemon as an observer, then [Facts.Attach] and [Facts.Work].
package facts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Daemon is what does what visitors ask for, and knows what is under way.
type Daemon interface {
	Hub() *serve.Hub
	RunNow(name string, o serve.Order) (string, error)
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
}

// Config is where facts come from.
type Config struct {
	Places     func() []Place    // the destinations, as the configuration has them now
	Webhooks   func() []Receiver // the sources that send webhooks, ditto
	Workspaces Workspaces
	Journal    state.Journal
	Inbox      state.Inbox // nil: no webhooks are received
	Log        *slog.Logger
	Clock      func() time.Time // the time of day that runs and events bear; nil: this machine's
}

// Place is a destination, or what one source has of its own in it. What opens it
// opens it for a look; it is closed right after, so that its file is held no longer
// than that. Where nothing was loaded yet, that may return fs.ErrNotExist, wrapped.
type Place struct {
	Name   string
	Source string                                                             // whose place it is; "" where it is no single source's
	Open   func(context.Context) (load.Destination, error)                    // nil: there are too many places of its sources
	Of     func(ctx context.Context, source string) (load.Destination, error) // what a source has there; nil where there are not several
}

// called names a place among all.
func (p Place) called() string { return p.Name + "@" + p.Source }

// Receiver is a source that sends webhooks and what its deliveries are verified by.
type Receiver struct{ Source, Scheme string }

// Facts implements board.Facts, board.Control and serve.Observer. Its methods may
// be called from any goroutine.
type Facts struct {
	Config
	daemon Daemon
	feed   *board.Feed
	since  time.Time
	look   chan struct{} // asks for the destinations that were written to be read again

	mu      sync.Mutex
	ended   map[string]bool      // pipelines with runs that have ended since
	books   map[string]*snapshot // by place, as last read
	turns   map[string]readLock  // ditto
	corners map[string]*sourceSnapshot
	first   chan struct{} // closed once all of them were read, or tried
	budgets []budget
	traffic map[string]*traffic
	roll    roll
	notices []string // about the configuration, as it was last read
}

var (
	_ board.Facts    = (*Facts)(nil)
	_ board.Control  = (*Facts)(nil)
	_ serve.Observer = (*Facts)(nil)
)

// New returns facts that know nothing yet, and tell feed of what changes.
func New(c Config, feed *board.Feed) *Facts {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Facts{Config: c, feed: feed, since: c.Clock(), look: make(chan struct{}, 1), ended: map[string]bool{}, books: map[string]*snapshot{}, turns: map[string]readLock{}, corners: map[string]*sourceSnapshot{},
		first: make(chan struct{}), traffic: map[string]*traffic{}}
}

// How often facts are looked at that nothing tells of.
const (
	sampleEvery = 10 * time.Second
	lookEvery   = 5 * time.Minute // a run by hand is seen then
	lookWithin  = 2 * time.Minute
	firstWithin = 5 * time.Second // how long a visitor waits for the first look
)

// Attach sets the daemon that the facts are about. It comes before Work and before the first visitor.
func (f *Facts) Attach(d Daemon) { f.daemon = d }

// Work keeps the facts up to date until ctx ends.
func (f *Facts) Work(ctx context.Context) {
	h := f.daemon.Hub()
	var all sync.WaitGroup
	all.Go(func() { f.follow(ctx, h) })
	all.Go(func() { f.lookAgain(ctx) })
	all.Go(func() { f.sampleRates(ctx, h) })
	all.Wait()
}

// follow passes on what the hub notes.
func (f *Facts) follow(ctx context.Context, h *serve.Hub) {
	follower := h.Follow()
	defer follower.Close()
	for {
		names, err := follower.Next(ctx)
		if err != nil {
			return
		}
		for _, name := range names {
			if _, ok := h.Status(name); ok {
				f.feed.Tell(board.Note{Pipeline: name})
			} else {
				f.feed.Tell(board.Note{Page: name})
			}
		}
	}
}

// lookAgain reads the destinations at once and now and then, and those of a pipeline
// after each of its runs. One that is busy, as a file is while it is loaded, keeps no
// other waiting.
func (f *Facts) lookAgain(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	first := &sync.WaitGroup{}
	for _, p := range f.Places() {
		first.Add(1)
		all.Go(func() { f.lookAt(ctx, p); first.Done() })
	}
	all.Go(func() { first.Wait(); close(f.first) })
	for {
		everything := false
		select {
		case <-f.look:
		case <-t.C:
			everything = true
		case <-ctx.Done():
			return
		}
		written := f.written()
		for _, p := range f.Places() {
			if everything || written[p.Name] {
				all.Go(func() { f.lookAt(ctx, p) })
			}
		}
	}
}

// written are the destinations of the pipelines whose runs have ended since it was
// last asked.
func (f *Facts) written() map[string]bool {
	f.mu.Lock()
	ended := f.ended
	f.ended = map[string]bool{}
	f.mu.Unlock()
	all := map[string]bool{}
	for name := range ended {
		s, _ := f.daemon.Hub().Status(name)
		for _, to := range s.Destinations {
			all[to] = true
		}
	}
	return all
}

// restOf is how long a destination is left alone that took so long to read: it is read
// a tenth of the time at most, however much it has.
func restOf(reading time.Duration) time.Duration { return 9 * reading }

// lookAt reads one destination, unless somebody is about to. One that cannot be
// read is told of as it was.
func (f *Facts) lookAt(ctx context.Context, p Place) {
	turn := f.turn(p.called())
	select {
	case turn.next <- struct{}{}:
	default:
		return // whoever waits for the turn will see what is there now
	}
	select {
	case turn.now <- struct{}{}:
		<-turn.next
	case <-ctx.Done():
		<-turn.next
		return
	}
	took := f.read(ctx, p)
	time.AfterFunc(restOf(took), func() { <-turn.now })
}

// read reads one destination, and says how long that took once it was open: until then
// it may have waited for others.
func (f *Facts) read(ctx context.Context, p Place) (took time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	begun := time.Now()
	if open := p.Open; open != nil {
		p.Open = func(ctx context.Context) (load.Destination, error) {
			defer func() { begun = time.Now() }()
			return open(ctx)
		}
	}
	b, err := readBook(ctx, p)
	took = time.Since(begun)
	if err != nil {
		if ctx.Err() == nil {
			f.Log.Warn("destination not read for the dashboard", "destination", p.Name, "error", err)
		}
		return took
	}
	f.mu.Lock()
	f.books[p.called()] = b
	f.mu.Unlock()
	f.feed.Tell(board.Note{Page: "streams"})
	return took
}

// readLock keeps two from reading one destination at once: one reads, one may wait.
type readLock struct{ now, next chan struct{} }

func (f *Facts) turn(place string) readLock {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.turns[place]
	if !ok {
		t = readLock{make(chan struct{}, 1), make(chan struct{}, 1)}
		f.turns[place] = t
	}
	return t
}

// Observe implements serve.Observer.
func (f *Facts) Observe(n serve.Notice) {
	switch n := n.(type) {
	case serve.RunEnded:
		f.mu.Lock()
		f.ended[n.Pipeline] = true
		f.mu.Unlock()
		select {
		case f.look <- struct{}{}:
		default: // it is asked for already
		}
	case serve.WebhookSeen:
		f.seen(n, f.Clock())
	case serve.Reloaded:
		f.reloaded(n)
	}
}

// reloaded keeps what a visitor has to know of the configuration.
func (f *Facts) reloaded(n serve.Reloaded) {
	var all []string
	if n.Err != nil {
		all = append(all, "Cannot reload the configuration; the previous one stays in use: "+n.Err.Error())
	}
	for _, key := range n.Pending {
		all = append(all, key+" has changed in the configuration and needs a restart.")
	}
	f.mu.Lock()
	f.notices = all
	f.mu.Unlock()
	f.feed.Tell(board.Note{Page: "configuration"})
}

// Start implements board.Control.
func (f *Facts) Start(_ context.Context, name string, streams ...string) error {
	o := serve.Order{Trigger: serve.TriggerManual, Streams: streams}
	if streams != nil {
		if err := f.known(name, streams); err != nil {
			return err
		}
		o.Trigger = serve.TriggerRetry
	}
	_, err := f.daemon.RunNow(name, o)
	return asked(err)
}

// Pause implements board.Control.
func (f *Facts) Pause(ctx context.Context, name string) error {
	return asked(f.daemon.Pause(ctx, name))
}

// Resume implements board.Control.
func (f *Facts) Resume(ctx context.Context, name string) error {
	return asked(f.daemon.Resume(ctx, name))
}

// known keeps a stream's name from being taken for a pattern.
func (f *Facts) known(name string, streams []string) error {
	s, ok := f.daemon.Hub().Status(name)
	for _, stream := range streams {
		if !ok || !contains(s.Streams, stream) {
			return fmt.Errorf("stream %s of %s: %w", stream, name, board.ErrUnknown)
		}
	}
	return nil
}
