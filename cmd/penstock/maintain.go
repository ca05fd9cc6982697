package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
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
// others.
func maintain(ctx context.Context, a *app, args []string, source string) error {
	c, err := a.open.LoadNames()
	if err != nil {
		return err
	}
	pipelines, err := open.PickPipelines(c, args)
	if err != nil {
		return err
	}
	if source != "" {
		pipelines = slices.DeleteFunc(slices.Clone(pipelines), func(p config.Pipeline) bool { return !p.Reads(source) })
		if len(pipelines) == 0 {
			return failure.Usage("`penstock sources list` lists the sources of pipelines", "no source %q", source)
		}
	}
	x := a.executor(c)
	all := []execute.Maintained{}
	var failed []error
	for _, p := range pipelines {
		if source != "" {
			p = p.ForSource(source)
		}
		done, errs := x.Maintain(ctx, c, p)
		all, failed = append(all, done...), append(failed, errs...)
	}
	if err := printMaintained(a, all, len(failed) == 0); err != nil {
		return err
	}
	joined, hint := errors.Join(failed...), ""
	if f, ok := errors.AsType[*failure.Error](joined); ok {
		hint = f.Hint
	}
	for _, err := range failed {
		if !errors.Is(err, state.ErrLocked) { // the exit code of an error says more than that of a lock
			return &failure.Error{Err: joined, Hint: hint, Code: failure.ExitFailed}
		}
	}
	return joined
}

// printMaintained prints what was removed. Of a pipeline with several sources, people see only the sources whose rows
// were removed. Errors are printed elsewhere. The argument `complete` says that there are none.
func printMaintained(a *app, all []execute.Maintained, complete bool) error {
	if a.json {
		return render.NewEncoder(a.out).Encode(all)
	}
	g := render.NewTable("pipeline", "source", "destination", "older than", "#certificates", "#runs", "#rejects", "#changes", "#checks", "#events", "#notes")
	shown := false
	for _, m := range all {
		if m.Trimmed == (load.Trimmed{}) && (m.Source != "" || m.Error != "") {
			continue
		}
		before := "keeps all"
		if !m.Before.IsZero() {
			before = m.Before.Format(time.DateOnly)
		}
		g.Add(m.Pipeline, m.Source, m.Destination, before, m.Certificates, m.Runs, m.Rejects, m.RowChanges, m.Checks, m.Events, m.Notes)
		shown = true
	}
	switch {
	case shown:
		g.Render(a.out)
	case complete:
		return a.say("no old rows\n")
	}
	return nil
}
