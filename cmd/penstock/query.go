package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
)

func (a *app) queryCmd() *cobra.Command {
	var to string
	var csv, exact bool
	cmd := &cobra.Command{
		Use:   `query "SQL"`,
		Short: "SQL over the destination, as a table, CSV or JSON",
		Long: `SQL over the destination: one statement that only reads, as a table, as CSV or
as JSON, one object a line. In CSV a text that a spreadsheet would take for a
formula gets a ' before it, unless --exact.`,
		Example: `  penstock query "SELECT count(*) FROM crm_leads WHERE _penstock_deleted_at IS NULL"
  penstock query --csv "SELECT * FROM sales_invoices" > invoices.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			form := a.form()
			if csv {
				form = formCSV
			}
			if csv && a.json {
				return usage("", "--csv and --json contradict each other")
			}
			return a.query(cmd.Context(), to, args[0], printer{form: form, exact: exact})
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().BoolVar(&csv, "csv", false, "comma-separated, with a header")
	cmd.Flags().BoolVar(&exact, "exact", false, "with --csv: every text to the letter, formulas too")
	return cmd
}

// form is how data is printed unless a verb's own flag says otherwise.
func (a *app) form() form {
	if a.json {
		return formJSON
	}
	return formTable
}

func addDestinationFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "to", "", "`name` of the destination, where the configuration has several")
}

// query runs sql over a destination and prints its result.
func (a *app) query(ctx context.Context, to, sql string, p printer) error {
	return a.withQuerier(ctx, to, func(q load.Querier) error { return a.ask(ctx, q, sql, p) })
}

// ask runs one statement and prints its result.
func (a *app) ask(ctx context.Context, q load.Querier, sql string, p printer) error {
	p.w = a.out
	if err := q.Query(ctx, sql, p.batch); err != nil {
		return err
	}
	return p.close()
}

// withQuerier opens a destination that understands SQL.
func (a *app) withQuerier(ctx context.Context, to string, use func(load.Querier) error) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	d, err := pickDestination(c, to)
	if err != nil {
		return err
	}
	if d.Scheme == "duckdb" {
		// A query makes no database: an empty file would only hide a wrong path.
		path, _ := duckdbPath(d)
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return hinted(fmt.Errorf("open destination %s: %s does not exist", d.Name, path), "`penstock sync` makes and fills it")
		}
	}
	dest, err := a.openDestination(ctx, c, d)
	if err != nil {
		return err
	}
	defer dest.Close()
	q, ok := dest.(load.Querier)
	if !ok {
		return usage("", "destination %s (%s) cannot be asked in SQL", d.Name, d.Scheme)
	}
	return use(q)
}

// pickDestination is the one named, or the only one there is.
func pickDestination(c *config.Config, name string) (config.Destination, error) {
	if name == "" && len(c.Destinations) == 1 {
		return c.Destinations[0], nil
	}
	var names []string
	for _, d := range c.Destinations {
		names = append(names, d.Name)
	}
	hint := "the destinations are " + strings.Join(names, ", ")
	if name == "" {
		return config.Destination{}, usage(hint+"; choose with --to", "which destination? %s has %d", c.File, len(names))
	}
	d, ok := c.Destination(name)
	if !ok {
		return d, usage(hint, "no destination %q in %s", name, c.File)
	}
	return d, nil
}
