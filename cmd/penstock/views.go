package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func viewsCmd(a *app) *cobra.Command {
	var to open.Selection
	var apply bool
	cmd := &cobra.Command{
		Use:   "views",
		Short: "print or create views for common questions, such as receivables by age",
		Long: `Prints views for common questions: receivables and payables by age, deals and leads
by stage, open tickets, head count. It prints the SQL of the views that the loaded
tables support, and what the other views lack. With --apply it creates them: existing views of
penstock are replaced, anything else with the same name is not changed.`,
		Example: `  penstock views --apply
  penstock query "FROM receivables_ageing ORDER BY open_amount DESC"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error { return printViews(cmd.Context(), a, d, apply) })
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().BoolVar(&apply, "apply", false, "create the views in the destination")
	return cmd
}

// viewLine is one line of `views --json`.
type viewLine struct {
	Name  string   `json:"name"`
	Title string   `json:"title"`
	State string   `json:"state"` // possible, made, lacking (a table is missing) or taken (another table or view already has the name)
	Lacks []string `json:"lacks,omitempty"`
	SQL   string   `json:"sql,omitempty"`
}

func printViews(ctx context.Context, a *app, d *open.Reader, apply bool) error {
	kit, err := schemas.LoadViews()
	if err != nil {
		return fmt.Errorf("load views: %w", err)
	}
	// Cause: several sources share the tables of the destination
	if err := d.Together("views cover all sources of the tables: omit --source"); err != nil {
		return err
	}
	if why := d.Kind.NoViews; why != "" {
		return failure.Usage("choose a destination of another kind with --to", "penstock's views cannot run in destination %s (%s): %s", d.Name, d.Config.Scheme, why)
	}
	tables, err := d.LoadedTables(ctx)
	if err != nil {
		return err
	}
	viewer, able := d.Destination.(load.Viewer)
	if apply && !able {
		return failure.Usage("`penstock query` offers these views without creating them", "destination %s (%s) does not support views", d.Name, d.Config.Scheme)
	}
	taken, schema := 0, ""
	if able {
		schema = viewer.Schema()
	}
	for _, v := range kit {
		line := viewLine{Name: v.Name, Title: v.Title, State: "possible", Lacks: v.Lacks(tables)}
		if len(line.Lacks) > 0 {
			line.State = "lacking"
		} else if line.SQL = v.Query(schema, tables); apply {
			if line.State, err = makeView(ctx, viewer, line); err != nil {
				return err
			}
		}
		if line.State == "taken" {
			taken++
		}
		if err := printView(a, line); err != nil {
			return err
		}
	}
	if taken > 0 {
		return failure.Hinted(&failure.Error{Err: fmt.Errorf("%s not created", render.Plural(taken, "view")), Code: failure.ExitFailed},
			"the name is already used; rename or drop the existing table or view, and run again")
	}
	return nil
}

// makeView creates a view, and returns the state of the view for the output.
func makeView(ctx context.Context, v load.Viewer, line viewLine) (string, error) {
	err := v.View(ctx, line.Name, line.SQL)
	switch {
	case errors.Is(err, load.ErrTaken):
		return "taken", nil
	case err != nil:
		return "", fmt.Errorf("create view %s: %w", line.Name, err)
	}
	return "made", nil
}

func printView(a *app, v viewLine) error {
	if a.json {
		return render.NewEncoder(a.out).Encode(v)
	}
	fmt.Fprintf(a.out, "-- %s: %s (%s)\n", v.Name, v.Title, v.State)
	switch v.State {
	case "lacking":
		fmt.Fprintf(a.out, "-- it lacks %s\n", strings.Join(v.Lacks, ", "))
	case "possible":
		fmt.Fprintf(a.out, "CREATE OR REPLACE VIEW %s AS\n%s;\n", v.Name, v.SQL)
	}
	_, err := fmt.Fprintln(a.out)
	return err
}
