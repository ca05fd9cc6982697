package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
)

func migrateCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "migrate the state database to this version",
		Long: `Creates the schema of the state database, ` + "`state: postgres://…`" + `, or upgrades it to
this version. The role that migrates needs the right to create tables; the role of serve
and sync only needs to read and write them. A second migration changes nothing, and
concurrent migrations are safe.

A state folder needs no migration: it is upgraded when it is opened.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return migrateState(cmd.Context(), a) },
	}
}

// migrated is what `migrate --json` prints.
type migrated struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

func migrateState(ctx context.Context, a *app) error {
	c, err := a.open.LoadDestinations()
	if err != nil {
		return err
	}
	db, ok := a.open.State(c).(*postgres.Store)
	if !ok {
		return a.say("state folder %s: nothing to migrate\n", c.State.Dir)
	}
	from, to, err := db.Migrate(ctx)
	steps := 0
	if err == nil {
		steps, err = migrateQueue(ctx, db)
	}
	switch {
	case errors.Is(err, state.ErrNewer):
		return open.StateTrouble(err)
	case err != nil:
		// Cause: the tables of the state cannot be created
		return failure.Hinted(err, "the role needs CREATE on the database, or on the schema once it exists")
	case a.json:
		return render.NewEncoder(a.out).Encode(migrated{from, to})
	case from == to && steps == 0:
		return a.say("%s: version %d, nothing to do\n", open.StateHost(c), to)
	}
	return a.say("%s: from version %d to %d\n", open.StateHost(c), from, to)
}

// migrateQueue upgrades the tables of the workers' queue to this version, and returns the number of steps.
func migrateQueue(ctx context.Context, db *postgres.Store) (steps int, err error) {
	pool, schema, err := db.Queue(ctx)
	if err != nil {
		return 0, err
	}
	return queue.Migrate(ctx, pool, schema)
}
