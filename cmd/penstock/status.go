package main

import (
	"context"
	"fmt"
	"io"
	"regexp"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/load"
)

// The questions of status, runs and state. They are plain SQL over penstock's
// own tables, the same for every destination that can be asked.
const (
	sqlStatus = `SELECT s.pipeline, s.stream, c.verdict, c.fetched, c.written, c.unchanged, c.rejected, c.deleted, s.updated_at, c.run
FROM _penstock_state s LEFT JOIN (
	SELECT *, row_number() OVER (PARTITION BY pipeline, stream ORDER BY run DESC, "at" DESC) AS newest FROM _penstock_certificates
) c ON c.pipeline = s.pipeline AND c.stream = s.stream AND c.newest = 1
WHERE s.stream NOT LIKE '!_%' ESCAPE '!'
ORDER BY s.pipeline, s.stream`

	sqlRuns = `SELECT run, pipeline, status, started_at, ended_at, counts, error FROM _penstock_runs ORDER BY run DESC LIMIT 50`

	sqlState = `SELECT pipeline, stream, sequence, updated_at, cursor FROM _penstock_state ORDER BY pipeline, stream`
)

func (a *app) statusCmd() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "how every stream stands: its last pass, what that has proven, and when",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.query(cmd.Context(), to, sqlStatus, printer{form: a.form()})
		},
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

func (a *app) stateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "the cursors",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var to string
	show := &cobra.Command{
		Use:   "show",
		Short: "the cursor of every stream, as the destination holds it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.query(cmd.Context(), to, sqlState, printer{form: a.form()})
		},
	}
	addDestinationFlag(show, &to)
	cmd.AddCommand(show)
	return cmd
}

func (a *app) runsCmd() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "runs [RUN]",
		Short: "the history of runs, or one run in detail",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.query(cmd.Context(), to, sqlRuns, printer{form: a.form()})
			}
			if !runID.MatchString(args[0]) {
				return usage("`penstock runs` lists them", "%q is no run's id", args[0])
			}
			return a.withQuerier(cmd.Context(), to, func(q load.Querier) error {
				return a.showRun(cmd.Context(), q, args[0])
			})
		},
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

// runID is what a run's id may look like; being put into SQL, it is nothing else.
var runID = regexp.MustCompile(`^[0-9a-z]{1,32}$`)

// showRun prints a run, what its passes have proven, what they rejected, and
// what they changed about the tables.
func (a *app) showRun(ctx context.Context, q load.Querier, run string) error {
	where := " WHERE run = '" + run + "'"
	found := int64(0)
	count := func(b arrow.RecordBatch) error { found += b.NumRows(); return nil }
	if err := q.Query(ctx, "SELECT run FROM _penstock_runs"+where, count); err != nil {
		return err
	}
	if found == 0 {
		return &failure{err: fmt.Errorf("no run %s", run), hint: "`penstock runs` lists them", code: exitFailed}
	}
	for _, part := range []struct{ title, sql string }{
		{"", "SELECT run, pipeline, status, started_at, ended_at, counts, error FROM _penstock_runs" + where},
		{"certificates", "SELECT stream, verdict, fetched, written, unchanged, deduplicated, rejected, deleted, pages, requests, witnesses FROM _penstock_certificates" + where + " ORDER BY stream" + `, "at"`},
		{"rejects", "SELECT stream, key, pointer, wanted, raw, reason FROM _penstock_rejects" + where + " ORDER BY stream, ordinal"},
		{"changes of tables", `SELECT "table", "column", action, from_type, to_type, reason FROM _penstock_schema` + where + ` ORDER BY "at"`},
	} {
		if part.title != "" && !a.json {
			if _, err := io.WriteString(a.out, "\n"+part.title+"\n"); err != nil {
				return err
			}
		}
		form := a.form()
		if part.title == "" && form == formTable {
			form = formList
		}
		if err := a.ask(ctx, q, part.sql, printer{form: form}); err != nil {
			return err
		}
	}
	return nil
}
