package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// queryFlags say how an answer is written, and where.
type queryFlags struct {
	to           asked
	format, file string
	exact        bool
}

func (a *app) queryCmd() *cobra.Command {
	var f queryFlags
	cmd := &cobra.Command{
		Use:   `query "SQL"`,
		Short: "SQL over the destination, as a table, CSV, JSON or Parquet",
		Long: `SQL over the destination: one statement that only reads, as a table, as CSV, as
JSON, one object a line, or as a Parquet file. A lake of Parquet files is asked
through DuckDB, in memory. In CSV a text that a spreadsheet would take for a
formula gets a ' before it, unless --exact.`,
		Example: `  penstock query "SELECT count(*) FROM crm_leads WHERE _penstock_deleted_at IS NULL"
  penstock query --format csv -o invoices.csv "SELECT * FROM sales_invoices"
  penstock query --format parquet -o leads.parquet "FROM crm_leads"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			form, err := a.queryForm(f)
			if err != nil {
				return err
			}
			return a.read(cmd.Context(), f.to, func(d *reader) error {
				if err := d.together(fmt.Sprintf("put WHERE %s = '%s' into the question", schemas.ColSource, d.source)); err != nil {
					return err
				}
				return d.ask(cmd.Context(), func(q load.Querier) error {
					return a.writeTo(f.file, func(w io.Writer) error {
						return ask(cmd.Context(), q, args[0], &printer{w: w, form: form, exact: f.exact})
					})
				})
			})
		},
	}
	addDestinationFlag(cmd, &f.to)
	fl := cmd.Flags()
	fl.StringVar(&f.format, "format", "", "`form` of the answer: table, csv, json or parquet")
	fl.StringVarP(&f.file, "output", "o", "", "`file` to write instead of stdout; replaced when the answer is whole")
	fl.BoolVar(&f.exact, "exact", false, "in CSV, every text to the letter, formulas too")
	return cmd
}

// form is how data is printed unless a verb's own flag says otherwise.
func (a *app) form() form {
	if a.json {
		return formJSON
	}
	return formTable
}

// queryForm is the form that the flags ask for.
func (a *app) queryForm(f queryFlags) (form, error) {
	if f.format == "" {
		return a.form(), nil
	}
	names := []string{"table", "json", "csv", "parquet"}
	is := form(slices.Index(names, f.format))
	out, _ := a.out.(*outlet)
	switch {
	case is < 0:
		return 0, usage("", "--format %q: want table, csv, json or parquet", f.format)
	case a.json && is != formJSON:
		return 0, usage("", "--format %s and --json contradict each other", f.format)
	case is == formParquet && f.file == "" && out != nil && isTerminal(out.Writer):
		return 0, usage("name a file with -o", "a Parquet file is not for a terminal")
	}
	return is, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask runs one statement and prints its result.
func ask(ctx context.Context, q load.Querier, sql string, p *printer) error {
	if err := q.Query(ctx, sql, p.batch); err != nil {
		return err
	}
	return p.close()
}
