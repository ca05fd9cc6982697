package execute

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/state"
)

// upkeepEvery is how often Dispatch checks whether the waiting units of a run can still be executed.
const upkeepEvery = 10 * time.Second

// upkeep keeps a run from waiting forever for units that no worker can execute. If their job was deleted in the queue,
// it is inserted again. If their pipeline or source was removed from the configuration, the units end.
// Invariant 15
type upkeep struct {
	*Worker
	run  string
	last time.Time
	gone map[queue.Job]bool // jobs whose pipeline or source was missing in the previous reading of the configuration
}

// keep does the upkeep if it is due. It only logs errors, because the next call tries again.
func (k *upkeep) keep(ctx context.Context) {
	if time.Since(k.last) < upkeepEvery {
		return
	}
	k.last = time.Now()
	log := k.executor.Open.Log
	restored, cancelled, err := k.db.RestoreJobs(ctx, k.run)
	if restored > 0 {
		log.Warn("jobs were deleted in the queue, and are inserted again", "run", k.run, "units", restored)
	}
	if cancelled > 0 {
		log.Warn("jobs were cancelled in the queue, so their units are cancelled too", "run", k.run, "units", cancelled)
	}
	if err == nil {
		err = k.endRemoved(ctx)
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("cannot check the waiting units of a run; retrying soon", "run", k.run, "error", err)
	}
}

// endRemoved ends the units whose pipeline or source was removed from the configuration. It does so only if two
// readings of the configuration agree, because a person may be editing the configuration. Units that a worker is
// executing continue.
func (k *upkeep) endRemoved(ctx context.Context) error {
	units, err := fleet.UnitsOf(ctx, k.claimer.Units, state.UnitFilter{Run: k.run, Active: true})
	if err != nil {
		return err
	}
	c, err := k.executor.Open.Load()
	if err != nil {
		return err
	}
	before := k.gone
	k.gone = map[queue.Job]bool{}
	for _, u := range units {
		job := queue.Job{Run: u.Run, Pipeline: u.Pipeline, Source: u.Source}
		if _, has := pipelineOf(c, job); has || u.State == state.UnitRunning || k.gone[job] {
			continue
		}
		k.gone[job] = true
		if !before[job] {
			continue
		}
		k.executor.Open.Log.Warn("units end without being read, because "+errRemoved, "pipeline", u.Pipeline, "source", u.Source, "run", u.Run)
		if err := k.endUnread(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// errRemoved is the outcome of units whose pipeline or source is no longer in the configuration.
const errRemoved = "its source or pipeline was removed from the configuration"

// endUnread ends the waiting units of a job.
func (k *upkeep) endUnread(ctx context.Context, of queue.Job) error {
	for _, suspect := range []bool{false, true} {
		claim := state.Claim{Run: of.Run, Pipeline: of.Pipeline, Source: &of.Source, Suspect: suspect, Early: true}
		for {
			n, err := k.claimer.Work(ctx, claim, func(_ context.Context, units []state.Unit, _ func(...state.Unit)) []state.Unit {
				return fleet.EndUnread(units, errRemoved)
			})
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

// mostRemoved is the largest number of removed sources that an error names.
const mostRemoved = 5

// removedError says which sources of a run were not read because they were removed from the configuration. It returns
// nil if there are none.
func removedError(units []state.Unit) error {
	var all []string
	for _, u := range units {
		if fleet.ReportOf(u).Reason != errRemoved {
			continue
		}
		what := "source " + u.Source
		if u.Source == "" {
			what = "pipeline " + u.Pipeline
		}
		if !slices.Contains(all, what) {
			all = append(all, what)
		}
	}
	if len(all) == 0 {
		return nil
	}
	more := ""
	if n := len(all) - mostRemoved; n > 0 {
		all, more = all[:mostRemoved], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("not read, because removed from the configuration during the run: %s%s", strings.Join(all, ", "), more)
}

// pipelineOf returns the pipeline of a job from the configuration c, restricted to the job's source. It returns false
// if c does not have the pipeline or the source.
func pipelineOf(c *config.Config, u queue.Job) (config.Pipeline, bool) {
	p, ok := c.Pipeline(u.Pipeline)
	if !ok || p.MultiSource == (u.Source == "") {
		return p, false
	}
	if !p.MultiSource {
		return p, true
	}
	_, ok = c.Source(u.Source)
	return p.ForSource(u.Source), ok
}
