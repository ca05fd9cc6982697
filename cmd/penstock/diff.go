package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
)

func runsDiffCmd(a *app) *cobra.Command {
	var to open.Selection
	var table string
	cmd := &cobra.Command{
		Use:   "diff A B --table T",
		Short: "show how a table's rows changed between two runs",
		Long: `Shows how a table's rows changed from the end of run A to the end of run B: the
inserted and deleted rows, and the changed columns of updated rows. It shows the net
effect: a value that changed and changed back is left out. Changes are logged only
if the pipeline or the stream has changes: true.`,
		Example: "  penstock runs diff co6bjmfsd81u co6bjogeiftv --table sales_invoices",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, run := range args {
				if err := checkRunID(run); err != nil {
					return err
				}
			}
			switch {
			case table == "":
				return failure.Usage("", "name a table with --table")
			case args[0] > args[1]:
				return failure.Usage("", "run %s is later than %s; name the earlier run first", args[0], args[1])
			}
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error {
				if err := d.One(); err != nil {
					return err
				}
				return diffRuns(cmd.Context(), a, d, table, args[0], args[1])
			})
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().StringVar(&table, "table", "", "`table` to look at")
	return cmd
}

// diffRuns prints the net effect of all changes to a table from the end of one run to the end of another.
func diffRuns(ctx context.Context, a *app, d *open.Reader, table, from, to string) error {
	t, err := d.LoadedTable(ctx, table)
	if err != nil {
		return err
	}
	spans, err := history.RunPeriods(ctx, d)
	if err != nil {
		return err
	}
	for _, run := range []string{from, to} {
		switch s, ok := spans[run]; {
		case !ok:
			return &failure.Error{Err: fmt.Errorf("no run %s", run), Hint: "`penstock runs` lists them", Code: failure.ExitFailed}
		case s.Until.IsZero():
			return &failure.Error{Err: fmt.Errorf("run %s has not ended", run), Hint: "wait for it, or name an earlier one", Code: failure.ExitFailed}
		}
	}
	if err := history.CheckKept(ctx, d, from, spans[from].Until); err != nil {
		// Cause: the changes of the run are not stored any more
		return failure.Hinted(err, "name a run that ended later; the pipeline's key `keep` sets how long changes are stored")
	}
	log, err := history.ReadRowLog(ctx, d, table, history.Period{Since: spans[from].Until, Until: spans[to].Until})
	if err != nil {
		return err
	}
	if log.Stream == "" {
		return &failure.Error{Err: fmt.Errorf("no changes of %s were logged", table), Code: failure.ExitFailed,
			Hint: "set changes: true in the pipeline; later runs then log their changes"}
	}
	if err := warnUnlogged(ctx, a, d, log, spans); err != nil {
		return err
	}
	return printDiff(a, log.Net(len(t.Key) == 0))
}

// warnUnlogged warns if a run in the period changed rows but did not log the changes. Such a run took place before the
// setting "changes: true" was in the pipeline.
func warnUnlogged(ctx context.Context, a *app, d load.Destination, log history.RowLog, spans map[string]history.Period) error {
	return history.Scan(ctx, d, load.Certificates, func(r history.Row) error {
		if r.Text("stream") != log.Stream || !log.Period.Contains(r.Time("at")) || r.Number("written")+r.Number("deleted") == 0 {
			return nil
		}
		run := spans[r.Text("run")]
		if !slices.ContainsFunc(log.Changes, func(c history.RowChange) bool { return run.Contains(c.At) }) {
			a.log.Warn("a run in this period changed rows but did not log the changes", "run", r.Text("run"), "stream", log.Stream)
		}
		return nil
	})
}

func printDiff(a *app, effects []history.NetChange) error {
	if a.json {
		return render.EncodeLines(a.out, effects)
	}
	g := render.NewTable("change", "key", "column", "before", "after")
	count := map[string]int{}
	for _, e := range effects {
		count[e.Change]++
		key := strings.Trim(string(e.Key), "[]")
		for _, name := range slices.Sorted(maps.Keys(e.Columns)) {
			g.Add(e.Change, key, name, string(e.Columns[name].Before), string(e.Columns[name].After))
		}
		if e.Columns == nil {
			g.Add(e.Change, key, "", string(e.Before), string(e.After))
		}
	}
	g.Render(a.out)
	_, err := fmt.Fprintf(a.out, "%d inserted, %d updated, %d deleted\n", count["inserted"], count["updated"], count["deleted"])
	return err
}
