package execute

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
)

// delivery is what this process does when the queue delivers a job: it makes attempts at the units of the job, in a
// worker slot.
type delivery struct {
	executor *Executor
	db       *postgres.Store
	claimer  fleet.Claimer
	gate     *exclusiveGate
	job      job
	queued   queue.Job
	slot     *fleet.Slot
}

// run makes attempts until no unit of the job is left to start, ctx ends, or the channel `cancelled` is closed. Then it
// gives up the slot.
func (d *delivery) run(ctx context.Context, cancelled <-chan struct{}) (err error) {
	defer d.slot.Leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-cancelled:
			cancel(fleet.ErrUnitsLost)
		case <-ctx.Done():
		}
	}()
	if !d.gate.enter() {
		return nil
	}
	if err = d.runShared(ctx); err == nil && ctx.Err() == nil {
		err = d.runSuspects(ctx)
	}
	if err != nil && d.slot.Aside() { // otherwise the queue reports the error
		d.executor.Open.Log.Warn("cannot claim units or store their results; other workers take them over", "pipeline", d.queued.Pipeline, "source", d.queued.Source, "error", err)
	}
	return err
}

// runShared makes attempts at units that may run together with other units, and then leaves the exclusiveGate.
func (d *delivery) runShared(ctx context.Context) error {
	defer d.gate.leave()
	return d.attemptAll(ctx, false)
}

// runSuspects makes attempts at units that may have crashed their worker, a few at a time, while nothing else runs in
// this process.
func (d *delivery) runSuspects(ctx context.Context) error {
	waits, err := d.suspects(ctx)
	if err != nil || !waits || !d.gate.enterAlone() {
		return err
	}
	defer d.gate.leaveAlone()
	return d.attemptAll(ctx, true)
}

// suspects reports whether a waiting unit of the job may have crashed the worker that worked on it.
func (d *delivery) suspects(ctx context.Context) (bool, error) {
	f := unitsOf(d.queued)
	f.Active = true
	units, err := d.claimer.Units.Units(ctx, f)
	return slices.ContainsFunc(units, func(u state.Unit) bool { return u.State != state.UnitRunning && u.Suspect() }), err
}

// attemptAll makes attempts at the units of the job until none is left to start.
func (d *delivery) attemptAll(ctx context.Context, suspect bool) error {
	claim := state.Claim{Run: d.queued.Run, Pipeline: d.queued.Pipeline, Source: &d.queued.Source, Suspect: suspect}
	for ctx.Err() == nil {
		if n, err := d.claimer.Work(ctx, claim, d.attempt); err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// errPaused is the outcome of units whose source was paused after they were planned.
const errPaused = "its source is paused; `penstock sources resume` includes it again"

// attempt makes one attempt at claimed units. If the source is silent for too long, the attempt is put off, so that
// other sources are read. Data that the attempt has committed stays.
func (d *delivery) attempt(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit {
	x, j, u := d.executor, d.job, units[0]
	source := j.pipeline.From[0].Text
	if x.paused(ctx, j.conf, source) {
		return fleet.EndUnread(units, errPaused)
	}
	x.Open.Log.Info("units begun", "run", u.Run, "pipeline", u.Pipeline, "source", u.Source, "units", len(units))
	round := fleet.Round(units)
	if u.Suspect() {
		round = fleet.LastRound
	}
	asking, end := d.slot.StartWait(ctx, round)
	stop := d.applyEvents(asking)
	var e ending
	r, units, err := x.attemptUnits(asking, j, units, settle, func(j job) (pipeline.Report, error) {
		e = x.attempt(asking, j, d.slot.RecordAnswer)
		return e.report, e.err
	})
	stop()
	if late, _ := end(); e.putOff {
		units = fleet.PutOff(units, late, d.db.Now())
	}
	x.Open.Log.Info("units ended", "run", u.Run, "pipeline", u.Pipeline, "source", u.Source, "status", r.Status, "requests", r.Requests, "written", r.Totals().Counts.Written)
	x.keepHistory(ctx, j.conf, attemptWork(d.db.Now(), u.Pipeline, source, r)...)
	if o := fleet.NewOutcomes(u.Run, u.Pipeline).Add(source, r, err); o.Status != pipeline.StatusStopped {
		x.keepSources(ctx, j.conf, x.sourceRecord(j.conf, u.Pipeline, u.Run, o, round > 0 || e.silent))
	}
	return units
}

// applyEventsEvery is how often webhook events are applied during an attempt.
const applyEventsEvery = time.Second

// applyEvents applies the webhook events of the source while an attempt is under way, until stop() is called. The
// attempt has the lease, so `penstock serve` cannot apply the events. The destination stores which events were applied.
// Therefore `serve` can later remove these events from the inbox, and start the runs that they require.
func (d *delivery) applyEvents(ctx context.Context) (stop func()) {
	p, x := d.job.pipeline, d.executor
	s, ok := d.job.conf.Source(p.From[0].Text)
	if !ok || s.Webhooks == nil {
		return func() {}
	}
	inbox, err := d.db.OpenInbox(ctx, state.InboxOptions{})
	if err != nil {
		x.Open.Log.Warn("webhook events wait until the units end", "pipeline", p.Name, "source", d.queued.Source, "error", err)
		return func() {}
	}
	events := x.NewApplier(d.job.conf, p, inbox, nil)
	ctx, cancel := context.WithCancel(ctx)
	d.guard(ctx, func() error { return events.watch(ctx) }) // so that new passes let deltas commit between their own commits
	var applying sync.WaitGroup
	applying.Go(func() {
		tick := time.NewTicker(applyEventsEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.guard(ctx, func() error { _, err := events.Apply(ctx); return err })
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		applying.Wait()
		events.Close()
		_ = inbox.Close() // nothing was added to it
	}
}

// guard calls do(), and recovers from a panic. The process `penstock serve` applies the events that remain.
func (d *delivery) guard(ctx context.Context, do func() error) {
	defer func() {
		if v := recover(); v != nil {
			d.executor.Open.Log.Error("applying events panicked", "pipeline", d.queued.Pipeline, "source", d.queued.Source, "stack", string(debug.Stack()))
		}
	}()
	if err := do(); err != nil && ctx.Err() == nil {
		d.executor.Open.Log.Debug("webhook events not applied", "pipeline", d.queued.Pipeline, "source", d.queued.Source, "error", err)
	}
}
