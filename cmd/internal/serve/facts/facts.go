// Package facts provides the data of the dashboard. The current state comes from the daemon's hub, slots and runs
// from the journal, and events from the inbox. Runs, certificates, rejects and changes of tables come from
// penstock's own tables in each destination. Most visits do not cause reads of these tables: the tables are read
// from time to time, and pages show the last snapshot. Start with [New], pass the [Facts] to the daemon as an
// observer, and then call [Facts.Attach] and [Facts.Refresh].
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
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Daemon is the part of [serve.Daemon] that Facts needs: it performs actions of visitors, and its hub has the
// current state.
type Daemon interface {
	Hub() *serve.Hub
	RunNow(name string, o serve.RunRequest) (string, error)
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
}

// Config says where Facts gets its data.
type Config struct {
	Destinations func() []DestinationPart // returns the destinations of the current configuration
	Webhooks     func() []Receiver        // returns the sources that have webhooks in the current configuration
	Workspaces   Workspaces
	Journal      state.Journal
	Inbox        state.Inbox // nil: there are no webhooks
	Log          *slog.Logger
	Clock        func() time.Time // clock of runs and events; nil: time.Now
}

// DestinationPart is a destination, or the part of a destination that belongs to one source. It is opened to read
// a snapshot and then closed, so that no file is held open. If nothing was loaded yet, opening may return a
// wrapped fs.ErrNotExist.
type DestinationPart struct {
	Name     string
	Source   string                                                             // the source to which the part belongs; "": it contains the data of several sources
	Open     func(context.Context) (load.Destination, error)                    // nil if each source has a part, and there are too many parts to read them all
	OpenPart func(ctx context.Context, source string) (load.Destination, error) // opens the part of one source; nil if sources have no parts

	// Configured reports whether the configuration has a check of the data; nil: all checks are shown.
	Configured func(stream, check string) bool
}

func (p DestinationPart) called() string { return p.Name + "@" + p.Source }

// Receiver is a source with webhooks and the signature scheme of its deliveries.
type Receiver struct{ Source, Scheme string }

// Facts implements board.Facts, board.Control and serve.Observer. It is safe for concurrent use.
type Facts struct {
	Config
	daemon Daemon
	feed   *board.Feed
	since  time.Time
	look   chan struct{} // starts a read of the destinations that runs have written to

	rates      rates
	deliveries deliveries

	mu              sync.Mutex
	ended           map[string]bool
	snapshots       map[string]*snapshot // last snapshot of each destination, by DestinationPart.called
	readLocks       map[string]readLock
	sourceSnapshots map[string]*sourceSnapshot
	first           chan struct{} // closed after the first try to read each destination
	sourceList      sourceList
	kit             func() ([]schemas.View, error) // penstock's views
	notices         []string
}

var (
	_ board.Facts    = (*Facts)(nil)
	_ board.Control  = (*Facts)(nil)
	_ serve.Observer = (*Facts)(nil)
)

// New returns Facts without data. It reports changes to the feed.
func New(c Config, feed *board.Feed) *Facts {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Facts{Config: c, feed: feed, since: c.Clock(), look: make(chan struct{}, 1), ended: map[string]bool{}, snapshots: map[string]*snapshot{}, readLocks: map[string]readLock{}, sourceSnapshots: map[string]*sourceSnapshot{},
		kit: sync.OnceValues(schemas.LoadViews), first: make(chan struct{}), deliveries: deliveries{bySource: map[string]*traffic{}}}
}

// How often data is read, and time limits for reading. Some changes cause an earlier read.
const (
	sampleEvery = 10 * time.Second
	lookEvery   = 5 * time.Minute // so that runs of other processes are found
	lookWithin  = 2 * time.Minute
	firstWithin = 5 * time.Second // how long a visitor waits for the first read
)

// Attach sets the daemon. Call it before Refresh and before the first visitor's request.
func (f *Facts) Attach(d Daemon) { f.daemon = d }

// Refresh keeps the facts up to date until ctx ends.
func (f *Facts) Refresh(ctx context.Context) {
	h := f.daemon.Hub()
	var all sync.WaitGroup
	all.Go(func() { f.follow(ctx, h) })
	all.Go(func() { f.lookAgain(ctx) })
	all.Go(func() { f.rates.follow(ctx, h, f.Clock, f.feed) })
	all.Wait()
}

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
				f.feed.Publish(board.Update{Pipeline: name})
			} else {
				f.feed.Publish(board.Update{Page: name})
			}
		}
	}
}

// lookAgain reads all destinations now, and again every lookEvery. After each run it also reads the destinations
// of the run's pipeline. It reads the destinations concurrently, so a busy destination does not delay the others.
func (f *Facts) lookAgain(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	first := &sync.WaitGroup{}
	for _, p := range f.Destinations() {
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
		for _, p := range f.Destinations() {
			if everything || written[p.Name] {
				all.Go(func() { f.lookAt(ctx, p) })
			}
		}
	}
}

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

// restOf returns how long to wait after a read. It is nine times as long as the read, so that reads take at most
// a tenth of the time.
func restOf(reading time.Duration) time.Duration { return 9 * reading }

// lookAt reads a destination. It does nothing if another goroutine already waits to read the same destination. If
// the read fails, the last snapshot stays.
func (f *Facts) lookAt(ctx context.Context, p DestinationPart) {
	lock := f.readLockOf(p.called())
	select {
	case lock.next <- struct{}{}:
	default:
		return
	}
	select {
	case lock.now <- struct{}{}:
		<-lock.next
	case <-ctx.Done():
		<-lock.next
		return
	}
	took := f.read(ctx, p)
	time.AfterFunc(restOf(took), func() { <-lock.now })
}

// read reads a snapshot and returns how long that took. The time to open the destination does not count, because
// opening may wait for other processes.
func (f *Facts) read(ctx context.Context, p DestinationPart) (took time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	begun := time.Now()
	if open := p.Open; open != nil {
		p.Open = func(ctx context.Context) (load.Destination, error) {
			defer func() { begun = time.Now() }()
			return open(ctx)
		}
	}
	b, err := readSnapshot(ctx, p)
	took = time.Since(begun)
	if err != nil {
		if ctx.Err() == nil {
			f.Log.Warn("cannot read destination for the dashboard", "destination", p.Name, "error", err)
		}
		return took
	}
	f.mu.Lock()
	f.snapshots[p.called()] = b
	f.mu.Unlock()
	f.feed.Publish(board.Update{Page: "streams"})
	return took
}

// readLock lets one goroutine read a destination, and one more wait.
type readLock struct{ now, next chan struct{} }

func (f *Facts) readLockOf(part string) readLock {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.readLocks[part]
	if !ok {
		t = readLock{make(chan struct{}, 1), make(chan struct{}, 1)}
		f.readLocks[part] = t
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
		default:
		}
	case serve.WebhookSeen:
		f.deliveries.add(n, f.Clock())
	case serve.Reloaded:
		f.reloaded(n)
	}
}

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
	f.feed.Publish(board.Update{Page: "configuration"})
}

// Start implements board.Control.
func (f *Facts) Start(_ context.Context, name string, streams ...string) error {
	o := serve.RunRequest{Trigger: serve.TriggerManual, Streams: streams}
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

// known() returns an error if one of the names is not the name of a stream in the pipeline. Without this check, a run
// would use that name as a pattern.
func (f *Facts) known(name string, streams []string) error {
	s, ok := f.daemon.Hub().Status(name)
	for _, stream := range streams {
		if !ok || !contains(s.Streams, stream) {
			return fmt.Errorf("stream %s of %s: %w", stream, name, board.ErrUnknown)
		}
	}
	return nil
}
