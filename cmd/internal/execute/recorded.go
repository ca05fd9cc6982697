package execute

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// ErrCancelled is the cause that ends a run whose units were cancelled.
var ErrCancelled = &failure.Error{Err: errors.New("cancelled with `runs cancel`"), Hint: "committed data is safe; the next run continues from the last commit", Code: failure.ExitPartial}

// recorder records the units of a run in the state folder. All jobs of the run share it.
type recorder struct {
	executor *Executor
	worker   string // name of this process in the units
	open     func() (state.UnitStore, error)

	once  sync.Once
	units state.UnitStore // nil if they cannot be opened
}

func (c *recorder) close() {
	if c.units != nil {
		_ = c.units.Close() // every write was durable
	}
}

// read reads the streams of an opened job and records its units. Other processes use the units to show the run's
// progress and to cancel it. A job that was put off continues with the units that are left. The run does not need the
// units: if units cannot be stored, the run continues without them. This process must hold the lease of the source.
func (c *recorder) read(ctx context.Context, j job, r *open.Run) (report pipeline.Report, err error) {
	x, source := c.executor, r.UnitSource()
	unrecorded := func(err error) {
		if err != nil && ctx.Err() == nil { // if ctx has ended, the run ends anyway
			x.Open.Log.Warn("units of the run are not recorded", "pipeline", r.Pipeline.Name, "source", source, "error", err)
		}
	}
	c.once.Do(func() {
		var err error
		c.units, err = c.open()
		unrecorded(err)
	})
	if c.units == nil {
		return x.load(ctx, j, r)
	}
	var last []state.Unit
	lerr := fleet.AddSourceUnits(ctx, c.units, c.worker, fleet.Plan(j.run, r.Pipeline.Name, source, open.Plain(r.Streams)))
	if lerr == nil {
		claimer := fleet.Claimer{Units: c.units, Name: c.worker, Life: x.Open.Life, Alone: true}
		_, lerr = claimer.Work(ctx, state.Claim{Run: j.run, Pipeline: r.Pipeline.Name, Source: &source},
			func(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit {
				last = units
				report, units, err = x.attemptUnits(ctx, j, units, settle, func(j job) (pipeline.Report, error) {
					left := *r
					left.Streams = slices.DeleteFunc(slices.Clone(r.Streams), func(s config.Stream) bool { return !slices.Contains(j.streams, s.Name) })
					return x.load(ctx, j, &left)
				})
				cause := context.Cause(ctx)
				if errors.Is(cause, fleet.ErrUnitsLost) {
					report, err = cancelled(report, err)
				}
				return fleet.EndLastAttempt(units, errors.Is(cause, fleet.ErrPutOff))
			})
	}
	unrecorded(lerr)
	if last == nil {
		return x.load(ctx, j, r)
	}
	if all, lerr := c.units.Units(ctx, state.UnitFilter{Run: j.run, Source: &source}); lerr == nil {
		report = fleet.WithEarlierAttempts(report, c.worker, all, last)
	}
	return report, err
}

// cancelled returns the outcome of an attempt whose units were cancelled.
func cancelled(r pipeline.Report, err error) (pipeline.Report, error) {
	switch {
	case r.Status == pipeline.StatusComplete:
		return r, err
	case len(r.Streams) == 0:
		return r, ErrCancelled
	}
	r.Status, r.Err = pipeline.StatusPartial, ErrCancelled
	return r, nil
}
