package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/render/parquetfile"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// queryFlags are the flags of query.
type queryFlags struct {
	to           open.Selection
	format, file string
	exact        bool
}

func queryCmd(a *app) *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{
		Use:   `query ["SQL"]`,
		Short: "run SQL over a destination; the result is a table, CSV, JSON or Parquet",
		Long: `Runs one read-only SQL statement over a destination. The result is a table, CSV,
JSON with one object per line, or a Parquet file. A lake of Parquet files is
queried through DuckDB, in memory. Without SQL, or with -, the statement is read from
stdin. In CSV, a text that a spreadsheet would run as
a formula gets a ' before it, unless --exact is set.`,
		Example: `  penstock query "SELECT count(*) FROM crm_leads WHERE _penstock_deleted_at IS NULL"
  penstock query --format csv -o invoices.csv "SELECT * FROM sales_invoices"
  penstock query --format parquet -o leads.parquet "FROM crm_leads"
  penstock query --format csv < report.sql`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := queryFormat(a, f)
			if err != nil {
				return err
			}
			sql, err := statement(args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return a.open.Read(cmd.Context(), f.to, func(d *open.Reader) error {
				// Cause: several sources share the tables of the destination
				if err := d.Together(fmt.Sprintf("put WHERE %s = '%s' into the query", schemas.ColSource, d.Source)); err != nil {
					return err
				}
				return d.Ask(cmd.Context(), func(q load.Querier) error {
					return a.writeTo(f.file, func(w io.Writer) error {
						return ask(cmd.Context(), q, sql, resultWriter(w, format, f.exact))
					})
				})
			})
		},
	}
	addDestinationFlag(cmd, &f.to)
	fl := cmd.Flags()
	fl.StringVar(&f.format, "format", "", "`format` of the result: table, csv, json or parquet")
	fl.StringVarP(&f.file, "output", "o", "", "`file` to write instead of stdout; it is replaced when the result is complete")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(queryFormats, cobra.ShellCompDirectiveNoFileComp))
	fl.BoolVar(&f.exact, "exact", false, "in CSV, write every text unchanged, formulas too")
	return cmd
}

// form returns the format that the global flags select.
func (a *app) form() render.Form {
	if a.json {
		return render.FormJSON
	}
	return render.FormTable
}

// queryFormats are the formats of a result.
var queryFormats = []string{"table", "json", "csv", "parquet"}

// queryFormat returns the format that the flags select.
func queryFormat(a *app, f queryFlags) (string, error) {
	out, _ := a.out.(*render.Output)
	switch {
	case f.format == "" && a.json:
		return "json", nil
	case f.format == "":
		return "table", nil
	case !slices.Contains(queryFormats, f.format):
		return "", failure.Usage("", "--format %q: want table, csv, json or parquet", f.format)
	case a.json && f.format != "json":
		return "", failure.Usage("", "--format %s and --json contradict each other", f.format)
	case f.format == "parquet" && f.file == "" && out != nil && isTerminal(out.Writer):
		return "", failure.Usage("name a file with -o", "cannot print a Parquet file to a terminal")
	}
	return f.format, nil
}

func resultWriter(w io.Writer, format string, exact bool) render.Writer {
	switch format {
	case "json":
		return &render.Printer{W: w, Form: render.FormJSON}
	case "csv":
		return &render.Printer{W: w, Form: render.FormCSV, Exact: exact}
	case "parquet":
		return &parquetfile.Writer{W: w}
	}
	return &render.Printer{W: w}
}

// maxStatement limits the size of a statement, in bytes.
const maxStatement = 1 << 20

// statement returns the SQL of the command line, or else the SQL on stdin.
func statement(args []string, stdin io.Reader) (string, error) {
	const hint = "pass it as an argument, or on stdin: penstock query < report.sql"
	switch {
	case len(args) > 0 && strings.TrimSpace(args[0]) == "":
		return "", failure.Usage(hint, "no SQL statement")
	case len(args) > 0 && args[0] != "-":
		return args[0], nil
	}
	if f, ok := stdin.(*os.File); ok && len(args) == 0 && term.IsTerminal(int(f.Fd())) {
		return "", failure.Usage(hint, "no SQL statement")
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxStatement+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the SQL statement from stdin: %w", failure.PathCause(err))
	case len(text) > maxStatement:
		return "", failure.Usage("", "the SQL statement on stdin is larger than %d bytes", maxStatement)
	case strings.TrimSpace(string(text)) == "":
		return "", failure.Usage(hint, "no SQL statement")
	}
	return string(text), nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask runs one statement and prints its result.
func ask(ctx context.Context, q load.Querier, sql string, p render.Writer) error {
	if err := q.Query(ctx, sql, p.Batch); err != nil {
		return err
	}
	return p.Close()
}
