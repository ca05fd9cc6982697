package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract/wire"
)

// syncFlags are the flags of sync and backfill.
type syncFlags struct {
	streams []string
	sources []string // patterns that select sources of a multi-source pipeline; nil for all sources
	options pipeline.Options
}

func syncCmd(a *app) *cobra.Command {
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "sync [PIPELINE]",
		Short: "run a pipeline once, now",
		Long: `Runs a pipeline once, now: reads its streams and loads what has changed. It can be
stopped at any time and started again. Committed data stays.

Exit codes: 0 complete, 1 failed, 2 the command line or the configuration is
wrong, 75 partial or postponed (run again later), 130 and 143 stopped by a signal.`,
		Example: `  penstock sync
  penstock sync nightly --stream 'crm.*' --stream '!crm.deals'
  penstock sync --dry-run --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.sync(cmd.Context(), args, f) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.streams, "stream", nil, "only streams that match a `pattern` as in pipelines.yaml; may be repeated")
	fl.StringArrayVar(&f.sources, "source", nil, "only sources that match a `pattern`, if the pipeline reads several; may be repeated")
	fl.BoolVar(&f.options.DryRun, "dry-run", false, "only read the source and make rows; do not open a destination")
	fl.BoolVar(&f.options.Full, "full", false, "read every stream from its beginning, and ignore unfinished passes")
	fl.BoolVar(&f.options.ConfirmShrink, "confirm-shrink", false, "delete rows that are gone at the source, even if they are many")
	return cmd
}

// executor returns the executor of this process.
func (a *app) executor(c *config.Config) *execute.Executor {
	if a.redactor == nil {
		a.redactor = wire.NewRedactor(c.Secrets...)
	}
	return &execute.Executor{Open: &a.open, Redactor: a.redactor, Messages: a.err, ByteBudget: a.byteBudget}
}

// sync makes one run of the pipeline that the arguments name, and prints the result of the run.
func (a *app) sync(ctx context.Context, args []string, f syncFlags) error {
	c, p, err := a.open.LoadPipeline(args)
	if err != nil {
		return err
	}
	r := execute.Run{Conf: c, Pipeline: p, Streams: f.streams, Options: f.options, Show: a.showProgress}
	if p.MultiSource {
		return a.syncSources(ctx, r, f.sources)
	}
	if len(f.sources) > 0 {
		return failure.Usage("", "pipeline %s reads only one source, %s", p.Name, p.From[0].Text)
	}
	result, err := a.executor(c).Run(ctx, r)
	if err != nil {
		return err
	}
	return a.conclude(result.Report)
}

// conclude prints the report of a run, and returns the exit code of the command.
func (a *app) conclude(r pipeline.Report) error {
	switch {
	case a.json:
		if err := render.NewEncoder(a.out).Encode(render.ReportJSON(r, a.open.File)); err != nil {
			return err
		}
	case !a.quiet || r.Status != pipeline.StatusComplete:
		render.Summary(a.out, r, a.summaryOptions())
	}
	return failure.Exit(r.ExitCode())
}

// summaryOptions returns the options for the summary of a run, according to the global flags.
func (a *app) summaryOptions() render.SummaryOptions {
	return render.SummaryOptions{Verbose: a.verbose, Config: a.open.File}
}

// showProgress shows the progress of a run on the terminal, according to the global flags.
func (a *app) showProgress(r *open.Run) (event func(pipeline.Event), done func()) {
	o := render.ProgressOptions{
		Total: len(r.Streams), Log: a.log, Silent: a.noProgress || a.quiet,
		Rates: func() (limit, waiting string) { return r.Source.Limit(), r.Source.Waiting() },
	}
	if a.live() {
		o.Screen = a.screen
	}
	p := render.NewProgress(o)
	return p.Event, p.Close
}
