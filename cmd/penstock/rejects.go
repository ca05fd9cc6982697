package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/rejects"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
)

func rejectsCmd(a *app) *cobra.Command {
	var to open.Selection
	cmd := &cobra.Command{
		Use:   "rejects",
		Short: "count, list, retry or accept records and values that are not in the tables",
		Long: `Counts, for each stream, the records and values that are not in the tables.

A record that no table can hold keeps its stream partial (exit 75) until a later run
stores it, or until you accept the loss with "penstock rejects accept".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error { return countRejects(cmd.Context(), a, d) })
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.AddCommand(rejectsListCmd(a), rejectsRetryCmd(a), rejectsAcceptCmd(a))
	return cmd
}

// rejectCount is one line of `rejects`.
type rejectCount struct {
	Source   string `json:"source,omitempty"`
	Stream   string `json:"stream"`
	Records  int64  `json:"records"`  // rejected records, which are not in the table
	Values   int64  `json:"values"`   // rejected values of records that are in the table
	Accepted int64  `json:"accepted"` // how many of these records and values a user has accepted as lost
	Resolved int64  `json:"resolved"` // records and values that a later run has stored in a table; the other fields do not count them
}

func countRejects(ctx context.Context, a *app, d *open.Reader) error {
	counts := map[[2]string]*rejectCount{}
	_, err := d.Project(ctx, load.Rejects, rejectColumns, func(r history.Row) bool {
		id := [2]string{r.Text("source"), r.Text("stream")}
		c := counts[id]
		if c == nil {
			c = &rejectCount{Source: id[0], Stream: id[1]}
			counts[id] = c
		}
		switch {
		case r.Value("resolved_at") != nil:
			c.Resolved++
			return false
		case r.Value("accepted_at") != nil:
			c.Accepted++
		}
		if record, _ := r.Value("record").(bool); record {
			c.Records++
		} else {
			c.Values++
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("count rejects: %w", err)
	}
	all := slices.SortedFunc(maps.Values(counts), func(x, y *rejectCount) int {
		return cmp.Or(cmp.Compare(x.Source, y.Source), cmp.Compare(x.Stream, y.Stream))
	})
	if a.json {
		w := render.NewEncoder(a.out)
		for _, c := range all {
			if err := w.Encode(c); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no rejects")
		return nil
	}
	sources := slices.ContainsFunc(all, func(c *rejectCount) bool { return c.Source != "" })
	columns := []string{"stream", "#records", "#values", "#accepted", "#resolved"}
	if sources {
		columns = append([]string{"source"}, columns...)
	}
	g := render.NewTable(columns...)
	for _, c := range all {
		cells := []any{c.Stream, c.Records, c.Values, c.Accepted, c.Resolved}
		if sources {
			cells = append([]any{c.Source}, cells...)
		}
		g.Add(cells...)
	}
	g.Render(a.out)
	return nil
}

func rejectsListCmd(a *app) *cobra.Command {
	var to open.Selection
	var stream string
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list records and values that are not in the tables, and why",
		Example: `  penstock rejects list
  penstock rejects list --stream crm.leads`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error { return listRejects(cmd.Context(), a, d, stream, all) })
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().StringVar(&stream, "stream", "", "only rejects of this `stream`; * matches any text")
	cmd.Flags().BoolVar(&all, "all", false, "also list rejects that were stored in a table later")
	return cmd
}

// rejectColumns are the columns of a reject that `rejects list` shows.
var rejectColumns = []string{"run", "pipeline", "stream", "pass", "ordinal", "pointer", "key", "wanted", "raw", "reason", "record", "at", "resolved_at", "record_id", "stage", "accepted_at"}

func listRejects(ctx context.Context, a *app, d *open.Reader, stream string, all bool) error {
	if _, err := path.Match(stream, ""); err != nil {
		return failure.Usage("", "--stream %q: only * is a wildcard", stream)
	}
	seen := false // the table has rejects of this stream, perhaps only resolved ones; the stream may no longer be configured
	out, err := d.Project(ctx, load.Rejects, rejectColumns, func(r history.Row) bool {
		ok, _ := path.Match(stream, r.Text("stream"))
		ok = ok || stream == ""
		seen = seen || ok
		return ok && (all || r.Value("resolved_at") == nil)
	})
	if err != nil {
		return fmt.Errorf("list rejects: %w", err)
	}
	if !seen && stream != "" && !strings.Contains(stream, "*") {
		if err := knownStream(d.Conf, stream); err != nil {
			return err
		}
	}
	out.Sort("source", "stream", "run", "pass", "ordinal", "pointer")
	if a.json {
		return out.Print(a.out, render.FormJSON)
	}
	return out.Only("source", "run", "stream", "key", "pointer", "wanted", "raw", "reason").Print(a.out, render.FormTable)
}

// knownStream returns an error if the configuration has no stream with this name.
func knownStream(c *config.Config, name string) error {
	if _, ok := c.Stream(name); ok || len(c.Streams) == 0 {
		return nil
	}
	var names []string
	for _, s := range c.Streams {
		names = append(names, s.Name)
	}
	return failure.Usage("`penstock streams` lists them", "no stream %q%s", name, config.DidYouMean(name, names))
}

func rejectsRetryCmd(a *app) *cobra.Command {
	return overRejects(a, &cobra.Command{
		Use:   "retry [PIPELINE]",
		Short: "try rejected records again, with the current rules and tables",
		Long: `Tries rejected records again, with the current rules and tables. Records that now
fit are written and are no longer rejects. No request is sent to the source.

Exit codes: 0 no record is rejected any more, 75 some records still are, 1 a destination failed.`,
	}, func(ctx context.Context, c pipeline.Config) error {
		r, err := rejects.Retry(ctx, c)
		if err != nil {
			return fmt.Errorf("retry rejects of %s: %w", c.Name, err)
		}
		return concludeRetry(a, r)
	})
}

// overRejects completes the definition of a command that changes the rejects of a pipeline. The command calls do()
// with the pipeline's configuration.
func overRejects(a *app, cmd *cobra.Command, do func(context.Context, pipeline.Config) error) *cobra.Command {
	var streams []string
	var source string
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, p, err := a.open.LoadOneSource(args, source)
		if err != nil {
			return err
		}
		return rejectsRun(cmd.Context(), a, c, p, streams, do)
	}
	cmd.Flags().StringArrayVar(&streams, "stream", nil, "only streams that match a `pattern` as in pipelines.yaml; may be repeated")
	addSourceFlag(cmd, &source)
	return cmd
}

// rejectsRun locks the pipeline, so that no run of it can begin, and calls do() with the pipeline's configuration.
func rejectsRun(ctx context.Context, a *app, c *config.Config, p config.Pipeline, streams []string, do func(context.Context, pipeline.Config) error) error {
	ctx, unlock, err := a.open.Locks.Take(ctx, a.open.State(c), p.Key())
	if err != nil {
		return err
	}
	defer unlock()
	r, err := a.open.Pipeline(ctx, c, p, streams, false)
	if err != nil {
		return err
	}
	defer r.Close()
	return do(ctx, r.Config())
}

// concludeRetry prints the outcome of a retry, and returns the exit code of the command.
func concludeRetry(a *app, r rejects.RetryReport) error {
	if a.json {
		if err := render.NewEncoder(a.out).Encode(rejectsJSON[rejects.Retried]{r.Run, r.ExitCode(), append([]rejects.Retried{}, r.Streams...)}); err != nil {
			return err
		}
		return failure.Exit(r.ExitCode())
	}
	if len(r.Streams) == 0 {
		fmt.Fprintln(a.out, "nothing to retry")
		return failure.Exit(r.ExitCode())
	}
	g := render.NewTable("stream", "destination", "#retried", "#resolved", "#superseded", "#rejected", "#waiting", "#left")
	for _, s := range r.Streams {
		g.Add(s.Stream, s.Destination, s.Retried, s.Resolved, s.Superseded, s.Rejected, s.Waiting, s.Left)
	}
	g.Render(a.out)
	for _, s := range r.Streams {
		failedRejects(a, s.Stream, s.Destination, s.Error)
		for _, still := range s.Still {
			fmt.Fprintf(a.out, "still rejected: %s %s of run %s: %s\n", s.Stream,
				cmp.Or(still.Key, fmt.Sprint(still.Ordinal)), still.Run, render.Printable(still.Reason, false))
		}
	}
	return failure.Exit(r.ExitCode())
}

// failedRejects prints the reason why the rejects of a stream could not be changed. If the reason is "", it prints
// nothing.
func failedRejects(a *app, stream, destination, why string) {
	if why != "" {
		fmt.Fprintf(a.out, "failed: %s → %s: %s\n", stream, destination, render.Printable(why, false))
	}
}

// rejectsJSON is what `rejects retry --json` and `rejects accept --json` print. S is the outcome of one
// stream.
type rejectsJSON[S any] struct {
	Run      string `json:"run,omitempty"`
	ExitCode int    `json:"exit_code"`
	Streams  []S    `json:"streams"` // never null: if there are no streams, an empty list
}
