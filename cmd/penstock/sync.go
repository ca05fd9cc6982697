package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// syncFlags are the command line's words for one run.
type syncFlags struct {
	streams []string
	options pipeline.Options
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
			c, err := a.load()
			if err != nil {
				return err
			}
			p, err := pickPipeline(c, args)
			if err != nil {
				return err
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
	streams, err := c.Select(p, f.streams)
	if err != nil {
		return none, err
	}
	if err := c.Buildable(p, streams); err != nil {
		return none, err
	}
	src, err := a.openSource(c, p, streams, nil)
	if err != nil {
		return none, err
	}
	defer src.close()
	dests, err := a.openDestinations(ctx, c, p, f.options.DryRun)
	if err != nil {
		return none, err
	}
	defer dests.close(a)
	if !f.options.DryRun {
		unlock, err := lockPipeline(ctx, c.State, p.Name)
		if err != nil {
			return none, err
		}
		defer unlock()
	}
	shown := a.newProgress(len(streams), src)
	report, err := pipeline.Run(ctx, pipeline.Config{
		Name: p.Name, Source: src.client, Destinations: dests, Streams: plain(streams),
		Options: f.options, Progress: shown.event, ByteBudget: a.byteBudget,
	})
	shown.close()
	if err != nil && len(report.Streams) == 0 {
		err = fmt.Errorf("sync %s: %w", p.Name, err)
		if !errors.Is(err, state.ErrLocked) {
			err = hinted(err, "`penstock check` says what is wrong and what to do; the tables are as they were")
		}
		return report, err
	}
	return report, nil
}

// opened are the destinations of a run.
type opened []pipeline.Destination

func (a *app) openDestinations(ctx context.Context, c *config.Config, p config.Pipeline, dry bool) (opened, error) {
	var all opened
	if dry {
		return nil, nil
	}
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		dest, err := a.openDestination(ctx, c, d)
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
