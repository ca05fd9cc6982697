package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
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
	opened func(*sourceClient)  // called before the source is read
}

func (a *app) syncCmd() *cobra.Command {
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
			c, p, err := a.loadPipeline(args)
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
	if a.config != defaultConfig {
		o.Config = a.config
	}
	return o
}

// sync makes one run. It returns an error if the run could not begin. Errors of single streams are in the report.
func (a *app) sync(ctx context.Context, c *config.Config, p config.Pipeline, f syncFlags) (pipeline.Report, error) {
	var none pipeline.Report
	r, err := a.openRun(ctx, c, p, f.streams, f.options.DryRun)
	if err != nil {
		return none, err
	}
	defer r.close(a)
	if !f.options.DryRun {
		if err := a.claim(ctx, c, p); err != nil {
			return none, err
		}
		var unlock func()
		if ctx, unlock, err = a.locks.take(ctx, a.stateOf(c), p.Key()); err != nil {
			return none, err
		}
		defer unlock()
	}
	if b := f.options.Backfill; b != nil && b.Ranged() {
		if err := a.skipUnranged(ctx, r, f.streams); err != nil {
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
func (a *app) runPipeline(ctx context.Context, r *openedRun, f syncFlags) (pipeline.Report, error) {
	p := r.pipeline
	shown, hide := a.follow(r, f)
	cfg := r.config()
	if f.options.Backfill == nil {
		cfg.Forecast = r.forecastFromHistory(ctx)
	}
	cfg.Files, cfg.Locks = a.files(r), a.locks.turnsOf(p.Key())
	cfg.Run, cfg.Options, cfg.Progress, cfg.ByteBudget = f.run, f.options, shown, cmp.Or(a.byteBudget, cfg.ByteBudget)
	cfg.Budget = f.budget
	if f.try != nil {
		cfg.Progress = func(e pipeline.Event) { shown(e); f.try.Event(e) }
	}
	report, err := pipeline.Run(ctx, cfg)
	hide()
	if p.MultiSource {
		report.Source = p.From[0].Text
		r.forget()
	}
	if err != nil && len(report.Streams) == 0 {
		err = fmt.Errorf("sync %s: %w", p.Name, err)
		if !errors.Is(err, state.ErrLocked) && !errors.Is(err, syscall.ENOSPC) { // these have their own hints
			err = failure.Hinted(err, "run `penstock check` for the cause and what to do; the tables were not changed")
		}
		return report, err
	}
	report.Err = a.locateBases(ctx, r.conf, p, report)
	if err := r.publish(ctx); err != nil {
		report.Err = errors.Join(report.Err, err)
		if report.Status == pipeline.StatusComplete {
			report.Status = pipeline.StatusPartial // Invariant 14
		}
	}
	return report, nil
}

// follow returns the function that gets each event of a run: f.follow, or one that shows progress on the terminal
// until hide is called.
func (a *app) follow(r *openedRun, f syncFlags) (event func(pipeline.Event), hide func()) {
	if f.opened != nil {
		f.opened(r.source)
	}
	if f.follow != nil {
		return f.follow, func() {}
	}
	p := render.NewProgress(a.progressOptions(r))
	return p.Event, p.Close
}

// progressOptions returns how the progress of a run is shown, as the global flags say.
func (a *app) progressOptions(r *openedRun) render.ProgressOptions {
	o := render.ProgressOptions{
		Total: len(r.streams), Log: a.log, Silent: a.noProgress || a.quiet,
		Rates: func() (limit, waiting string) { return r.source.limit(), r.source.waiting() },
	}
	if a.live() {
		o.Screen = a.screen
	}
	return o
}

// openedRun is a pipeline opened for a verb: its streams, source and destinations.
type openedRun struct {
	conf     *config.Config
	pipeline config.Pipeline
	streams  []config.Stream
	source   *sourceClient
	dests    opened
	memory   memoryPlan       // memory that the run may use
	now      func() time.Time // the clock of the state
}

// openRun opens a pipeline with the streams that match the patterns in only. If dry is true, it does
// not open the destinations.
func (a *app) openRun(ctx context.Context, c *config.Config, p config.Pipeline, only []string, dry bool) (r *openedRun, err error) {
	r = &openedRun{conf: c, pipeline: p, now: a.stateOf(c).Now}
	if r.streams, err = a.choose(c, p, only); err != nil {
		return nil, err
	}
	if r.source, err = a.openSource(c, p, r.streams, nil); err != nil {
		return nil, err
	}
	if dry {
		return r, nil
	}
	if r.dests, err = a.openDestinations(ctx, c, p); err != nil {
		return nil, errors.Join(err, r.source.close())
	}
	r.memory = memoryFor(c, p)
	a.raiseHeap(r.memory.heap)
	return r, nil
}

// config returns the run's configuration for package pipeline.
func (r *openedRun) config() pipeline.Config {
	cfg := pipeline.Config{
		Name: r.pipeline.Name, Source: r.source.client, Destinations: r.dests, Streams: plain(r.streams),
		Log: map[string]bool{}, OwnOrigin: map[string]bool{}, Catalogue: plain(r.conf.Streams), Now: r.now, ByteBudget: r.memory.budget, GroupBytes: r.memory.group, GroupRows: r.memory.rows,
	}
	if from, ok := r.conf.Source(r.pipeline.From[0].Text); ok {
		cfg.Origins = originsOf(from, r.streams)
	}
	for _, s := range r.streams {
		cfg.Log[s.Name], cfg.OwnOrigin[s.Name] = s.Log, s.NeedsClient()
	}
	return cfg
}

// publish copies the loaded data for readers, for each destination with `publish:` in the configuration. A
// stopped run publishes nothing.
func (r *openedRun) publish(ctx context.Context) error {
	var errs []error
	for _, d := range r.dests {
		_, unreached := d.Destination.(unavailable)
		of, _ := r.conf.Destination(d.Name)
		of = of.For(r.pipeline.From[0].Text)
		if of.Publish == "" || unreached || ctx.Err() != nil {
			continue
		}
		p, err := destinationKindOf(r.conf, of)
		if err == nil {
			err = p.publish(ctx, of, whole(d.Destination))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("destination %s: %w; the rows were loaded, but readers keep the previous copy", d.Name, err))
		}
	}
	return errors.Join(errs...)
}

// forget frees the memory that the destinations use for the run's source, because the process goes on with other
// sources. // Invariant 6
func (r *openedRun) forget() {
	for _, d := range r.dests {
		if s, ok := whole(d.Destination).(load.Sharer); ok {
			s.Forget(r.pipeline.Name, r.pipeline.From[0].Text)
		}
	}
}

func (r *openedRun) close(a *app) {
	r.dests.close(a)
	_ = r.source.close() // closing a connection loses nothing
}

// opened are the open destinations of a run.
type opened []pipeline.Destination

// openDestinations opens the destinations of a run. If one of several cannot be reached, the others still get
// their rows.
func (a *app) openDestinations(ctx context.Context, c *config.Config, p config.Pipeline) (opened, error) {
	var all opened
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		dest, err := a.openPart(ctx, c, d, p.From[0].Text)
		if err != nil && len(p.To) > 1 && ctx.Err() == nil && failure.CodeOf(ctx, err) != failure.ExitUsage {
			dest, err = unavailable{err}, nil
		}
		if err != nil {
			all.close(a)
			return nil, err
		}
		all = append(all, pipeline.Destination{Name: d.Name, Destination: dest})
	}
	return all, nil
}

func (o opened) close(a *app) {
	for _, d := range o {
		if err := d.Close(); err != nil {
			a.log.Warn("close destination", "destination", d.Name, "error", err)
		}
	}
}
