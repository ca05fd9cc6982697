package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// clock is the database's, as River asks for it. River notes by the database's when a
// call has begun, and by that of the process when one is to come again: between two
// that are hours apart, a call would wait for hours.
type clock func() time.Time

// Now is the time in the database.
func (c clock) Now() time.Time { return c() }

// NowOrNil leaves it to the database to say where it is asked.
func (c clock) NowOrNil() *time.Time { return nil }

// rescue has calls come again that were answered by nobody for so long that their
// worker is gone, by the database's clock. River's own rescuer goes by that of
// whichever process leads.
func rescue(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	_, err := pool.Exec(ctx, "UPDATE "+pgx.Identifier{schema, "river_job"}.Sanitize()+` SET state = 'available', scheduled_at = now(), max_attempts = greatest(max_attempts, attempt + 1)
		WHERE state = 'running' AND kind = $1 AND attempted_at < now() - $2 * interval '1 microsecond'`, Wakeup{}.Kind(), callRescue.Microseconds())
	if err != nil {
		return fmt.Errorf("have calls come again: %w", err)
	}
	return nil
}
