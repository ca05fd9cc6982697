package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"

	"github.com/penstock-data/penstock/cmd/internal/check"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// job is the work of a run for one source.
type job struct {
	conf     *config.Config
	pipeline config.Pipeline // restricted to the source
	run      string          // the run's id; "" to create one
	streams  []string        // patterns that select streams; nil for all
	options  pipeline.Options
	budget   *pipeline.Budget // shared with other jobs of this process
	show     Show             // may be nil
	read     reader
	try      *fleet.Attempt // the attempt at claimed units; nil if the job has no units
	beat     func()         // called when the source answers
}

// reader reads the streams of an opened job and loads them. It is [Executor.load], or a function that also records
// units.
type reader func(context.Context, job, *open.Run) (pipeline.Report, error)

// Show begins to show the progress of an opened source. The caller calls event() for each event of the streams, and
// done() when the source has been read.
type Show func(r *open.Run) (event func(pipeline.Event), done func())

func (s Show) begin(r *open.Run) (event func(pipeline.Event), done func()) {
	if s == nil {
		return func(pipeline.Event) {}, func() {}
	}
	return s(r)
}

// ending is how an attempt at a job has ended.
type ending struct {
	report pipeline.Report
	err    error // why nothing was read
	putOff bool  // the source did not answer in time; another attempt follows
	silent bool  // the source has not answered
}

// attempt makes one attempt at a job. It calls beat() when the source answers. A panic ends only this attempt.
func (x *Executor) attempt(ctx context.Context, j job, beat func()) (e ending) {
	var answered atomic.Bool
	j.beat = func() { answered.Store(true); beat() }
	e.report, e.err = x.leased(ctx, j)
	e.silent = !answered.Load()
	e.putOff = putOff(ctx, e.report, e.err)
	return e
}

// putOff reports whether an attempt was put off before it was complete.
func putOff(ctx context.Context, r pipeline.Report, err error) bool {
	return errors.Is(context.Cause(ctx), fleet.ErrPutOff) && (err != nil || r.Status != pipeline.StatusComplete)
}

// leased opens the source and the destinations of a job, and reads the job's streams under the lease of its pipeline
// and source. Errors of single streams are in the report. // Invariant 13
func (x *Executor) leased(ctx context.Context, j job) (report pipeline.Report, err error) {
	p := j.pipeline
	defer func() {
		if v := recover(); v != nil {
			x.Open.Log.Error("run panicked", "pipeline", p.Name, "source", p.From[0].Text, "stack", string(debug.Stack()))
			err = fmt.Errorf("source %s: panic: %v", p.From[0].Text, v)
		}
	}()
	ctx = load.ForRun(ctx)
	r, err := x.Open.Pipeline(ctx, j.conf, p, j.streams, j.options.DryRun)
	if err != nil {
		return report, err
	}
	defer r.Close()
	if !j.options.DryRun {
		if err := (open.Owners{Opener: x.Open, Conf: j.conf}).Claim(ctx, p); err != nil {
			return report, err
		}
		var unlock func()
		if ctx, unlock, err = x.Open.Locks.Take(ctx, x.Open.State(j.conf), p.Key()); err != nil {
			return report, err
		}
		defer unlock()
	}
	if b := j.options.Backfill; b != nil && b.Ranged() {
		if err := x.skipUnranged(ctx, r, j.streams); err != nil {
			return report, err
		}
	}
	if j.run == "" {
		j.run = runid.New(r.Now())
	}
	return j.read(ctx, j, r)
}

// attemptUnits makes an attempt at claimed units, and returns the units as they are to be stored. read() reads the
// streams of the units. Its argument is j, restricted to these streams.
func (x *Executor) attemptUnits(ctx context.Context, j job, units []state.Unit, settle func(...state.Unit), read func(job) (pipeline.Report, error)) (pipeline.Report, []state.Unit, error) {
	j.streams = fleet.StreamsOf(units)
	j.try = fleet.NewAttempt(units, len(j.pipeline.To), x.Open.State(j.conf).Now, x.Redactor.Redact, settle)
	r, err := read(j)
	if putOff(ctx, r, err) {
		r.Status, err = pipeline.StatusStopped, nil
	}
	if ctx.Err() != nil && len(r.Streams) == 0 {
		r.Status = pipeline.StatusStopped
	}
	return r, j.try.Settle(r, err, x.final(ctx, j.conf, err)), err
}

// load reads the streams of an opened job, and loads them.
func (x *Executor) load(ctx context.Context, j job, r *open.Run) (pipeline.Report, error) {
	p, source := r.Pipeline, r.UnitSource()
	event, done := j.show.begin(r)
	cfg := r.Config()
	if j.options.Backfill == nil {
		cfg.Forecast = func(ctx context.Context, d load.Destination) *forecast.Forecast {
			return forecastFromHistory(ctx, r, d)
		}
	}
	cfg.Files, cfg.Locks = x.Open.Files(r), x.Open.Locks.StreamLocks(p.Key())
	cfg.Run, cfg.Options, cfg.Budget = j.run, j.options, j.budget
	cfg.Progress = func(e pipeline.Event) {
		e.Source = source
		if e.Kind != pipeline.EventStart {
			j.beat()
		}
		event(e)
		if j.try != nil {
			j.try.Event(e)
		}
	}
	report, err := pipeline.Run(ctx, cfg)
	done()
	report.Source, report.Allowed = source, allowedBy(r.Source, report.Ended.Sub(report.Started))
	if p.MultiSource {
		r.Forget()
	}
	if err != nil && len(report.Streams) == 0 {
		return report, x.notBegun(r, fmt.Errorf("sync %s: %w", p.Name, err))
	}
	report.Err = check.LocateBases(ctx, x.Open, r.Conf, p, report)
	if err := r.Publish(ctx); err != nil {
		report.Err = errors.Join(report.Err, err)
		if report.Status == pipeline.StatusComplete {
			report.Status = pipeline.StatusPartial // Invariant 14
		}
	}
	return report, nil
}

// notBegun adds a hint to the error of a run that could not begin. A hint that err already has is kept, because it says
// more about the cause.
func (x *Executor) notBegun(r *open.Run, err error) error {
	inner, ok := errors.AsType[*failure.Error](err)
	switch {
	case ok && inner.Hint != "":
		return failure.Hinted(err, inner.Hint)
	case errors.Is(err, state.ErrLocked), render.DestinationRemedy(err) != "":
		return err // printed with a hint of its own
	case errors.Is(err, fs.ErrNotExist) && x.lacksFolder(r):
		// Cause: the folder for the file of a destination does not exist
		return failure.Hinted(err, "create the folder, or correct the url of the destination; `penstock check` tests it")
	}
	// Cause: a run could not begin
	return failure.Hinted(err, "run `penstock check` for the cause and what to do; the tables were not changed")
}

// lacksFolder reports whether the folder does not exist in which a destination of the run has its file.
func (x *Executor) lacksFolder(r *open.Run) bool {
	for _, to := range r.Pipeline.To {
		d, _ := r.Conf.Destination(to.Text)
		d = d.For(r.Pipeline.From[0].Text)
		k, err := x.Open.Kinds.Of(r.Conf, d)
		if err != nil || k.OnHost == nil || !k.OnHost(d) {
			continue
		}
		path, _ := open.FilePath(d)
		if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}
