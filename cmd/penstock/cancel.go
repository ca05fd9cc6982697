package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/state"
)

func runsCancelCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel RUN",
		Short: "cancel the unfinished units of a run, on any host",
		Long: `Cancels the units of a run that have not ended: waiting units at once, running
units within ten seconds. Committed data stays, and the next run continues from there.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return cancelRun(cmd.Context(), a, args[0]) },
	}
}

// cancelRun cancels the units of a run that have not ended.
func cancelRun(ctx context.Context, a *app, run string) error {
	c, err := configOfRun(a, run)
	if err != nil {
		return err
	}
	l, err := a.open.State(c).OpenUnits(ctx)
	if err != nil {
		return open.StateTrouble(err)
	}
	defer l.Close()
	n, err := l.CancelUnits(ctx, state.UnitFilter{Run: run})
	if err != nil {
		return err
	}
	if n == 0 {
		units, err := fleet.UnitsOf(ctx, l, state.UnitFilter{Run: run})
		if err == nil && len(units) == 0 {
			err = noUnits(run)
		}
		if err != nil {
			return err
		}
	}
	return a.say("run %s: %s cancelled\n", run, render.Plural(n, "unit"))
}
