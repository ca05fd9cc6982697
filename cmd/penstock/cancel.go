package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/state"
)

func (a *app) runsCancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel RUN",
		Short: "cancel what is left of a run, on any host",
		Long: `Cancels the units of a run that have not ended: waiting units at once, running
units within ten seconds. Committed data stays, and the next run continues from there.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.cancelRun(cmd.Context(), args[0]) },
	}
}

// cancelRun cancels the units of a run that have not ended.
func (a *app) cancelRun(ctx context.Context, run string) error {
	c, err := a.ofRun(run)
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
	return a.say("run %s: %s cancelled\n", run, render.Plural(n, "unit"))
}
