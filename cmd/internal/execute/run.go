package execute

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Run describes a run of a pipeline.
type Run struct {
	Conf     *config.Config
	Pipeline config.Pipeline
	Sources  []config.Ref // the sources to read, if the pipeline reads several
	Streams  []string     // patterns that select streams; nil for all
	Options  pipeline.Options
	ID       string // id of the run; "" to create one

	Show  Show                                       // shows the progress of a source; may be nil
	Begun func(sources int)                          // called before the first of several sources; may be nil
	Ended func(fleet.Outcome, pipeline.Report) error // called after each of several sources, never concurrently; may be nil
}

// Result is the result of a run.
type Result struct {
	Report   pipeline.Report // if the pipeline reads several sources, the sums over all of them
	ExitCode int             // exit code for the process
	Sources  []fleet.Outcome // the outcomes of several sources, the worst first
	Paused   int             // sources that were left out because they are paused
}

// Run makes a run in this process. It returns an error if the run could not begin. If one of several sources fails or
// does not answer, the others are still read, and Result.Sources has the error of this source. After a complete run, the
// commands of the pipeline run.
func (x *Executor) Run(ctx context.Context, r Run) (res Result, err error) {
	j := job{conf: r.Conf, pipeline: r.Pipeline, run: r.ID, streams: r.Streams, options: r.Options, show: r.Show, budget: x.budget(r.Conf, r.Pipeline), read: x.load}
	if !r.Options.DryRun && r.Conf.State.URL == "" { // in a state database, units are for workers
		c := &recorder{executor: x, worker: x.workerName(), open: func() (state.UnitStore, error) { return x.Open.State(r.Conf).OpenUnits(ctx) }}
		defer c.close()
		j.read = c.read
	}
	if r.Pipeline.MultiSource {
		res, err = x.runMany(ctx, r, j)
	} else {
		res, err = x.runOne(ctx, r, j)
	}
	if err == nil && x.after(ctx, r, res.Paused > 0, &res.Report) {
		res.ExitCode = res.Report.ExitCode()
	}
	return res, err
}

// runOne makes a run over one source. If the source is paused, it reads nothing.
func (x *Executor) runOne(ctx context.Context, r Run, j job) (res Result, err error) {
	source, db := r.Pipeline.From[0].Text, x.Open.State(r.Conf)
	stored, err := ReadSources(ctx, db, r.Pipeline.Name)
	if err != nil {
		return res, err
	}
	if _, paused := stored.Paused[source]; paused {
		now := db.Now()
		report := pipeline.Report{Run: cmp.Or(r.ID, runid.New(now)), Pipeline: r.Pipeline.Name, Status: pipeline.StatusComplete, Started: now, Ended: now, Paused: source}
		return Result{Report: report, Paused: 1}, nil
	}
	e := x.attempt(ctx, j, func() {})
	begun := e.report.Run != "" || !r.refused(ctx, e) && !errors.Is(e.err, state.ErrLocked) && ctx.Err() == nil
	if begun && !r.Options.DryRun {
		report := e.report
		report.Pipeline = r.Pipeline.Name
		now := db.Now()
		x.keepHistory(ctx, r.Conf, append(runWork(now, report, reach{streams: r.Streams == nil, sources: true}), sourceWork(now, r.Pipeline.Name, source, report, r.Streams == nil))...)
	}
	if begun && e.report.Status != pipeline.StatusStopped && !r.Options.DryRun { // other runs say nothing about the source
		o := fleet.NewOutcomes(e.report.Run, r.Pipeline.Name).Add(source, e.report, e.err)
		x.keepSources(ctx, r.Conf, x.sourceRecord(r.Conf, r.Pipeline.Name, e.report.Run, o, e.silent))
	}
	return Result{Report: e.report, ExitCode: e.report.ExitCode()}, e.err
}

// refused reports whether a backfill did not begin because its command line or the configuration is wrong, for example
// its range. Then the source has not failed.
func (r Run) refused(ctx context.Context, e ending) bool {
	return r.Options.Backfill != nil && e.report.Run == "" && failure.CodeOf(ctx, e.err) == failure.ExitUsage
}

// runMany makes a run over several sources. The argument `all` is the job of all sources together.
func (x *Executor) runMany(ctx context.Context, r Run, all job) (res Result, err error) {
	if x.Open.Pool == nil {
		x.Open.Pool = open.NewDestinationPool()
	}
	sources, paused, err := x.startOrder(ctx, r.Conf, r.Pipeline, r.Sources)
	if err != nil {
		return res, err
	}
	all.run = cmp.Or(r.ID, runid.New(x.Open.State(r.Conf).Now()))
	c := &outcomes{executor: x, run: r, all: fleet.NewOutcomes(all.run, r.Pipeline.Name)}
	done, err := x.keepOpen(ctx, r)
	if err != nil {
		return res, err
	}
	defer done()
	if err := x.warnRenamed(ctx, r.Conf, r.Pipeline, r.Sources); err != nil {
		x.Open.Log.Warn("cannot check for renamed sources", "pipeline", r.Pipeline.Name, "error", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.Begun != nil {
		r.Begun(len(sources))
	}
	jobs := make([]fleet.Job, len(sources))
	for i, s := range sources {
		silent := false // true if the source did not answer in an earlier attempt; attempts do not overlap
		jobs[i] = fleet.Job{Silent: s.silent, Run: func(ctx context.Context, beat func()) (again bool) {
			j := all
			j.pipeline = r.Pipeline.ForSource(s.name)
			e := x.attempt(ctx, j, beat)
			if errors.Is(errors.Join(e.err, e.report.Err), ErrCancelled) {
				cancel(ErrCancelled) // the whole run was cancelled
			}
			if e.putOff {
				silent = true
				return true
			}
			e.silent = e.silent || silent
			c.ended(ctx, s.name, e)
			return false
		}}
	}
	fleet.Pool{}.Run(ctx, jobs)
	report := c.all.Report()
	report.Allowed = c.allowed
	if !r.Options.DryRun {
		c.work = append(c.work, runWork(x.Open.State(r.Conf).Now(), report, c.reach(len(sources)))...)
	}
	c.keep(ctx)
	return Result{Report: report, ExitCode: c.all.ExitCode(), Sources: c.all.Outcomes(), Paused: paused}, errors.Join(c.errs...)
}

// outcomes collects and stores the outcomes of the sources of a run.
type outcomes struct {
	executor *Executor
	run      Run
	all      *fleet.Outcomes

	mu      sync.Mutex
	records []state.SourceRecord // not stored yet
	work    []state.Work         // not stored yet
	allowed int64                // requests that the rate limits of the sources allowed
	errs    []error              // errors that Run.Ended returned
}

// recordEvery is how many outcomes are stored together.
const recordEvery = 50

// ended adds the outcome of a source. Other sources do not wait while outcomes are stored.
func (c *outcomes) ended(ctx context.Context, source string, e ending) {
	if c.add(ctx, source, e) >= recordEvery {
		c.keep(ctx)
	}
}

// add adds the outcome of a source, and returns how many outcomes are not stored yet.
func (c *outcomes) add(ctx context.Context, source string, e ending) (waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, refused := c.run.Pipeline.Name, c.run.refused(ctx, e)
	o := c.all.Add(source, e.report, e.err)
	if o.Error != "" && !o.Complete() {
		c.executor.Open.Log.Debug("source not complete", "pipeline", p, "source", source, "status", o.Status, "error", o.Error)
	}
	if c.run.Ended != nil {
		if e.report.Run == "" { // the run of the source could not begin
			now := time.Now()
			e.report = pipeline.Report{Run: c.all.Run(), Pipeline: p, Status: pipeline.StatusFailed, Started: now, Ended: now, Err: e.err}
		}
		e.report.Source = source
		c.errs = append(c.errs, c.run.Ended(o, e.report))
	}
	if c.run.Options.DryRun || refused {
		return 0
	}
	c.allowed += e.report.Allowed
	c.work = append(c.work, sourceWork(c.executor.Open.State(c.run.Conf).Now(), p, source, e.report, c.run.Streams == nil))
	if o.Status == pipeline.StatusStopped {
		return 0 // a stopped run says nothing about the source
	}
	c.records = append(c.records, c.executor.sourceRecord(c.run.Conf, p, c.all.Run(), o, e.silent))
	return len(c.records)
}

// reach returns how much of the pipeline the run has read. The argument is the number of sources that it was to read.
func (c *outcomes) reach(sources int) reach {
	has := reach{streams: c.run.Streams == nil, sources: sources == len(c.run.Pipeline.From)}
	for _, o := range c.all.Outcomes() {
		has.sources = has.sources && o.Streams > 0
	}
	return has
}

// keep stores the outcomes and the work that are not stored yet.
func (c *outcomes) keep(ctx context.Context) {
	c.mu.Lock()
	records, work := c.records, c.work
	c.records, c.work = nil, nil
	c.mu.Unlock()
	if len(records) > 0 {
		c.executor.keepSources(ctx, c.run.Conf, records...)
	}
	if len(work) > 0 {
		c.executor.keepHistory(ctx, c.run.Conf, work...)
	}
}

// keepOpen opens the destinations whose tables the sources share. They stay open until done() is called.
func (x *Executor) keepOpen(ctx context.Context, r Run) (done func(), err error) {
	var all []load.Destination
	done = func() {
		for _, d := range all {
			if err := d.Close(); err != nil {
				x.Open.Log.Warn("close destination", "error", err)
			}
		}
	}
	if r.Options.DryRun {
		return done, nil
	}
	for _, to := range r.Pipeline.To {
		d, _ := r.Conf.Destination(to.Text)
		if d.PerSource() {
			continue
		}
		dest, err := x.Open.Destination(ctx, r.Conf, d)
		if err != nil && len(r.Pipeline.To) > 1 && ctx.Err() == nil && failure.CodeOf(ctx, err) != failure.ExitUsage {
			continue // the other destinations still get their rows
		}
		if err != nil {
			done()
			return nil, err
		}
		all = append(all, dest)
	}
	return done, nil
}
