package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/extract/wire"
)

func (a *app) workerCmd() *cobra.Command {
	slots := defaultSlots
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "execute the runs that serve plans, together with other workers",
		Long: `Executes the runs that serve plans, source by source, together with any number of
other workers. All of them need the same configuration, with state: postgres://….
If a worker is lost, the others take over its work within a minute.

It serves /healthz, /readyz and /metrics at the address under worker: {listen: …}.
SIGHUP reads the configuration again. Units under way finish with the old one. If the
state database does not answer when the worker starts, the worker waits for a minute, and
then exits with 75.

SIGINT and SIGTERM stop it within ten seconds. Other workers then continue its work
at once, from the last commit.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.worker(cmd.Context(), slots) },
	}
	cmd.Flags().IntVar(&slots, "slots", slots, "`number` of sources to read at once")
	return cmd
}

// worker executes units until it is stopped.
func (a *app) worker(ctx context.Context, slots int) error {
	if slots < 1 {
		return failure.Usage("", "--slots %d: want at least 1", slots)
	}
	a.open.Connections = open.ConnectionsFor(slots)
	c, err := a.open.Load()
	if err != nil {
		return err
	}
	if c.State.URL == "" {
		return failure.Usage("set `state: postgres://…`, a database that serve and its workers share; without it, serve makes all runs itself",
			"a worker needs a state database, but the state is the folder %s", c.State.Dir)
	}
	a.redactor = wire.NewRedactor(c.Secrets...)
	a.setLog(signal.Redacted(a.log.Handler(), a.redactor.Redact))
	a.open.Pool = open.NewDestinationPool()
	hangup, unhang := hangups()
	defer unhang()
	v := versionNow()
	err = daemon.RunWorker(ctx, c, daemon.WorkerConfig{
		Executor: a.executor(c), Slots: slots, Build: signal.Build{Version: v.Version, Commit: v.Commit, Go: v.Go}, Supervisor: supervisor(), Hangup: hangup,
	})
	if err != nil {
		return err
	}
	return stoppedBy(ctx)
}
