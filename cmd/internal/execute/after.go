package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/after"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// afterLease is the name of the lease of a pipeline's commands: processes run them one after the other. No source has
// this name.
const afterLease = "@!after"

// after runs the commands of the pipeline if the run was complete and has read the whole pipeline. If `paused` is true,
// it has not, because a source is paused. The caller has closed the destinations of the run. The results are then in the
// report, and in the state. // Invariant 14
func (x *Executor) after(ctx context.Context, r Run, paused bool, report *pipeline.Report) (ran bool) {
	p := r.Pipeline
	part := r.Streams != nil || r.Options.DryRun || r.Options.Backfill != nil || paused || p.MultiSource && len(r.Sources) < len(p.From)
	if len(p.After) == 0 || len(p.From) == 0 || part || report.Status != pipeline.StatusComplete {
		return false
	}
	all, err := x.runCommands(ctx, r, report.Run)
	if err == nil {
		err = open.TargetsOf(x.Open, r.Conf, p).PublishAgain(ctx) // with what the commands have made
	}
	var cause error
	if ctx.Err() != nil && err != nil {
		cause = context.Cause(ctx)
	}
	report.AddCommands(all, err, cause)
	return true
}

// hintAfter is the hint for a command that was not successful.
const hintAfter = "the rows are loaded, only a command of `after` is missing; the next complete run runs the commands again"

// runCommands runs the commands of a pipeline one after the other, until one of them is not successful, and stores their
// results. If none can run, the result of the first command says why. If another process has run all commands of this run
// successfully, runCommands returns its results.
func (x *Executor) runCommands(ctx context.Context, r Run, run string) (all []pipeline.Command, err error) {
	ready, done, err := x.readyForCommands(ctx, r)
	defer done()
	if err != nil {
		one := x.noResult(r, pipeline.CommandFailed, "not run: "+err.Error())
		x.keepCommands(ctx, r, run, after.KeepFirst, one)
		return []pipeline.Command{one}, failure.Hinted(fmt.Errorf("command %s: not run: %w", one, err), hintAfter)
	}
	if all = x.commandsOf(ready, r, run); all != nil {
		return all, nil
	}
	x.keepCommands(ctx, r, run, after.Keep, x.noResult(r, pipeline.CommandStopped, "no result: the commands have not ended, or penstock was killed"))
	for _, c := range r.Pipeline.After {
		one := x.runCommand(ready, r, run, c)
		all = append(all, one)
		if one.Result != pipeline.CommandOK {
			err = failure.Hinted(fmt.Errorf("command %s: %s", one, one.Error), hintAfter)
			break
		}
	}
	keep := after.Keep
	if ready.Err() != nil && ctx.Err() == nil { // the lease was lost, so another process may have stored results
		keep = after.KeepFirst
	}
	x.keepCommands(ctx, r, run, keep, all...)
	return all, err
}

// noResult returns the result of the first command while none of them has ended.
func (x *Executor) noResult(r Run, result pipeline.CommandResult, why string) pipeline.Command {
	now := x.Open.State(r.Conf).Now()
	return pipeline.Command{Words: r.Pipeline.After[0].Words, Result: result, Started: now, Ended: now, Error: x.Redactor.Redact(why)}
}

// keepCommands stores results with the given function, even if ctx has just ended.
func (x *Executor) keepCommands(ctx context.Context, r Run, run string, keep func(context.Context, state.Notes, string, after.Results) error, all ...pipeline.Command) {
	late, cancel := pipeline.WithGrace(ctx, recordGrace)
	defer cancel()
	if err := keep(late, x.Open.State(r.Conf).Notes(), r.Pipeline.Name, after.Results{Run: run, Commands: all}); err != nil {
		x.Open.Log.Warn("cannot keep the results of commands", "pipeline", r.Pipeline.Name, "run", run, "error", err)
	}
}

// commandsOf returns the results of a run if all of its commands have already been successful. Otherwise it returns nil.
func (x *Executor) commandsOf(ctx context.Context, r Run, run string) []pipeline.Command {
	all, err := after.Read(ctx, x.Open.State(r.Conf).Notes(), r.Pipeline.Name)
	if err != nil {
		x.Open.Log.Warn("cannot read the results of commands", "pipeline", r.Pipeline.Name, "run", run, "error", err)
	}
	same := func(a pipeline.Command, b config.Command) bool { return slices.Equal(a.Words, b.Words) }
	for _, one := range all {
		if one.Run == run && one.Successful() && slices.EqualFunc(one.Commands, r.Pipeline.After, same) {
			return one.Commands
		}
	}
	return nil
}

// readyForCommands prepares this process for the commands of a pipeline: no other process runs them, and this process
// opens no file that they need. The returned context ends if another process may run them. The caller must call done(),
// even after an error.
func (x *Executor) readyForCommands(ctx context.Context, r Run) (ready context.Context, done func(), err error) {
	targets := open.TargetsOf(x.Open, r.Conf, r.Pipeline)
	if err := targets.CheckHosts(ctx); err != nil { // another host has the files
		return ctx, func() {}, err
	}
	ready, unlock, err := x.takeAfterLease(ctx, r)
	if err != nil {
		return ctx, func() {}, err
	}
	back, err := targets.Lend(ready)
	return ready, func() { back(); unlock() }, err
}

// takeAfterLease takes the lease of the commands. If another process has it, takeAfterLease waits as long as all commands
// may take. // Invariant 15
func (x *Executor) takeAfterLease(ctx context.Context, r Run) (held context.Context, release func(), err error) {
	var longest time.Duration
	for _, c := range r.Pipeline.After {
		longest += c.Timeout
	}
	for began := time.Now(); ; {
		held, release, err = x.Open.Locks.Take(ctx, x.Open.State(r.Conf), r.Pipeline.Name+afterLease)
		if !errors.Is(err, state.ErrLocked) || ctx.Err() != nil || time.Since(began) > longest {
			return held, release, err
		}
	}
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
