package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

func planCmd(a *app) *cobra.Command {
	var only, needFleet []string
	var source string
	var deadline time.Duration
	var options fleetFlags
	cmd := &cobra.Command{
		Use:   "plan [PIPELINE]",
		Short: "forecast a run: pages, requests, bytes and time of each stream",
		Long: `Forecasts a run: pages, requests, bytes, records and time of each stream under the
rate limits. It requests the first page of each list that no run has read yet, and
prints how many requests it sent. For a list of more than ten pages, a few more
requests find out the page size. The column "basis" says where a number comes from:
  measured   in an earlier run of the pipeline
  stated     by the first page of the list
  derived    from the parent's list: one request for each of its records
  single     the endpoint returns one object
  guessed    nothing is known, because the list could not be read
"at least" marks figures of lists that do not state how long they are. After a sync,
the summary shows the error of the forecast, but not if more than a tenth of the streams
were guessed.

With --fleet, penstock assumes many workspaces like this one, and simulates workers
that read all of them in a first run. For fleets of different sizes, it prints how long
the run takes, what the workers wait for, and how many workspaces they could read within
the deadline (default 8h). It also prints how many transactions and bytes of WAL this
causes in Postgres, if both the tables and the state are there.`,
		Example: `  penstock plan nightly --deadline 30m
  penstock plan nightly --fleet --workspaces 2000 --records 100000 --deadline 6h
  penstock plan --json | jq '.streams[] | select(.skipped) | .stream'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if deadline < 0 {
				return failure.Usage("", "--deadline cannot be negative")
			}
			c, p, err := a.open.LoadOneSource(args, source)
			if err != nil {
				return err
			}
			for _, name := range needFleet {
				if !options.enabled && cmd.Flags().Changed(name) {
					return failure.Usage("add --fleet", "--%s needs --fleet", name)
				}
			}
			if err := options.check(); err != nil {
				return err
			}
			return printPlan(cmd.Context(), a, c, p, only, deadline, options)
		},
	}
	cmd.Flags().StringArrayVar(&only, "stream", nil, "only streams that match a `pattern` as in pipelines.yaml; may be repeated")
	addSourceFlag(cmd, &source)
	cmd.Flags().DurationVar(&deadline, "deadline", 0, "mark streams that a run of this `duration` would not finish")
	needFleet = options.add(cmd.Flags())
	return cmd
}

func printPlan(ctx context.Context, a *app, c *config.Config, p config.Pipeline, only []string, deadline time.Duration, options fleetFlags) error {
	r, err := a.open.Pipeline(ctx, c, p, only, true)
	if err != nil {
		return err
	}
	defer r.Close()
	var past history.PastRuns
	to, _ := c.Destination(p.To[0].Text)
	q, source := open.Selection{To: to.Name}, p.From[0].Text
	if to.PerSource() || c.Shared(to) {
		q.Source = source
	}
	if destinationExists(a, c, to.For(source)) {
		err = a.open.Read(ctx, q, func(d *open.Reader) error {
			past, err = history.ReadPastRuns(ctx, d, p.Name)
			return err
		})
	}
	if err != nil {
		return err
	}
	sizes, err := execute.Look(ctx, r, &a.open, past)
	if err != nil {
		return err
	}
	if sizes.Failed > 0 {
		a.open.Log.Warn("the forecast knows nothing about some lists", "lists", sizes.Failed, "error", sizes.Trouble)
	}
	f := execute.Forecast(r, past, sizes, deadline)
	if options.enabled {
		return printFleetPlan(a, r, f, options, deadline)
	}
	if a.json {
		return render.NewEncoder(a.out).Encode(f)
	}
	render.Forecast(a.out, f, deadline)
	return nil
}

// destinationExists reports whether a destination exists, so that it can be read.
func destinationExists(a *app, c *config.Config, d config.Destination) bool {
	p, err := a.open.Kinds.Of(c, d)
	return err == nil && (p.Absent == nil || p.Absent(d) == nil)
}
