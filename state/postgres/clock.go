package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// clock estimates the time of the database's clock. The estimate is never ahead of the database, so nothing starts too
// early. It is behind by at most the duration of the quickest answer. The estimate uses this machine's clock only to
// measure elapsed time. So the machine's time of day may be wrong. A clock is safe for concurrent use.
type clock struct {
	mu         sync.Mutex
	base       time.Time // when this process created the clock, by this machine's clock
	remoteBase time.Time // the time of the database's clock at the same moment as base; zero: unknown
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remoteBase.IsZero() {
		return time.Now()
	}
	return c.remoteBase.Add(time.Since(c.base))
}

func (c *clock) record(remote, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lowest := remote.Add(-time.Since(c.base)) // the value of remoteBase if the database read its clock just now
	highest := remote.Add(-sent.Sub(c.base))  // the value of remoteBase if the database read its clock when the request was sent
	if c.remoteBase.Before(lowest) || c.remoteBase.After(highest) {
		c.remoteBase = lowest
	}
}

// Now implements [state.Store]. It returns the estimated time of the database's clock. The store reads that clock at
// its first use of the database, and whenever a process renews its entry in the table processes.
func (s *Store) Now() time.Time { return s.clock.now().UTC() }

type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// query runs a statement that returns the time of the database's clock, and records this time.
func (c *clock) query(ctx context.Context, q rowQuerier, sql string, args ...any) error {
	sent := time.Now()
	var remote time.Time
	if err := q.QueryRow(ctx, sql, args...).Scan(&remote); err != nil {
		return err
	}
	c.record(remote, sent)
	return nil
}
