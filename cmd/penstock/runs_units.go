package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func runsUnitsCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "units RUN",
		Short: "list the units of a run: the source, streams, state and worker of each",
		Long: `Lists the units of a run. A unit is the work for one source and a group of streams
that are read together. The list shows which units are done, which worker has each
unit that is under way, and when waiting units are tried again. The run may still be
under way.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return showUnits(cmd.Context(), a, args[0]) },
	}
}

// showUnits prints the units of a run.
func showUnits(ctx context.Context, a *app, run string) error {
	c, err := configOfRun(a, run)
	if err != nil {
		return err
	}
	l, err := a.open.State(c).ReadUnits(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return noUnits(run)
	}
	if err != nil {
		return open.StateTrouble(err)
	}
	defer l.Close()
	units, err := fleet.UnitsOf(ctx, l, state.UnitFilter{Run: run})
	if err != nil {
		return err
	}
	if len(units) == 0 {
		return noUnits(run)
	}
	out := render.Answer{Columns: []arrow.Field{
		schemas.Field("source", schemas.Text, ""), schemas.Field("streams", schemas.Text, ""), schemas.Field("state", schemas.Text, ""),
		schemas.Field("attempt", schemas.Int64, ""), schemas.Field("worker", schemas.Text, ""), schemas.Field("not_before", schemas.Timestamp, ""),
		schemas.Field("started_at", schemas.Timestamp, ""), schemas.Field("ended_at", schemas.Timestamp, ""), schemas.Field("why", schemas.Text, ""),
	}}
	for _, u := range units {
		out.Rows = append(out.Rows, []any{
			u.Source, u.Part, string(u.State), int64(u.Attempt), u.Worker, unlessZero(u.NotBefore), unlessZero(u.Started), unlessZero(u.Ended), fleet.ReportOf(u).Reason,
		})
	}
	return out.Print(a.out, a.form())
}

// noUnits is the error for a run without stored units.
func noUnits(run string) error {
	return &failure.Error{Err: fmt.Errorf("no units of run %s", run), Hint: fmt.Sprintf("penstock keeps the units of the last %d runs of a pipeline, or of fewer runs if these have very many units", state.KeptUnitRuns), Code: failure.ExitFailed}
}

// configOfRun returns the configuration, which says where the state of the run is. It returns an error if the given
// text cannot be a run id.
func configOfRun(a *app, run string) (*config.Config, error) {
	if err := checkRunID(run); err != nil {
		return nil, err
	}
	return a.open.LoadDestinations()
}

// unlessZero returns a time as the value of a cell. For the zero time, it returns nil.
func unlessZero(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}
