package main

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func (a *app) runsUnitsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "units RUN",
		Short: "what workers make of a run: each source and family of streams, and who has it",
		Long: `With state in a database, the units that a run was planned into: which are done, who
is about the others, and when those that wait are tried again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.showUnits(cmd.Context(), args[0]) },
	}
}

// showUnits prints the units of a run.
func (a *app) showUnits(ctx context.Context, run string) error {
	j, err := a.openUnits(ctx, run, "`penstock runs RUN` shows it")
	if err != nil {
		return err
	}
	defer j.Close()
	units, err := allUnits(ctx, j, run)
	if err != nil {
		return err
	}
	if len(units) == 0 {
		return &failure{err: fmt.Errorf("no units of run %s", run), hint: "those of the last 20 runs of a pipeline are kept", code: exitFailed}
	}
	out := answer{columns: []arrow.Field{
		schemas.Field("source", schemas.Text, ""), schemas.Field("streams", schemas.Text, ""), schemas.Field("state", schemas.Text, ""),
		schemas.Field("attempt", schemas.Int64, ""), schemas.Field("worker", schemas.Text, ""), schemas.Field("not_before", schemas.Timestamp, ""),
		schemas.Field("started_at", schemas.Timestamp, ""), schemas.Field("ended_at", schemas.Timestamp, ""), schemas.Field("why", schemas.Text, ""),
	}}
	for _, u := range units {
		out.rows = append(out.rows, []any{
			u.Source, u.Part, string(u.State), int64(u.Attempt), u.Worker, unlessZero(u.NotBefore), unlessZero(u.Started), unlessZero(u.Ended), fleet.ReportOf(u).Why,
		})
	}
	return a.print(printer{form: a.form()}, out)
}

// openUnits opens the journal that has the units of a run. Those of a state folder
// have none: instead says what there is to do.
func (a *app) openUnits(ctx context.Context, run, instead string) (state.Journal, error) {
	if err := checkRunID(run); err != nil {
		return nil, err
	}
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	if c.State.URL == "" {
		return nil, usage(instead, "runs of a state folder are made by one process, and have no units")
	}
	return a.openJournal(ctx, c)
}

// unlessZero is t as a cell; the zero time has none.
func unlessZero(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}
