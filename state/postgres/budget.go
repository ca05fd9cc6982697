package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// unusedBudget is after how many days without use the budget of a credential is deleted. A budget has the requests of
// the last window, and closed gates. It also has a learned limit, which is used for a day. All of them last a day at
// most, so a budget that is deleted no longer affects any request. // Invariant 4
const unusedBudget = 30

// deleteUnused deletes budgets that no process has used for a long time, because their credentials were replaced or
// removed. It is called when a credential is new, so the table does not grow forever. It skips budgets that a process is
// changing.
func deleteUnused(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, unusedBudgets, unusedBudget, mostUnused)
	return err
}

const unusedBudgets = `DELETE FROM budgets WHERE name = ANY(ARRAY(SELECT name FROM budgets
	WHERE used < current_date - $1::integer ORDER BY used LIMIT $2 FOR UPDATE SKIP LOCKED))`

// mostUnused is how many unused rows of a table are deleted at once.
const mostUnused = 100

// ChangeBudget changes the stored budget of a credential under an exclusive lock. It calls the function update with the
// stored budget, or with nil if there is none, and stores the result. If the result is nil, the stored budget does not
// change. The function update also gets the time of the database's clock, which is read after the lock was taken. The
// parameter `name` must not reveal anything about the credential. ChangeBudget does not retry, because only the caller
// knows how long it can wait.
func (s *Store) ChangeBudget(ctx context.Context, name string, update func(at time.Time, kept []byte) ([]byte, error)) error {
	pool, err := s.ready(ctx)
	if err != nil {
		return shorten(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var at time.Time
		var kept []byte
		const read = "SELECT kept, clock_timestamp() FROM (SELECT kept FROM budgets WHERE name = $1 FOR UPDATE) held"
		err := tx.QueryRow(ctx, read, name).Scan(&kept, &at)
		if errors.Is(err, pgx.ErrNoRows) {
			if _, err := tx.Exec(ctx, "INSERT INTO budgets VALUES ($1, '') ON CONFLICT DO NOTHING", name); err != nil {
				return err
			}
			if err := deleteUnused(ctx, tx); err != nil {
				return err
			}
			err = tx.QueryRow(ctx, read, name).Scan(&kept, &at)
		}
		if err != nil {
			return err
		}
		if len(kept) == 0 {
			kept = nil
		}
		next, err := update(at, kept)
		if err != nil || next == nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE budgets SET kept = $1, used = current_date WHERE name = $2", next, name)
		return err
	})
	if err != nil {
		return fmt.Errorf("change budget: %w", shorten(err))
	}
	return nil
}
