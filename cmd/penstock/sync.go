package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/check"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/state"
)

// syncFlags are the flags and settings of one run.
type syncFlags struct {
	streams []string
	sources []string // patterns that select sources of a multi-source pipeline; nil for all sources
	options pipeline.Options

	budget *pipeline.Budget // shared with other runs of this process; nil for a budget of its own

	run    string               // the run's id; "" to create one
	ledger state.UnitStore      // store of the run's units, shared with other runs; nil to open one for this run
	worker string               // name of the worker in the units; "" to create one
	try    *fleet.Attempt       // the attempt at units that are already claimed; nil if the run plans its own units
	follow func(pipeline.Event) // called for each event; nil to show progress on the terminal
	opened func(*open.Source)   // called before the source is read
}

func syncCmd(a *app) *cobra.Command {
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "sync [PIPELINE]",
		Short: "run a pipeline once, now",
		Long: `Runs a pipeline once, now: reads its streams and loads what has changed. It can be
stopped at any time and started again; committed data stays.

Exit codes: 0 complete, 1 failed, 2 the command line or the configuration is
wrong, 75 partial or put off (run again later), 130 and 143 stopped by a signal.`,
		Example: `  penstock sync
  penstock sync nightly --stream 'crm.*' --stream '!crm.deals'
  penstock sync --dry-run --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := a.open.LoadPipeline(args)
			if err != nil {
				return err
			}
			if p.MultiSource {
				return a.syncAll(cmd.Context(), c, p, f)
			}
			if len(f.sources) > 0 {
				return failure.Usage("", "pipeline %s reads only one source, %s", p.Name, p.From[0].Text)
			}
			r, err := a.sync(cmd.Context(), c, p, f)
			if err != nil {
				return err
			}
			return a.conclude(r)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.streams, "stream", nil, "only streams that match a `pattern` as in pipelines.yaml; may be repeated")
	fl.StringArrayVar(&f.sources, "source", nil, "only sources that match a `pattern`, if the pipeline reads several; may be repeated")
	fl.BoolVar(&f.options.DryRun, "dry-run", false, "only read the source and make rows; do not open a destination")
	fl.BoolVar(&f.options.Full, "full", false, "read every stream from its beginning, and ignore unfinished passes")
	fl.BoolVar(&f.options.ConfirmShrink, "confirm-shrink", false, "delete rows that are gone at the source, even if they are many")
	return cmd
}

// conclude prints a run's report and returns the verb's exit code.
func (a *app) conclude(r pipeline.Report) error {
	switch {
	case a.json:
		if err := render.NewEncoder(a.out).Encode(render.ReportJSON(r)); err != nil {
			return err
		}
	case !a.quiet || r.Status != pipeline.StatusComplete:
		render.Summary(a.out, r, a.summaryOptions())
	}
	return failure.Exit(r.ExitCode())
}

// summaryOptions returns how a run is summarized, as the global flags say.
func (a *app) summaryOptions() render.SummaryOptions {
	o := render.SummaryOptions{Verbose: a.verbose}
	if a.open.File != defaultConfig {
		o.Config = a.open.File
	}
	return o
}

// sync makes one run. It returns an error if the run could not begin. Errors of single streams are in the report.
func (a *app) sync(ctx context.Context, c *config.Config, p config.Pipeline, f syncFlags) (pipeline.Report, error) {
	var none pipeline.Report
	r, err := a.open.Pipeline(ctx, c, p, f.streams, f.options.DryRun)
	if err != nil {
		return none, err
	}
	defer r.Close()
	if !f.options.DryRun {
		if err := a.open.Claim(ctx, c, p); err != nil {
			return none, err
		}
		var unlock func()
		if ctx, unlock, err = a.open.Locks.Take(ctx, a.open.State(c), p.Key()); err != nil {
			return none, err
		}
		defer unlock()
	}
	if b := f.options.Backfill; b != nil && b.Ranged() {
		if err := skipUnranged(ctx, a, r, f.streams); err != nil {
			return none, err
		}
	}
	unrecorded := p.MultiSource && f.ledger == nil // the run over all sources could not store units, and has logged why
	if f.options.DryRun || f.try != nil || c.State.URL != "" || unrecorded {
		return a.runPipeline(ctx, r, f)
	}
	return a.recorded(ctx, r, f)
}

// syncSource makes the run of one source among others. A panic ends only this run.
func (a *app) syncSource(ctx context.Context, c *config.Config, p config.Pipeline, f syncFlags) (r pipeline.Report, err error) {
	defer func() {
		if v := recover(); v != nil {
			a.log.Error("run panicked", "pipeline", p.Name, "source", p.From[0].Text, "stack", string(debug.Stack()))
			err = fmt.Errorf("source %s: panic: %v", p.From[0].Text, v)
		}
	}()
	return a.sync(ctx, c, p, f)
}

// runPipeline runs the opened pipeline.
func (a *app) runPipeline(ctx context.Context, r *open.Run, f syncFlags) (pipeline.Report, error) {
	p := r.Pipeline
	shown, hide := a.follow(r, f)
	cfg := r.Config()
	if f.options.Backfill == nil {
		cfg.Forecast = forecastFromHistory(r, ctx)
	}
	cfg.Files, cfg.Locks = a.open.Files(r), a.open.Locks.StreamLocks(p.Key())
	cfg.Run, cfg.Options, cfg.Progress, cfg.ByteBudget = f.run, f.options, shown, cmp.Or(a.byteBudget, cfg.ByteBudget)
	cfg.Budget = f.budget
	if f.try != nil {
		cfg.Progress = func(e pipeline.Event) { shown(e); f.try.Event(e) }
	}
	report, err := pipeline.Run(ctx, cfg)
	hide()
	if p.MultiSource {
		report.Source = p.From[0].Text
		r.Forget()
	}
	if err != nil && len(report.Streams) == 0 {
		err = fmt.Errorf("sync %s: %w", p.Name, err)
		if !errors.Is(err, state.ErrLocked) && !errors.Is(err, syscall.ENOSPC) { // these have their own hints
			err = failure.Hinted(err, "run `penstock check` for the cause and what to do; the tables were not changed")
		}
		return report, err
	}
	report.Err = check.LocateBases(ctx, &a.open, r.Conf, p, report)
	if err := r.Publish(ctx); err != nil {
		report.Err = errors.Join(report.Err, err)
		if report.Status == pipeline.StatusComplete {
			report.Status = pipeline.StatusPartial // Invariant 14
		}
	}
	return report, nil
}

// follow returns the function that gets each event of a run: f.follow, or one that shows progress on the terminal
// until hide is called.
func (a *app) follow(r *open.Run, f syncFlags) (event func(pipeline.Event), hide func()) {
	if f.opened != nil {
		f.opened(r.Source)
	}
	if f.follow != nil {
		return f.follow, func() {}
	}
	p := render.NewProgress(a.progressOptions(r))
	return p.Event, p.Close
}

// progressOptions returns how the progress of a run is shown, as the global flags say.
func (a *app) progressOptions(r *open.Run) render.ProgressOptions {
	o := render.ProgressOptions{
		Total: len(r.Streams), Log: a.log, Silent: a.noProgress || a.quiet,
		Rates: func() (limit, waiting string) { return r.Source.Limit(), r.Source.Waiting() },
	}
	if a.live() {
		o.Screen = a.screen
	}
	return o
}
