// Package serve is the daemon. It runs pipelines on schedule, applies webhook events and serves HTTP. It depends
// on no driver and reads no configuration file. cmd/penstock makes a [Pipeline] for each configured pipeline, and
// the HTTP handlers: the webhook receiver, the dashboard and the metrics, which are in subpackages of serve. Start
// with [New], pass the [Daemon] to the handlers, and then call [Daemon.Run].
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
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/state"
)

// Config configures a Daemon.
type Config struct {
	Listener  net.Listener // for HTTP; Run closes the listener
	Hosts     []string     // host names that requests may use besides localhost, see allowHosts
	Handlers  Handlers
	Pipelines []Pipeline
	Observers []Observer
	Journal   state.Journal // stores slots and runs; the caller closes the journal once Run has returned; nil for a daemon without pipelines
	Log       *slog.Logger

	// Now is the clock for slots and records, see [state.Store]. All daemons that share the journal must use the same
	// clock. If Now is nil, the daemon uses time.Now.
	Now func() time.Time

	// Problems returns why the streams of a run are not complete, for the log; nil to leave this out of the log.
	Problems func(pipeline.Report) []Problem

	// Encode returns a report in the form that the journal stores.
	Encode func(pipeline.Report) json.RawMessage

	Supervisor Supervisor

	// Redact removes secrets from texts of runs before they are stored or shown. nil: texts stay unchanged.
	Redact func(string) string

	// Reload reads the configuration again. If it returns an error, the daemon keeps its pipelines. Reload may be nil.
	Reload func(ctx context.Context) ([]Pipeline, error)
	// Pending returns the changed keys of the configuration that need a restart. It may be nil.
	Pending func() []string
	// Hangup triggers a reload for each received value. It may be nil.
	Hangup <-chan struct{}
}

// Daemon runs pipelines on schedule and on demand. After Run has begun, any goroutine may call its methods.
type Daemon struct {
	Config
	hub     *Hub
	observe observers

	mu      sync.Mutex
	workers map[string]*worker
	leaving map[string]*Pipeline // removed pipelines whose work has not ended yet; the value is the new definition if the pipeline was added again, or else nil
	names   []string
	ctx     context.Context
	all     sync.WaitGroup
}

// Errors of RunNow, Pause and Resume.
var (
	ErrUnknown  = errors.New("no such pipeline")
	ErrBusy     = errors.New("a run of this pipeline is in progress")
	ErrStopping = errors.New("the daemon is stopping")
)

// New returns a daemon that does not run yet. Handlers may need the daemon, so the caller may set Daemon.Handlers
// afterwards, before it calls Run.
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

// Hub returns the hub with the current state.
func (d *Daemon) Hub() *Hub { return d.hub }

// When a daemon stops, it waits at most stopGrace for all of its work, and at most answerGrace for HTTP requests. Open
// commits may use eight seconds of stopGrace. // Invariant 15
const (
	stopGrace   = 9 * time.Second
	answerGrace = 2 * time.Second
)

var errLeft = errors.New("stopped before all work had ended; committed data is safe")

// Run runs the daemon until ctx ends. Then it lets the work in progress end safely. It returns an error if it
// could not start or serve, or if work did not end in time.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.ctx = ctx
	var err error
	if d.Journal != nil {
		err = d.Journal.BreakRuns(ctx, "the process ended during the run")
	}
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
			return nil
		case <-d.Hangup:
			sd.tell(sd.reloading())
			_ = d.ReloadNow(ctx)
			sd.tell("READY=1")
		case <-alive.C:
			if d.Alive() == nil {
				sd.tell("WATCHDOG=1")
			}
		}
	}
}

// settle waits for workers and requests, and reports whether they have ended within stopGrace.
func (d *Daemon) settle(served <-chan error) bool {
	done := make(chan struct{})
	go func() {
		d.all.Wait()
		<-served //nolint:errcheck // closed if attend has received the value
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(stopGrace):
		return false
	}
}

// ReloadNow reads the configuration again. Runs in progress keep the old definition of their pipeline. After an
// error, the daemon keeps all pipelines.
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
		d.Log.Error("configuration not reloaded; the previous one stays in use", "error", err)
	} else {
		d.Log.Info("configuration reloaded", "pipelines", len(pipelines))
		if d.Pending != nil {
			n.Pending = d.Pending()
		}
		for _, key := range n.Pending {
			d.Log.Warn("a change of the configuration needs a restart; until then the old value is used", "key", key)
		}
	}
	d.observe.Observe(n)
	return err
}

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
			d.leaving[p.Name] = &p // a pipeline must not have two workers // Invariant 18
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

// begin starts a worker for a pipeline. The caller must hold d.mu.
func (d *Daemon) begin(p Pipeline) {
	w := newWorker(d, p)
	d.workers[p.Name] = w
	d.all.Go(func() {
		w.live(d.ctx)
		d.left(p.Name)
	})
}

// left() is called when a worker has ended. If the worker's pipeline was removed and added again meanwhile, left()
// starts a new worker.
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

// RunNow starts a run and returns its id. Its error wraps [ErrBusy] if a run is in progress, [ErrUnknown] if
// there is no such pipeline, or [ErrStopping] if the daemon is stopping.
func (d *Daemon) RunNow(name string, o RunRequest) (string, error) {
	w, err := d.worker(name)
	if err != nil {
		return "", err
	}
	o.Run = runid.New(d.Now())
	if o.Trigger == "" {
		o.Trigger = TriggerManual
	}
	return o.Run, w.order(o)
}

// Pause makes the daemon skip the slots of a pipeline until Resume is called. Skipped slots are recorded. A run
// in progress continues.
func (d *Daemon) Pause(ctx context.Context, name string) error {
	w, err := d.worker(name)
	if err != nil {
		return err
	}
	return w.pause(ctx, d.Now())
}

// Resume undoes Pause: from the next slot on, the daemon runs the slots of the pipeline. Slots that were skipped during
// the pause stay skipped.
func (d *Daemon) Resume(ctx context.Context, name string) error {
	w, err := d.worker(name)
	if err != nil {
		return err
	}
	return w.pause(ctx, time.Time{})
}

// Observe passes a notice to the daemon's observers.
func (d *Daemon) Observe(n Notice) { d.observe.Observe(n) }

// Received wakes the workers because an event of a source is in the inbox. The sender of the event waits for
// Received, so Received does not wait for the workers.
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

// stuck is how long a worker may go without a call of worker.look(). After that, the worker's loop counts as stuck.
// Runs do not delay the loop.
const stuck = 2 * time.Minute

// Alive returns an error if the loop of a worker is stuck. The watchdog uses it.
func (d *Daemon) Alive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, w := range d.workers {
		if since := time.Since(*w.alive.Load()); since > stuck {
			return fmt.Errorf("pipeline %s: worker silent for %s", name, since.Round(time.Second))
		}
	}
	return nil
}
