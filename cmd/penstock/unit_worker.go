package main

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
	"github.com/penstock-data/penstock/state/retry"
)

// unitWorker works on the units of a state database in this process. It is safe for concurrent use.
type unitWorker struct {
	*app
	db      *postgres.Store
	claimer fleet.Claimer
	slots   int
	bytes   *pipeline.Budget // shared by all runs of this process // Invariant 6

	mu     sync.Mutex
	conf   *config.Config
	read   time.Time       // when conf was read
	busy   map[string]bool // pipeline and source of each running job
	logged map[string]bool // messages that repeat, and are logged only once
	gate   exclusiveGate

	slotsByQueue map[string]*fleet.Slots // by queue
}

// defaultSlots is how many sources a process reads at once.
const defaultSlots = 8

// openUnitWorker opens the unit worker of this process on its state database. It returns nil if the state is a
// folder.
func (a *app) openUnitWorker(ctx context.Context, c *config.Config, slots int) (*unitWorker, error) {
	db, ok := a.open.State(c).(*postgres.Store)
	if !ok {
		return nil, nil
	}
	ledger, err := db.OpenUnits(ctx)
	if err != nil {
		return nil, err
	}
	h := &unitWorker{
		app: a, db: db, slots: slots, conf: c, read: time.Now(), busy: map[string]bool{}, logged: map[string]bool{},
		claimer: fleet.Claimer{Units: ledger, Name: a.workerName(), Life: a.open.Life},
	}
	h.slotsByQueue = map[string]*fleet.Slots{}
	for name, width := range queue.Widths(slots) {
		h.slotsByQueue[name] = fleet.NewSlots(fleet.Pool{Width: width})
	}
	var room int64
	for _, p := range c.Pipelines {
		room = max(room, a.open.MemoryFor(c, p).Budget)
	}
	h.bytes = pipeline.NewBudget(or(a.byteBudget, room, pipeline.DefaultByteBudget))
	return h, nil
}

// configure switches to another configuration.
func (h *unitWorker) configure(c *config.Config) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conf, h.read = c, time.Now()
}

// work runs the jobs of the queue until ctx ends. Then it stops the units under way, within ten seconds.
func (h *unitWorker) work(ctx context.Context) error {
	pool, schema, err := h.db.Queue(ctx)
	if err != nil {
		return open.StateTrouble(err)
	}
	if err := open.InspectQueue(ctx, h.db); err != nil {
		return open.StateTrouble(err)
	}
	return queue.Worker{
		Pool: pool, Schema: schema, Slots: h.slots, Log: h.log, Life: cmp.Or(h.open.Life, fleet.DefaultLife), Now: h.db.Now,
		Do: h.do, Drain: h.drain,
		Cancel: func(ctx context.Context, u queue.Unit) error {
			_, err := h.claimer.Units.CancelUnits(ctx, unitsOf(u))
			return err
		},
		Held: func(ctx context.Context, u queue.Unit) (bool, error) {
			return h.db.Held(ctx, u.Run, u.Pipeline, u.Source)
		},
	}.Run(ctx)
}

// queuePath is where the dashboard shows the pages of the queue.
const queuePath = "/queue"

// pages returns the dashboard's pages of the queue; nil if the state is a folder.
func (h *unitWorker) pages(ctx context.Context) (http.Handler, error) {
	if h == nil {
		return nil, nil
	}
	pool, schema, err := h.db.Queue(ctx)
	if err != nil {
		return nil, open.StateTrouble(err)
	}
	return queue.UI(ctx, pool, schema, queuePath)
}

// unitsOf selects the units of a job.
func unitsOf(u queue.Unit) state.UnitFilter {
	return state.UnitFilter{Run: u.Run, Pipeline: u.Pipeline, Source: &u.Source}
}

// run works on a daemon's share of the units until ctx ends.
func (h *unitWorker) run(ctx context.Context) (wait func()) {
	if h == nil || h.slots == 0 {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tries := (retry.Policy{First: time.Second, Longest: time.Minute}).Begin(); ; {
			err := h.work(ctx)
			if ctx.Err() != nil {
				return
			}
			h.log.Error("cannot work on units; trying again soon", "error", err)
			if !tries.Again(ctx) {
				return
			}
		}
	}()
	return func() { <-done }
}

// known finds the pipeline of a job, restricted to the job's source. If the configuration does not have them,
// known reads it again, because they may be new.
func (h *unitWorker) known(u queue.Unit) (*config.Config, config.Pipeline, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	find := func() (config.Pipeline, bool) {
		p, ok := h.conf.Pipeline(u.Pipeline)
		if !ok || p.MultiSource == (u.Source == "") {
			return p, false
		}
		if !p.MultiSource {
			return p, true
		}
		_, ok = h.conf.Source(u.Source)
		return p.ForSource(u.Source), ok
	}
	p, ok := find()
	if !ok && time.Since(h.read) > rereadPause {
		h.read = time.Now()
		if c, err := h.open.Load(); err == nil {
			h.conf = c
			h.redactor.Add(c.Secrets...) // Invariant 5
			p, ok = find()
		}
	}
	return h.conf, p, ok
}

func (h *unitWorker) begin(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[key] {
		return false
	}
	h.busy[key] = true
	return true
}

func (h *unitWorker) end(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, key)
}

// final reports whether a retry would fail again with err. It returns true for an error in the configuration
// or the command line, unless the state database causes the error.
func (h *unitWorker) final(ctx context.Context, err error) bool {
	return failure.CodeOf(ctx, err) == failure.ExitUsage && !h.db.Troubled(err)
}
