package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func sourcesCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "list, add, pause and resume the workspaces that pipelines read",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sourcesListCmd(a), sourcesAddCmd(a), sourcesPauseCmd(a), sourcesResumeCmd(a))
	return cmd
}

func sourcesListCmd(a *app) *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list sources and their last outcomes, failed sources first",
		Long: `Lists each source with its outcome in the last run of each pipeline that reads it,
when it was last complete, and how many runs since then were not complete.
Sources that failed come first.`,
		Example: `  penstock sources list --source 'acme-*'
  penstock sources list --json | jq -r 'select(.failures > 2) | .source'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open.LoadNames()
			if err != nil {
				return err
			}
			return listSources(cmd.Context(), a, c, only)
		},
	}
	cmd.Flags().StringArrayVar(&only, "source", nil, "only sources that match a `pattern`; may be repeated")
	return cmd
}

// listSources prints the sources. A source has one line for each multi-source pipeline that has read it, or a single
// line if it was not read yet.
func listSources(ctx context.Context, a *app, c *config.Config, only []string) error {
	stored, err := execute.ReadSources(ctx, a.open.State(c), "")
	if err != nil {
		return err
	}
	all := config.Pipeline{MultiSource: true}
	for _, s := range c.Sources {
		all.From = append(all.From, config.Ref{Text: s.Name})
	}
	chosen, err := c.Pick(all, only)
	if err != nil {
		return err
	}
	out := render.Answer{Columns: []arrow.Field{
		schemas.Field("source", schemas.Text, ""), schemas.Field("state", schemas.Text, ""), schemas.Field("pipeline", schemas.Text, ""),
		schemas.Field("complete", schemas.Timestamp, ""), schemas.Field("failures", schemas.Int64, ""), schemas.Field("rows", schemas.Int64, ""),
		schemas.Field("requests", schemas.Int64, ""), schemas.Field("error", schemas.Text, ""),
	}}
	for _, from := range chosen {
		out.Rows = append(out.Rows, sourceRows(c, stored, from.Text)...)
	}
	slices.SortStableFunc(out.Rows, func(x, y []any) int { return worst(x) - worst(y) })
	return out.Print(a.out, a.form())
}

// sourceRows returns the lines of one source: one line per pipeline that has read it, or a single line if no pipeline
// has read it.
func sourceRows(c *config.Config, stored execute.SourceRecords, name string) (rows [][]any) {
	s, _ := c.Source(name)
	standing := "new"
	_, paused := stored.Paused[name]
	for _, r := range stored.Records {
		if r.Source != name {
			continue
		}
		row := []any{name, r.Status, r.Pipeline, nil, int64(r.Failures), r.Rows, int64(r.Requests), nil}
		if !r.Complete.IsZero() {
			row[3] = r.Complete
		}
		if r.Error != "" {
			row[7] = r.Error
		}
		rows = append(rows, row)
	}
	if rows == nil {
		rows = [][]any{{name, standing, nil, nil, nil, nil, nil, nil}}
	}
	for _, row := range rows {
		switch {
		case paused:
			row[1] = "paused"
		case s.Faults != nil:
			row[1], row[7] = "faulty", s.Faults.Error()
		}
	}
	return rows
}

// worst() returns the rank of a line. Lines that need attention have the lowest ranks and come first.
func worst(row []any) int {
	switch state, _ := row[1].(string); state {
	case "faulty", string(pipeline.StatusFailed):
		return 0
	case string(pipeline.StatusComplete):
		return 3
	case "paused":
		return 2
	case "new":
		return 4
	}
	return 1
}

func sourcesPauseCmd(a *app) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   "pause SOURCE…",
		Short: "exclude sources from runs until they are resumed",
		Long: `Excludes sources from runs, from the next run on, until they are resumed. Their rows
stay unchanged.`,
		Example: `  penstock sources pause acme --why "contract ended"`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeSources(cmd.Context(), a, args, func(ctx context.Context, s state.Sources, now time.Time, name string) error {
				if err := s.Pause(ctx, name, state.Pause{At: now, Why: why}); err != nil {
					return err
				}
				return a.say("paused %s\n", name)
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "a `note` that is stored with the pause")
	return cmd
}

func sourcesResumeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "resume SOURCE…",
		Short:   "include paused sources in runs again",
		Long:    `Includes paused sources in runs again. Each continues from its cursor.`,
		Example: `  penstock sources resume acme`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeSources(cmd.Context(), a, args, func(ctx context.Context, s state.Sources, now time.Time, name string) error {
				was, err := s.Resume(ctx, name)
				if err != nil || !was {
					return errors.Join(err, a.say("%s was not paused\n", name))
				}
				return a.say("resumed %s\n", name)
			})
		},
	}
}

// changeSources checks that all named sources exist. Then it calls do() for each source.
func changeSources(ctx context.Context, a *app, names []string, do func(context.Context, state.Sources, time.Time, string) error) error {
	c, err := a.open.LoadNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := open.Pick(c.File, "source", "", c.Sources, func(s config.Source) string { return s.Name }, name); err != nil {
			return err
		}
	}
	s, err := a.open.State(c).OpenSources(ctx)
	if err != nil {
		return execute.SourcesTrouble(err)
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, do(ctx, s, a.open.State(c).Now(), name))
	}
	return errors.Join(append(errs, s.Close())...)
}
