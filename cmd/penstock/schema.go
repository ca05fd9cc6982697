package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func schemaCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "show or accept changes of a table, and print the schema of the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, verb := range []struct {
		name, short, long string
		run               func(context.Context, *app, *open.Reader, string) error
	}{
		{"show", "show a table's columns, and all changes made to the table", `Shows a table's columns with their types, source fields and meaning, and all
changes made to the table: when, by which run, and why.`, func(ctx context.Context, a *app, d *open.Reader, table string) error {
			return showSchema(ctx, a, d, table)
		}},
		{"accept", "accept a table that was changed by hand", `Accepts the present columns of a table that a person has changed, so that its stream
continues. If the person has removed a column, the next value for the column creates it
again. If the person has changed the type of a column, the column keeps the new type.`, func(ctx context.Context, a *app, d *open.Reader, table string) error {
			return acceptSchema(ctx, a, d, table)
		}},
	} {
		var to open.Selection
		sub := &cobra.Command{
			Use: verb.name + " TABLE", Short: verb.short, Long: verb.long, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.open.Read(cmd.Context(), to, func(d *open.Reader) error { return verb.run(cmd.Context(), a, d, args[0]) })
			},
		}
		addDestinationFlag(sub, &to)
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(schemaConfigCmd(a))
	return cmd
}

func schemaConfigCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "print the JSON Schema of pipelines.yaml, for editors",
		Long: `Prints the JSON Schema of pipelines.yaml, with which editors complete keys and mark
mistakes while you type. Editors find the schema by this first line of pipelines.yaml:

  # yaml-language-server: $schema=` + config.SchemaURL,
		Example: `  penstock schema config > pipelines.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Describe()
			if err != nil {
				return err
			}
			_, err = a.out.Write(text)
			return err
		},
	}
}

// showSchema prints a table's columns and the log of its changes. With --json it prints only the log.
func showSchema(ctx context.Context, a *app, d *open.Reader, table string) error {
	t, err := d.LoadedTable(ctx, table)
	if err != nil {
		return err
	}
	log, err := history.Project(ctx, d, load.Changes, []string{"at", "run", "column", "source", "action", "from_type", "to_type", "reason"},
		func(r history.Row) bool { return r.Text("table") == table })
	if err != nil {
		return err
	}
	log.Sort("at")
	if a.json {
		return log.Print(a.out, render.FormJSON)
	}
	fmt.Fprintf(a.out, "%s, %s\n\n", table, render.ModeOf(t))
	g := render.NewTable("column", "type", "field", "meaning")
	for _, f := range t.Columns.Fields() {
		g.Add(f.Name, schemas.TypeName(schemas.TypeOf(f)), schemas.Source(f), render.Meaning(f))
	}
	g.Render(a.out)
	fmt.Fprintln(a.out)
	return log.Print(a.out, render.FormTable)
}

// acceptSchema accepts the present columns of a table, and prints how these columns differ from the recorded columns.
func acceptSchema(ctx context.Context, a *app, d *open.Reader, table string) error {
	// Cause: several sources share the tables of the destination
	if err := d.Together("accept applies to all sources of the table: omit --source"); err != nil {
		return err
	}
	if _, err := d.LoadedTable(ctx, table); err != nil {
		return err
	}
	changes, err := d.Accept(ctx, table)
	if err != nil {
		// Cause: penstock cannot accept the table as it is
		return failure.Hinted(err, "restore the table to what `penstock schema show "+table+"` prints")
	}
	out := render.Answer{Columns: render.Fields(load.Changes, "table", "column", "action", "from_type", "to_type")}
	for _, c := range changes {
		out.Rows = append(out.Rows, []any{c.Table, c.Column, c.Action, c.From, c.To})
	}
	if len(changes) == 0 && !a.json {
		_, err := fmt.Fprintf(a.out, "%s: no changes by hand\n", table)
		return err
	}
	return out.Print(a.out, a.form())
}
