package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/extract/wire"
)

func (a *app) workerCmd() *cobra.Command {
	slots := defaultSlots
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "does what serve has planned, together with other workers",
		Long: `Does the runs that serve plans, source by source, together with any number of other
workers: all of them have the same configuration, and the same state: postgres://….
A worker that is lost gives its work to the others within half a minute.

SIGINT and SIGTERM end it within ten seconds; what it was about others begin at
once, from the last commit.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.worker(cmd.Context(), slots) },
	}
	cmd.Flags().IntVar(&slots, "slots", slots, "sources at work at once")
	return cmd
}

// worker does units until it is stopped.
func (a *app) worker(ctx context.Context, slots int) error {
	if slots < 1 {
		return usage("", "--slots %d: a worker has one at least", slots)
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	if c.State.URL == "" {
		return usage("`state: postgres://…` in the configuration names a database that serve and its workers share; without one serve makes all runs itself",
			"a worker takes its work from a state database, and the state is the folder %s", c.State.Dir)
	}
	a.redactor = wire.NewRedactor(c.Secrets...)
	a.log = slog.New(signal.Redacted(a.log.Handler(), a.redactor.Redact))
	a.holds, a.lends = newHolds(), newLends()
	h, err := a.openUnitWorker(ctx, c, slots)
	if err != nil {
		return err
	}
	a.log.Info("working", "slots", slots)
	if err := h.work(ctx); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return stoppedBy(ctx)
}
