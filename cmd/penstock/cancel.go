package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) runsCancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel RUN",
		Short: "end what is left of a run that workers are about",
		Long: `Ends the units of a run that have not ended, with state in a database: those that
wait at once, those under way within ten seconds. What was committed stays, and the
next run goes on from there.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.cancelRun(cmd.Context(), args[0]) },
	}
}

// cancelRun ends what is left of a run.
func (a *app) cancelRun(ctx context.Context, run string) error {
	j, err := a.openUnits(ctx, run, "stop the process that makes it with ^C; what was committed stays")
	if err != nil {
		return err
	}
	defer j.Close()
	n, err := j.CancelUnits(ctx, run)
	if err != nil {
		return err
	}
	return a.say("run %s: %s cancelled\n", run, plural(n, "unit"))
}
