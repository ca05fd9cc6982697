package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/runlist"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// maxRuns is how many runs `runs` lists.
const maxRuns = 50

func runsCmd(a *app) *cobra.Command {
	var to open.Selection
	cmd := &cobra.Command{
		Use:   "runs [RUN]",
		Short: "list past runs, or show one run in detail",
		Long: `Lists the last 50 runs of all destinations, or of those that --to and --source select.
A run over several sources is one row. With RUN it shows that run with its sources, the
attempts at it, its certificates, checks and rejects, and the changes of tables.
With -v the list has all columns, with --json also long texts in full. While workers share a run, its status comes from the state.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listRuns(cmd.Context(), a, to)
			}
			if err := checkRunID(args[0]); err != nil {
				return err
			}
			return showRun(cmd.Context(), a, to, args[0])
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.AddCommand(runsDiffCmd(a), runsUnitsCmd(a), runsCancelCmd(a))
	return cmd
}

var runID = regexp.MustCompile(`^[0-9a-z]{1,32}$`)

func checkRunID(s string) error {
	if !runID.MatchString(s) {
		return &failure.Error{Err: fmt.Errorf("no run %q", s), Hint: "`penstock runs` lists them", Code: failure.ExitFailed}
	}
	return nil
}

func listRuns(ctx context.Context, a *app, to open.Selection) error {
	now := time.Now
	l, err := runlist.Read(ctx, &a.open, to, "", func(d *open.Reader) error {
		now = a.open.State(d.Conf).Now
		return nil
	})
	if err != nil && len(l.Runs) == 0 {
		return err
	}
	if a.json || a.verbose {
		return errors.Join(l.Answer(maxRuns).Print(a.out, a.form()), err) // print the part that could be read
	}
	l.Print(a.out, maxRuns, now())
	return err
}

// runParts are the tables that `runs RUN` prints below a run.
var runParts = []struct {
	title          string
	table          schemas.Table
	columns, order []string
}{
	{"certificates", load.Certificates, []string{"at", "stream", "verdict", "fetched", "written", "unchanged", "deduplicated", "rejected", "deleted", "pages", "requests", "witnesses"}, []string{"source", "stream", "at"}},
	{"checks", load.Checks, []string{"at", "stream", "check_name", "on_fail", "result", "failing", "row_count", "detail", "examples"}, []string{"source", "stream", "at"}},
	{"rejects", load.Rejects, []string{"stream", "ordinal", "key", "pointer", "wanted", "raw", "reason"}, []string{"source", "stream", "ordinal"}},
	{"changes of tables", load.Changes, []string{"at", "table", "column", "action", "from_type", "to_type", "reason"}, []string{"at"}},
}

// showRun prints a run, its sources and attempts, its certificates, its rejects, and the changes that it made to
// tables.
func showRun(ctx context.Context, a *app, to open.Selection, run string) error {
	of := func(r history.Row) bool { return history.RunOf(r.Text("run")) == run }
	parts := make([]runlist.Table, len(runParts))
	l, err := runlist.Read(ctx, &a.open, to, run, func(d *open.Reader) error {
		for i, part := range runParts {
			rows, err := d.Project(ctx, part.table, part.columns, of)
			if err != nil {
				return err
			}
			parts[i].Add(d, rows)
		}
		return nil
	})
	switch {
	case err != nil && len(l.Runs) == 0:
		return err
	case len(l.Runs) == 0:
		return &failure.Error{Err: fmt.Errorf("no run %s", run), Hint: "`penstock runs` lists them", Code: failure.ExitFailed}
	}
	return errors.Join(printRun(a, l, parts), err) // print the part that could be read
}

// printRun prints a run and the tables below it.
func printRun(a *app, l runlist.List, parts []runlist.Table) error {
	form := a.form()
	if form == render.FormTable {
		form = render.FormList
	}
	if err := l.Answer(1).Print(a.out, form); err != nil {
		return err
	}
	if err := l.Runs[0].PrintParts(a.out, a.form(), !a.json); err != nil {
		return err
	}
	for i, part := range runParts {
		out := parts[i].Answer()
		if !a.json {
			out = withReasons(out)
			if _, err := io.WriteString(a.out, "\n"+part.title+"\n"); err != nil {
				return err
			}
		}
		if err := out.Sort(part.order...).Print(a.out, a.form()); err != nil {
			return err
		}
	}
	return nil
}

// withReasons replaces the column of witnesses, which only programs need, with the reasons of the verdicts.
func withReasons(t render.Answer) render.Answer {
	i := slices.IndexFunc(t.Columns, func(f arrow.Field) bool { return f.Name == "witnesses" })
	if i < 0 {
		return t
	}
	t.Columns[i] = schemas.Field("why", schemas.Text, "")
	for _, r := range t.Rows {
		text, _ := r[i].(string)
		r[i] = history.Reasons(text)
	}
	return t
}
