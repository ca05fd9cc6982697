package open

import (
	"context"

	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/state/postgres"
)

// InspectQueue returns [postgres.ErrUnmigrated] if the tables of the workers' queue have another
// version.
func InspectQueue(ctx context.Context, db *postgres.Store) error {
	pool, schema, err := db.Queue(ctx)
	if err != nil {
		return err
	}
	lacks, err := queue.Inspect(ctx, pool, schema)
	if err == nil && lacks != "" {
		err = postgres.ErrUnmigrated
	}
	return err
}
