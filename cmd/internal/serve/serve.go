// Package serve is the daemon: it runs pipelines when their slots come, has
// webhook events applied, and answers HTTP. It knows no driver and reads no
// configuration file: cmd/penstock says with a [Pipeline] what a run is, and
// hands in the handlers of the webhook receiver, the dashboard and the signals,
// which are packages of their own below this one. Begin with [New], hand its
// [Daemon] to whoever shows or orders something, then [Daemon.Run].
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Config is what a daemon is made of.
type Config struct {
	Listener  net.Listener // that requests come from; Run closes it
	Hosts     []string     // names it is reached by besides those of this machine, see allowHosts
	Handlers  Handlers
	Pipelines []Pipeline
	Observers []Observer
	Journal   state.Journal // of slots and runs; the caller closes it once Run has returned
	Log       *slog.Logger

	// Now is the time of day by which slots are due and all is recorded, the same for
	// every daemon that shares the journal: see [state.Store]. nil is this machine's.
	Now func() time.Time

	// Encode makes of a report what the journal keeps of it for those who look.
	Encode func(pipeline.Report) json.RawMessage

	Supervisor Supervisor

	// Redact takes the secrets out of what runs tell, before it is written down or
	// shown; nil leaves texts as they are.
	Redact func(string) string

	// Reload reads the configuration again. With an error everything stays as it
	// is. It may be nil.
	Reload func(ctx context.Context) ([]Pipeline, error)
	// Pending are the keys of the configuration that was read last which only the
	// next start goes by. It may be nil.
	Pending func() []string
	// Hangup asks for a reload whenever it gives something; it may be nil.
	Hangup <-chan struct{}
}

// Daemon runs pipelines at their slots and on demand. Its methods may be called
// from any goroutine once Run has begun.
type Daemon struct {
	Config
	hub     *Hub
	observe observers

	mu      sync.Mutex
	workers map[string]*worker
	leaving map[string]*Pipeline // taken out while something of them is under way; nil, or what comes after it
	names   []string             // that it is reached by now, see SetHosts
	ctx     context.Context
	all     sync.WaitGroup
}

// Errors of orders.
var (
	ErrUnknown  = errors.New("no such thing")
	ErrBusy     = errors.New("a run of this pipeline is under way")
	ErrStopping = errors.New("the daemon is stopping")
)

// New returns a daemon that has not begun. Handlers, which may need it, can be
// set until Run.
func New(c Config) *Daemon {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Redact == nil {
		c.Redact = func(s string) string { return s }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Daemon{Config: c, hub: NewHub(), observe: c.Observers, names: c.Hosts, workers: map[string]*worker{}, leaving: map[string]*Pipeline{}}
}

// Hub is the present state of everything.
func (d *Daemon) Hub() *Hub { return d.hub }

// How long what is under way may take once the daemon is stopped: runs have
// eight seconds of their own for their open commits. // Invariant 15
const (
	stopGrace   = 9 * time.Second
	answerGrace = 2 * time.Second
)

// errLeft says that something did not end in time.
var errLeft = errors.New("stopped before everything had ended; what was committed stays")

// Run works until ctx ends and then lets what is under way come to a safe end.
// Its error is what kept it from working.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.ctx = ctx
	err := d.Journal.BreakRuns(ctx, "the process ended in the middle of it")
	if err == nil {
		err = d.define(d.Pipelines)
	}
	if err != nil {
		return errors.Join(err, d.Listener.Close())
	}
	served := make(chan error, 1)
	go func() {
		defer close(served)
		served <- d.answer(ctx)
	}()
	sd := d.Supervisor.connect()
	sd.tell("READY=1")
	d.Log.Info("serving", "address", d.Listener.Addr().String(), "pipelines", len(d.Pipelines))
	err = d.attend(ctx, sd, served)
	sd.tell("STOPPING=1")
	cancel(context.Cause(ctx))
	if !d.settle(served) {
		err = errors.Join(err, errLeft)
	}
	return errors.Join(err, sd.close())
}

// attend does what the daemon itself does while its workers work. It returns
// when ctx ends, or with what the listener has met.
func (d *Daemon) attend(ctx context.Context, sd *notifier, served <-chan error) error {
	alive := time.NewTicker(sd.interval())
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			if err != nil {
				return fmt.Errorf("serve http: %w", err)
			}
			return nil // as ctx has ended
		case <-d.Hangup:
			sd.tell(sd.reloading())
			_ = d.ReloadNow(ctx) // it has been logged
			sd.tell("READY=1")
		case <-alive.C:
			if d.Alive() == nil {
				sd.tell("WATCHDOG=1")
			}
		}
	}
}

// settle waits for workers and answers to end, no longer than it may.
func (d *Daemon) settle(served <-chan error) bool {
	done := make(chan struct{})
	go func() {
		d.all.Wait()
		<-served //nolint:errcheck // closed, if attend has had what it gave
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(stopGrace):
		return false
	}
}

// ReloadNow reads the configuration again. Runs under way end as they began;
// with an error everything stays as it was.
func (d *Daemon) ReloadNow(ctx context.Context) error {
	if d.Reload == nil {
		return nil
	}
	pipelines, err := d.Reload(ctx)
	if err == nil {
		err = d.define(pipelines)
	}
	n := Reloaded{At: d.Now(), Err: d.clean(err)}
	if err != nil {
		d.Log.Error("configuration not read again; the one before is used", "error", err)
	} else {
		d.Log.Info("configuration read again", "pipelines", len(pipelines))
		if d.Pending != nil {
			n.Pending = d.Pending()
		}
		for _, key := range n.Pending {
			d.Log.Warn("a change of the configuration takes a restart; until then what was there at the start is used", "key", key)
		}
	}
	d.observe.Observe(n)
	return err
}

// define makes these the pipelines of the daemon.
func (d *Daemon) define(all []Pipeline) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return ErrStopping
	}
	kept := map[string]bool{}
	for _, p := range all {
		kept[p.Name] = true
		_, leaving := d.leaving[p.Name]
		switch w := d.workers[p.Name]; {
		case w != nil:
			w.define(p)
		case leaving:
			d.leaving[p.Name] = &p // no two at once // Invariant 18
		default:
			d.begin(p)
		}
	}
	for name := range d.leaving {
		if !kept[name] {
			d.leaving[name] = nil
		}
	}
	for name, w := range maps.Clone(d.workers) {
		if !kept[name] {
			delete(d.workers, name)
			d.leaving[name] = nil
			w.retire()
		}
	}
	return nil
}

// begin has a worker look after a pipeline; d.mu is held.
func (d *Daemon) begin(p Pipeline) {
	w := newWorker(d, p)
	d.workers[p.Name] = w
	d.all.Go(func() {
		w.live(d.ctx)
		d.left(p.Name)
	})
}

// left notes that nothing of a pipeline is under way any more. One that was taken
// out and has come back since begins now.
func (d *Daemon) left(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	back := d.leaving[name]
	delete(d.leaving, name)
	if back != nil && d.ctx.Err() == nil {
		d.begin(*back)
	}
}

func (d *Daemon) worker(name string) (*worker, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.workers[name]; w != nil {
		return w, nil
	}
	if d.leaving[name] != nil {
		return nil, fmt.Errorf("pipeline %s: %w", name, ErrBusy)
	}
	return nil, fmt.Errorf("pipeline %s: %w", name, ErrUnknown)
}

// RunNow begins a run and gives its id. It returns [ErrBusy] if one is under
// way and [ErrUnknown] for a pipeline that there is not, both wrapped.
func (d *Daemon) RunNow(name string, o Order) (string, error) {
	w, err := d.worker(name)
	if err != nil {
		return "", err
	}
	o.Run = pipeline.NewRunID(d.Now())
	if o.Trigger == "" {
		o.Trigger = TriggerManual
	}
	return o.Run, w.order(o)
}

// Pause has the slots of a pipeline be skipped, and recorded as such, until
// Resume. A run under way goes on.
func (d *Daemon) Pause(ctx context.Context, name string) error {
	w, err := d.worker(name)
	if err != nil {
		return err
	}
	return w.pause(ctx, d.Now())
}

// Resume lets the slots of a pipeline be run again, from the next one on.
func (d *Daemon) Resume(ctx context.Context, name string) error {
	w, err := d.worker(name)
	if err != nil {
		return err
	}
	return w.pause(ctx, time.Time{})
}

// Observe tells the daemon's observers what a part of it has seen.
func (d *Daemon) Observe(n Notice) { d.observe.Observe(n) }

// Received tells the daemon that an event of a source is in the inbox. Its sender
// waits meanwhile, so that it waits for no worker, which may be writing.
func (d *Daemon) Received(source string) {
	d.hub.Changed("webhooks")
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workers {
		if slices.Contains(*w.sources.Load(), source) {
			wake(w.events)
		}
	}
}

// stuck is how long a worker may be busy with nothing that takes time by right
// before it counts as dead.
const stuck = 2 * time.Minute

// Alive is nil while every worker answers. It is what a watchdog goes by.
func (d *Daemon) Alive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, w := range d.workers {
		if since := time.Since(*w.alive.Load()); since > stuck {
			return fmt.Errorf("pipeline %s: no sign of life for %s", name, since.Round(time.Second))
		}
	}
	return nil
}
