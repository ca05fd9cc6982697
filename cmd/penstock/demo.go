package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load"
)

func demoCmd(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "a tour in a minute: sandbox, sync into DuckDB, three queries, a second run that changes nothing",
		Long: `A tour in a minute, without an account or a network: starts a sandbox, syncs every
stream into a DuckDB file, runs three queries, and syncs again, which changes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), a, dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", "demo", "`folder` for the configuration and the database; files of an earlier demo are replaced")
	return cmd
}

// demoConfig is a format string. Its arguments are the sandbox's address, two credentials, the database file and the
// state folder.
const demoConfig = `# Made by penstock sandbox demo. The sandbox at these addresses stopped when the demo ended.
version: 1
sources:
  main:
    v2: {base_url: "%[1]s", auth: {api_key: %[2]s}, plan: pro}
    app: {base_url: "%[1]s", auth: {token: %[3]s}, rate: 200/s}
destinations:
  warehouse: "duckdb:%[4]s?block_size=16384" # many small tables
pipelines:
  demo: {from: main, to: warehouse}
state: "%[5]s"
`

// demoQueries are three questions that an analyst may start with.
var demoQueries = []struct{ title, sql string }{
	{"who owes the most", `SELECT customer__name AS customer, count(*) AS invoices, sum(total_amount) AS invoiced, sum(balance_amount) AS open
FROM sales_invoices WHERE _penstock_deleted_at IS NULL
GROUP BY ALL ORDER BY open DESC LIMIT 5`},
	{"leads by stage", `SELECT _context__stage__name AS stage, count(*) AS leads, min(created_at)::DATE AS oldest
FROM crm_leads WHERE _penstock_deleted_at IS NULL
GROUP BY ALL ORDER BY leads DESC, stage LIMIT 5`},
	{"best sellers, from the line items nested in the invoices", `SELECT l.product_id AS product, count(*) AS lines, sum(l.quantity) AS pieces, sum(l.total_amount) AS turnover
FROM sales_invoices i JOIN sales_invoices__items l ON l._penstock_parent = i.id
WHERE i._penstock_deleted_at IS NULL
GROUP BY ALL ORDER BY turnover DESC LIMIT 5`},
}

// runDemo shows a sync from end to end, without an account or a network.
func runDemo(ctx context.Context, a *app, dir string) error {
	if duckdbMissing != "" {
		return failure.Usage("", "the demo needs duckdb: %s", duckdbMissing)
	}
	s, err := serveSandbox("127.0.0.1:0", sandbox.Options{Seed: 1, Gzip: true})
	if err != nil {
		return err
	}
	defer s.close()
	c, err := demoSetup(a, dir, s.url)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "sandbox at %s, configuration in %s\n\n", s.url, a.open.File)
	if err := demoRun(ctx, a, c, "first run", false); err != nil {
		return err
	}
	for _, q := range demoQueries {
		fmt.Fprintf(a.out, "\n%s\n\n%s\n\n", q.title, q.sql)
		err := a.open.Read(ctx, open.Selection{}, func(d *open.Reader) error {
			return d.Ask(ctx, func(on load.Querier) error { return ask(ctx, on, q.sql, &render.Printer{W: a.out}) })
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(a.out)
	if err := demoRun(ctx, a, c, "second run", true); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "next: penstock query -c %s \"SELECT * FROM crm_leads LIMIT 5\"\n", a.open.File)
	return nil
}

// demoSetup creates the folder and its configuration.
func demoSetup(a *app, dir, url string) (*config.Config, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make demo folder: %w", err)
	}
	file := filepath.Join(dir, "warehouse.duckdb")
	for _, old := range []string{file, file + ".wal"} {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the earlier demo: %w", err)
		}
	}
	a.open.File = filepath.Join(dir, "pipelines.yaml")
	text := fmt.Appendf(nil, demoConfig, url, sandboxAPIKey, sandboxAppToken, file, filepath.Join(dir, ".penstock"))
	if err := os.WriteFile(a.open.File, text, 0o600); err != nil {
		return nil, fmt.Errorf("write demo configuration: %w", err)
	}
	return a.open.Load()
}

// demoRun makes one run and prints its result. The argument `unchanged` is true if the run must change no row; if the
// run then changes a row, demoRun returns an error.
func demoRun(ctx context.Context, a *app, c *config.Config, title string, unchanged bool) error {
	start := time.Now()
	result, err := a.executor(c).Run(ctx, execute.Run{Conf: c, Pipeline: c.Pipelines[0], Show: a.showProgress})
	if err != nil {
		return err
	}
	r := result.Report
	if r.Status != pipeline.StatusComplete || !unchanged {
		render.Summary(a.out, r, a.summaryOptions())
	}
	t := r.Totals().Counts
	fmt.Fprintf(a.out, "%s: %s records read, %s rows written in %s\n", title, render.Grouped(t.Fetched), render.Grouped(t.Written), render.Brief(time.Since(start)))
	if r.Status == pipeline.StatusComplete && unchanged && t.Written+t.Deleted > 0 {
		return &failure.Error{Err: fmt.Errorf("second run: %d rows were written and %d deleted although nothing had changed", t.Written, t.Deleted), Code: failure.ExitFailed}
	}
	return failure.Exit(r.ExitCode())
}
