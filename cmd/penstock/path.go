package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
)

func pathCmd(a *app) *cobra.Command {
	var to open.Selection
	cmd := &cobra.Command{
		Use:   "path [TABLE]",
		Short: "print where a table or a destination is: a folder, a file or a qualified name",
		Long: `Prints where a table is, for programs that read it without penstock: for DuckDB
and SQLite the file, for Postgres and MySQL the qualified name, for a lake in a folder the
folder with the table's current files. For a lake in a bucket it prints the current files, and
for Iceberg the location of the table's metadata.

Without a table, it prints where each destination is, and its published copy. It opens none of
them, so it works during a sync.

The files of a lake never change. Files that newer files have replaced are deleted
by a later run, by default after at least 24 hours.`,
		Example: `  duckdb -c "FROM '$(penstock path crm_leads)/*.parquet'"`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				out, err := a.open.Locations(to)
				if err != nil {
					return err
				}
				return out.Print(a.out, a.form())
			}
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error { return printPath(cmd.Context(), a, d, args[0]) })
		},
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

func printPath(ctx context.Context, a *app, d *open.Reader, table string) error {
	if !load.IsInternal(table) {
		if _, err := d.LoadedTable(ctx, table); err != nil {
			return err
		}
	}
	at, err := d.Kind.Locate(ctx, d.Config, d.Destination, table)
	if err != nil {
		return err
	}
	if a.json {
		return render.NewEncoder(a.out).Encode(struct {
			Table string `json:"table"`
			Path  string `json:"path"`
		}{table, at})
	}
	_, err = fmt.Fprintln(a.out, at)
	return err
}
