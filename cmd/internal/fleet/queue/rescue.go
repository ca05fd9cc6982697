package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// clock gives River the database's clock. River stores the start of a job by the database's clock, but its
// next attempt by the process's clock. If the two were hours apart, a job would wait for hours.
type clock func() time.Time

// Now returns the time in the database.
func (c clock) Now() time.Time { return c() }

// NowOrNil returns nil, so that River's SQL uses the database's now().
func (c clock) NowOrNil() *time.Time { return nil }

// rescue makes jobs available again whose worker is probably gone. If it is not, the second wakeup does
// nothing. River's own rescuer would use the clock of a process.
func rescue(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	_, err := pool.Exec(ctx, "UPDATE "+pgx.Identifier{schema, "river_job"}.Sanitize()+` SET state = 'available', scheduled_at = now(), max_attempts = greatest(max_attempts, attempt + 1)
		WHERE state = 'running' AND kind = $1 AND attempted_at < now() - $2 * interval '1 microsecond'`, Wakeup{}.Kind(), callRescue.Microseconds())
	if err != nil {
		return fmt.Errorf("rescue jobs of lost workers: %w", err)
	}
	return nil
}
