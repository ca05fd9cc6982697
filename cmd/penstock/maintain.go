package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

func maintainCmd(a *app) *cobra.Command {
	var source string
	cmd := &cobra.Command{
		Use:   "maintain [PIPELINE]",
		Short: "remove old rows of penstock's own tables now",
		Long: `Removes the rows of penstock's own tables that are older than ` + "`keep:`" + ` of their pipeline
from its destinations. The first run of each day does the same, so this command is for
pipelines that seldom run, and for the time after ` + "`keep:`" + ` was made shorter. Rows of your data
stay. No request is sent to a source, and no secret of a source is needed.

Parquet and Iceberg destinations merge small files in each commit, and also in the commits of
this command.

Exit codes: 0 done, 75 a pipeline is running or a file is locked, 1 a destination failed.`,
		Example: `  penstock maintain
  penstock maintain nightly --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return maintain(cmd.Context(), a, args, source) },
	}
	addSourceFlag(cmd, &source)
	return cmd
}

// maintain removes old rows for the named pipeline, or for all pipelines. If one of them fails, it goes on with the
// others, and returns the errors joined.
func maintain(ctx context.Context, a *app, args []string, source string) error {
	c, err := a.open.LoadNames()
	if err != nil {
		return err
	}
	pipelines := c.Pipelines
	if len(args) > 0 {
		p, err := open.PickPipeline(c, args)
		if err != nil {
			return err
		}
		pipelines = []config.Pipeline{p}
	}
	x := a.executor(c)
	all := []execute.Maintained{}
	var errs []error
	read := false
	for _, p := range pipelines {
		for _, from := range p.From {
			if source != "" && source != from.Text {
				continue
			}
			read = true
			done, err := x.Maintain(ctx, c, p.ForSource(from.Text))
			all, errs = append(all, done...), append(errs, err)
		}
	}
	if !read {
		return failure.Usage("`penstock sources list` lists the sources of pipelines", "no source %q", source)
	}
	return errors.Join(append([]error{printMaintained(a, all)}, errs...)...)
}

func printMaintained(a *app, all []execute.Maintained) error {
	if a.json {
		return render.NewEncoder(a.out).Encode(all)
	}
	if len(all) == 0 {
		return a.say("nothing to maintain: nothing was loaded yet\n")
	}
	g := render.NewTable("pipeline", "source", "destination", "older than", "#certificates", "#runs", "#rejects", "#changes", "#checks", "#events", "#notes")
	for _, m := range all {
		before := "keeps all"
		if !m.Before.IsZero() {
			before = m.Before.Format(time.DateOnly)
		}
		g.Add(m.Pipeline, m.Source, m.Destination, before, m.Certificates, m.Runs, m.Rejects, m.RowChanges, m.Checks, m.Events, m.Notes)
	}
	g.Render(a.out)
	return nil
}
