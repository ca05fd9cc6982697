package execute

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/after"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// afterLease is the name of the lease of a pipeline's commands: processes run them one after the other. No source has
// this name.
const afterLease = "@!after"

// after runs the commands of the pipeline if the run was complete and has read the whole pipeline. The caller has closed
// the destinations of the run. The results are then in the report, and in the state. // Invariant 14
func (x *Executor) after(ctx context.Context, r Run, report *pipeline.Report) (ran bool) {
	p := r.Pipeline
	part := r.Streams != nil || r.Options.DryRun || r.Options.Backfill != nil || p.MultiSource && len(r.Sources) < len(p.From)
	if len(p.After) == 0 || len(p.From) == 0 || part || report.Status != pipeline.StatusComplete || report.Paused != "" {
		return false
	}
	all, err := x.runCommands(ctx, r, report.Run)
	var cause error
	if ctx.Err() != nil && err != nil {
		cause = context.Cause(ctx)
	}
	report.AddCommands(all, err, cause)
	late, cancel := pipeline.WithGrace(ctx, recordGrace)
	defer cancel()
	if err := after.Keep(late, x.Open.State(r.Conf).Notes(), p.Name, after.Results{Run: report.Run, Commands: all}); err != nil {
		x.Open.Log.Warn("cannot keep the results of commands", "pipeline", p.Name, "run", report.Run, "error", err)
	}
	return true
}

// hintAfter is the hint for a command that was not successful.
const hintAfter = "the rows are loaded, only a command of `after` is missing; the next complete run runs the commands again"

// runCommands runs the commands of a pipeline one after the other, until one of them is not successful. If none can run,
// the result of the first command says why.
func (x *Executor) runCommands(ctx context.Context, r Run, run string) (all []pipeline.Command, err error) {
	ctx, done, err := x.readyForCommands(ctx, r)
	defer done()
	if err != nil {
		now := x.Open.State(r.Conf).Now()
		one := pipeline.Command{Words: r.Pipeline.After[0].Words, Result: pipeline.CommandFailed, Started: now, Ended: now, Error: "not run: " + x.Redactor.Redact(err.Error())}
		return []pipeline.Command{one}, failure.Hinted(fmt.Errorf("command %s: not run: %w", one, err), hintAfter)
	}
	for _, c := range r.Pipeline.After {
		one := x.runCommand(ctx, r, run, c)
		all = append(all, one)
		if one.Result != pipeline.CommandOK {
			return all, failure.Hinted(fmt.Errorf("command %s: %s", one, one.Error), hintAfter)
		}
	}
	return all, nil
}

// readyForCommands prepares this process for the commands of a pipeline: no other process runs them, and this process
// opens no file that they need. The returned context ends if another process may run them. The caller must call done(),
// even after an error.
func (x *Executor) readyForCommands(ctx context.Context, r Run) (ready context.Context, done func(), err error) {
	if err := x.Open.Claim(ctx, r.Conf, r.Pipeline); err != nil { // another host has the files
		return ctx, func() {}, err
	}
	ready, unlock, err := x.Open.Locks.Take(ctx, x.Open.State(r.Conf), r.Pipeline.Name+afterLease)
	if err != nil {
		return ctx, func() {}, err
	}
	back, err := x.Open.Lend(ready, r.Conf, r.Pipeline)
	return ready, func() { back(); unlock() }, err
}

func (x *Executor) runCommand(ctx context.Context, r Run, run string, c config.Command) pipeline.Command {
	now := x.Open.State(r.Conf).Now
	cmd, err := x.Open.Command(c)
	if err != nil {
		return pipeline.Command{Words: c.Words, Result: pipeline.CommandFailed, Started: now(), Ended: now(), Error: err.Error()}
	}
	cmd.Redact, cmd.Now = x.Redactor.Redact, now
	log := x.Open.Log.With("pipeline", r.Pipeline.Name, "run", run, "command", pipeline.Command{Words: c.Words}.String())
	log.Info("command begun")
	one := cmd.Run(ctx)
	log.Info("command ended", "result", one.Result, "took", one.Took().Round(time.Millisecond))
	return one
}
