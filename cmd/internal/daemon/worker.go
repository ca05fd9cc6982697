package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
)

// WorkerConfig configures the daemon of `penstock worker`.
type WorkerConfig struct {
	Executor   *execute.Executor
	Slots      int
	Build      signal.Build
	Supervisor serve.Supervisor
	Hangup     <-chan struct{} // gets a value for each SIGHUP
}

// worker is a daemon without pipelines. It executes the units of runs that other processes have planned. It serves
// health and metrics, and can read its configuration again.
type worker struct {
	WorkerConfig
	log     *slog.Logger
	daemon  *serve.Daemon
	metrics *signal.Metrics
	guard   *access.Guard
	begun   config.Config                  // the configuration with which the worker started
	conf    atomic.Pointer[config.Config]  // the current configuration
	units   atomic.Pointer[execute.Worker] // nil until the state database has answered
	pending atomic.Pointer[[]string]

	configuring sync.Mutex // locked while conf and the configuration of units change together
}

// RunWorker executes units until ctx ends. It serves /healthz, /readyz and /metrics from the start, even while it waits
// for the state database.
func RunWorker(ctx context.Context, c *config.Config, o WorkerConfig) error {
	w := &worker{WorkerConfig: o, log: o.Executor.Open.Log, begun: *c}
	l, err := w.listen(c)
	if err != nil {
		return err
	}
	w.guard = access.New(access.Options{Log: w.log, Observe: func(n serve.AccessRefused) { w.daemon.Observe(n) }})
	w.metrics = signal.NewMetrics(o.Build, w.read)
	w.daemon = serve.New(serve.Config{
		Listener: l, Log: w.log, Supervisor: o.Supervisor, Hangup: o.Hangup, Observers: []serve.Observer{w.metrics},
		Reload: w.reload, Pending: w.waiting, Redact: o.Executor.Redactor.Redact,
	})
	health := signal.NewHealth(w.daemon.Alive, w.log)
	health.Ready(signal.Check{Name: "state", Ready: w.ready})
	w.daemon.Handlers.Health = health
	w.daemon.Handlers.Metrics = w.guard.Require(access.Metrics, w.metrics.Handler(w.log))
	w.configure(c)
	o.Executor.Open.Attempted = w.metrics.Request
	return w.run(ctx, c)
}

// freePort is an address on this machine. The system chooses the port.
const freePort = "127.0.0.1:0"

// listen opens the address of the worker. Several workers may run on one machine. So if another process already uses
// the default address, listen opens a free port.
func (w *worker) listen(c *config.Config) (net.Listener, error) {
	l, err := Listen(c, "worker", c.Worker.Listen, w.log)
	if err == nil || c.Worker.At != (config.Pos{}) || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	w.log.Warn("the default address is in use, so this worker listens on a free port; `worker: {listen: …}` in the configuration sets the address", "address", c.Worker.Listen)
	return Listen(c, "worker", freePort, w.log)
}

// run serves HTTP and executes units until ctx ends, or until one of the two fails.
func (w *worker) run(ctx context.Context, c *config.Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	served := make(chan error, 1)
	go func() {
		err := w.daemon.Run(ctx)
		if err != nil {
			cancel(err)
		}
		served <- err
	}()
	err := w.work(ctx, c)
	cancel(err)
	return errors.Join(err, <-served)
}

// work waits for the state database, and then executes units.
func (w *worker) work(ctx context.Context, c *config.Config) error {
	o := w.Executor.Open
	if err := open.AwaitState(ctx, o.State(c), o.Life); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	units, err := w.Executor.OpenWorker(ctx, c, w.Slots)
	if err != nil {
		return err
	}
	w.begin(units)
	go w.watch(ctx, units)
	w.log.Info("worker started", "slots", w.Slots)
	if err := units.Work(ctx); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// begin stores the [execute.Worker] that was opened. It also passes the current configuration to this Worker, because
// SIGHUP may have changed the configuration since the Worker was opened.
func (w *worker) begin(units *execute.Worker) {
	w.configuring.Lock()
	defer w.configuring.Unlock()
	w.units.Store(units)
	units.Configure(w.conf.Load())
}

// watchEvery is how often an idle worker finds out whether the state database answers.
const watchEvery = 5 * time.Second

// watch regularly requests an answer from the state database, even if the worker has no work. So the log says when the
// database stops answering and when it answers again.
func (w *worker) watch(ctx context.Context, units *execute.Worker) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = units.Ping(ctx) // the state logs the error
		case <-ctx.Done():
			return
		}
	}
}

var errAwaiting = errors.New("waiting for the state database")

// The method ready() returns nil if the worker has started and the state database answers.
func (w *worker) ready(ctx context.Context) error {
	units := w.units.Load()
	if units == nil {
		return errAwaiting
	}
	return units.Ping(ctx)
}

func (w *worker) read() (r signal.Reading) {
	r.Units, r.Slots = unitsNow(w.units.Load(), w.log)
	return r
}

// unitsNow returns the units and worker slots for metrics. If w is nil, the result is empty.
func unitsNow(w *execute.Worker, log *slog.Logger) (*signal.Units, []signal.Slots) {
	if w == nil {
		return nil, nil
	}
	var slots []signal.Slots
	for _, s := range w.SlotUse() {
		slots = append(slots, signal.Slots(s))
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	l, err := w.Load(ctx)
	if err != nil {
		log.Warn("cannot read the units for metrics", "error", err)
		return nil, slots
	}
	u := signal.Units(l)
	return &u, slots
}

// configure switches to another configuration.
func (w *worker) configure(c *config.Config) {
	w.configuring.Lock()
	defer w.configuring.Unlock()
	w.Executor.Redactor.Add(c.Secrets...) // Invariant 5
	w.conf.Store(c)
	var sources []string
	for _, s := range c.Sources {
		sources = append(sources, s.Name)
	}
	w.metrics.Configure(sources, nil)
	define(w.guard, c, len(w.begun.Serve.Tokens) > 0)
	w.daemon.SetHosts(c.Serve.Hosts)
	w.units.Load().Configure(c)
}

// reload reads the configuration again. Units that are being executed finish with the previous configuration.
func (w *worker) reload(context.Context) ([]serve.Pipeline, error) {
	c, err := w.Executor.Open.Load()
	if err != nil {
		return nil, err
	}
	w.configure(c)
	pending := changed(w.begun, *c, comparedKey{"worker.listen", w.begun.Worker.Listen == c.Worker.Listen})
	w.pending.Store(&pending)
	return nil, nil
}

// The method waiting() returns the keys of the configuration that have changed but only take effect after a restart.
func (w *worker) waiting() []string {
	if all := w.pending.Load(); all != nil {
		return *all
	}
	return nil
}
