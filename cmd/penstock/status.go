package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/runlist"
)

func statusCmd(a *app) *cobra.Command {
	var to open.Selection
	var health bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show each stream: its last pass, the verdict and its reasons, and any problem",
		Long: `Shows each stream of all destinations, or of those that --to and --source select: its
last pass, the verdict and its reasons, and any problem. With -v it prints all columns, with --json also long texts in full.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if health {
				return printHealth(cmd.Context(), a)
			}
			return printStatus(cmd.Context(), a, to)
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().BoolVar(&health, "health", false, "only check whether penstock serve, with this configuration, is healthy: exit 0 or 1")
	return cmd
}

// printStatus prints the streams of the selected destinations.
func printStatus(ctx context.Context, a *app, to open.Selection) error {
	var all runlist.Table
	now := time.Now
	var running []string
	err := a.open.ReadAll(ctx, to, func(d *open.Reader) error {
		now = a.open.State(d.Conf).Now
		out, err := history.StreamStatuses(ctx, d, d.Conf.HasCheck)
		if err != nil {
			return err
		}
		all.Add(d, out)
		runs, err := history.RunsUnderWay(ctx, d)
		for _, r := range runs {
			running = append(running, render.UnderWay(r.Run, r.Pipeline, now().Sub(r.Began)))
		}
		return err
	})
	if err != nil && all.Empty() {
		return err
	}
	out := all.Answer().Sort("pipeline", "stream", "source", "destination")
	if a.verbose || a.json {
		return errors.Join(out.Print(a.out, a.form()), err)
	}
	slices.Sort(running)
	render.Status(a.out, out, now(), slices.Compact(running))
	return err // the part that could be read was printed
}
