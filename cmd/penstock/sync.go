package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// syncFlags are the command line's words for one run.
type syncFlags struct {
	streams []string
	sources []string // of a pipeline over several: patterns; nil: all of them
	options pipeline.Options

	budget *pipeline.Budget // shared with other runs of this process; nil: its own

	run    string               // its id; "" makes one
	ledger state.Ledger         // of the run's units, shared with other runs; nil: opened for this one
	worker string               // who makes the run, in the ledger; "" names one
	try    *fleet.Attempt       // at units that somebody has claimed; nil: the run plans its own
	follow func(pipeline.Event) // told what happens instead of the terminal
	opened func(*sourceClient)  // told what is read, before it is
}

func (a *app) syncCmd() *cobra.Command {
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "sync [PIPELINE]",
		Short: "one run now",
		Long: `One run now: reads the pipeline's streams and lands what has changed. It can be
stopped at any moment and started again; what was committed stays.

Exit codes: 0 complete, 1 failed, 2 usage or configuration, 75 partial or
deferred with safe progress, 130 and 143 stopped by a signal.`,
		Example: `  penstock sync
  penstock sync nightly --stream 'crm.*' --stream '!crm.deals'
  penstock sync --dry-run --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := a.carry(args)
			if err != nil {
				return err
			}
			if p.Many {
				return a.syncAll(cmd.Context(), c, p, f)
			}
			if len(f.sources) > 0 {
				return usage("", "pipeline %s reads one source, %s", p.Name, p.From[0].Text)
			}
			r, err := a.sync(cmd.Context(), c, p, f)
			if err != nil {
				return err
			}
			return a.conclude(r)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.streams, "stream", nil, "only these streams: a `pattern` as in pipelines.yaml; may be repeated")
	fl.StringArrayVar(&f.sources, "source", nil, "of a pipeline over several, only these sources: a `pattern`; may be repeated")
	fl.BoolVar(&f.options.DryRun, "dry-run", false, "read and map, touch no destination")
	fl.BoolVar(&f.options.Full, "full", false, "read every stream from its beginning, whatever an unfinished pass has left")
	fl.BoolVar(&f.options.ConfirmShrink, "confirm-shrink", false, "delete what is gone at the source, even if it is much")
	return cmd
}

// conclude prints a run's report and turns it into the verb's outcome.
func (a *app) conclude(r pipeline.Report) error {
	switch {
	case a.json:
		if err := lineWriter(a.out).Encode(jsonOf(r)); err != nil {
			return err
		}
	case !a.quiet || r.Status != pipeline.StatusComplete:
		a.summarise(a.out, r)
	}
	return exit(r.ExitCode())
}

// sync makes one run. Its error is what kept the run from its work; what single
// streams met stands in the report.
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
		if ctx, unlock, err = a.holds.take(ctx, a.stateOf(c), p.Key()); err != nil {
			return none, err
		}
		defer unlock()
	}
	if b := f.options.Backfill; b != nil && b.Ranged() {
		if err := a.narrow(ctx, r, f.streams); err != nil {
			return none, err
		}
	}
	unrecorded := p.Many && f.ledger == nil // which the run over all of them has said
	if f.options.DryRun || f.try != nil || c.State.URL != "" || unrecorded {
		return a.carryOut(ctx, r, f)
	}
	return a.recorded(ctx, r, f)
}

// carryOut makes a run of what was opened for it.
func (a *app) carryOut(ctx context.Context, r *openedRun, f syncFlags) (pipeline.Report, error) {
	p := r.pipeline
	shown, hide := a.follow(r, f)
	cfg := r.config()
	if f.options.Backfill == nil {
		cfg.Forecast = r.expect(ctx)
	}
	cfg.Files, cfg.Turns = a.files(r), a.holds.turnsOf(p.Key())
	cfg.Run, cfg.Options, cfg.Progress, cfg.ByteBudget = f.run, f.options, shown, cmp.Or(a.byteBudget, cfg.ByteBudget)
	cfg.Budget = f.budget
	if f.try != nil {
		cfg.Progress = func(e pipeline.Event) { shown(e); f.try.Event(e) }
	}
	report, err := pipeline.Run(ctx, cfg)
	hide()
	if p.Many {
		report.Source = p.From[0].Text
		r.forget()
	}
	if err != nil && len(report.Streams) == 0 {
		err = fmt.Errorf("sync %s: %w", p.Name, err)
		if !errors.Is(err, state.ErrLocked) && !errors.Is(err, syscall.ENOSPC) { // which have hints of their own
			err = hinted(err, "`penstock check` says what is wrong and what to do; the tables are as they were")
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

// follow tells who wants to know of a run, else the terminal, what happens, until
// hide is called.
func (a *app) follow(r *openedRun, f syncFlags) (event func(pipeline.Event), hide func()) {
	if f.opened != nil {
		f.opened(r.source)
	}
	if f.follow != nil {
		return f.follow, func() {}
	}
	p := a.newProgress(len(r.streams), r.source)
	return p.event, p.close
}

// openedRun is what a verb needs of a pipeline: its streams, its source and its
// destinations.
type openedRun struct {
	conf     *config.Config
	pipeline config.Pipeline
	streams  []config.Stream
	source   *sourceClient
	dests    opened
	room     memoryPlan       // that the run may take
	now      func() time.Time // of all that share the state
}

// openRun opens a pipeline, of its streams those that only, patterns of the
// command line, match; without its destinations if dry.
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
	r.room = roomFor(c, p)
	a.spread(r.room.heap)
	return r, nil
}

// config is what the run is to do, as far as the configuration says it.
func (r *openedRun) config() pipeline.Config {
	cfg := pipeline.Config{
		Name: r.pipeline.Name, Source: r.source.client, Destinations: r.dests, Streams: plain(r.streams),
		Log: map[string]bool{}, Apart: map[string]bool{}, Catalogue: plain(r.conf.Streams), Now: r.now, ByteBudget: r.room.budget, GroupBytes: r.room.group, GroupRows: r.room.rows,
	}
	if from, ok := r.conf.Source(r.pipeline.From[0].Text); ok {
		cfg.Origins = originsOf(from, r.streams)
	}
	for _, s := range r.streams {
		cfg.Log[s.Name], cfg.Apart[s.Name] = s.Log, s.Apart()
	}
	return cfg
}

// publish gives readers what was loaded, where the configuration wants it. A run
// that was stopped has no time for that.
func (r *openedRun) publish(ctx context.Context) error {
	var errs []error
	for _, d := range r.dests {
		_, unreached := d.Destination.(down)
		of, _ := r.conf.Destination(d.Name)
		of = of.For(r.pipeline.From[0].Text)
		if of.Publish == "" || unreached || ctx.Err() != nil {
			continue
		}
		p, err := placeOf(r.conf, of)
		if err == nil {
			err = p.publish(ctx, of, whole(d.Destination))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("destination %s: %w; its rows are in, and readers keep the copy before", d.Name, err))
		}
	}
	return errors.Join(errs...)
}

// forget gives up what the destinations remember of the run, whose source is one
// of many. // Invariant 6
func (r *openedRun) forget() {
	for _, d := range r.dests {
		if s, ok := whole(d.Destination).(load.Sharer); ok {
			s.Forget(r.pipeline.Name, r.pipeline.From[0].Text)
		}
	}
}

func (r *openedRun) close(a *app) {
	r.dests.close(a)
	_ = r.source.close() // nothing is lost with a connection
}

// opened are the destinations of a run.
type opened []pipeline.Destination

// openDestinations opens what a run writes to. Of several, one that cannot be
// reached does not keep the others from their rows.
func (a *app) openDestinations(ctx context.Context, c *config.Config, p config.Pipeline) (opened, error) {
	var all opened
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		dest, err := a.openPart(ctx, c, d, p.From[0].Text)
		if err != nil && len(p.To) > 1 && ctx.Err() == nil && codeOf(ctx, err) != exitUsage {
			dest, err = down{err}, nil
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
