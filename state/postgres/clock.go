package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// clock estimates the time of the database's clock. The estimate is never ahead, so nothing starts too early. It is
// behind by at most the duration of the quickest answer. This machine's clock only measures elapsed time, so its time
// of day may be wrong. A clock is safe for concurrent use.
type clock struct {
	mu   sync.Mutex
	base time.Time // when this process created the clock, by its own clock
	at   time.Time // the database's time at base; zero: unknown
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now()
	}
	return c.at.Add(time.Since(c.base))
}

func (c *clock) record(there, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lowest := there.Add(-time.Since(c.base)) // the database's time at base, if the database read its clock just now
	highest := there.Add(-asked.Sub(c.base)) // the same, if it read its clock when the request was sent
	if c.at.Before(lowest) || c.at.After(highest) {
		c.at = lowest
	}
}

// Now implements [state.Store]. It returns the estimated time of the database's clock. The store reads that clock at
// its first use of the database, and whenever a process renews its entry in the table processes.
func (s *Store) Now() time.Time { return s.clock.now().UTC() }

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (s *Store) queryClock(ctx context.Context, of querier, sql string, args ...any) error {
	asked := time.Now()
	var there time.Time
	if err := of.QueryRow(ctx, sql, args...).Scan(&there); err != nil {
		return err
	}
	s.clock.record(there, asked)
	return nil
}
