package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// clock is the database's, as nearly as this process can tell: behind it by no more
// than the quickest answer took, and never ahead, so that nothing is begun before its
// time. Of this machine's clock it counts only that it runs on: the time of day may be
// hours off, or set meanwhile. Its methods may be called from any goroutine.
type clock struct {
	mu   sync.Mutex
	base time.Time // of this process
	at   time.Time // the database's then; zero: it was not asked yet
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now()
	}
	return c.at.Add(time.Since(c.base))
}

// heard takes what the database's clock showed, between the question and this moment.
func (c *clock) heard(there, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lowest := there.Add(-time.Since(c.base)) // if it was read just now
	highest := there.Add(-asked.Sub(c.base)) // if it was as soon as it was asked for
	if c.at.Before(lowest) || c.at.After(highest) {
		c.at = lowest
	}
}

// Now implements [state.Store]: it is the database's clock, which the first use of the
// database and each sign of life look at.
func (s *Store) Now() time.Time { return s.clock.now().UTC() }

// asker is a pool or a transaction.
type asker interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ask puts a question whose one answer is a time of the database's clock.
func (s *Store) ask(ctx context.Context, of asker, sql string, args ...any) error {
	asked := time.Now()
	var there time.Time
	if err := of.QueryRow(ctx, sql, args...).Scan(&there); err != nil {
		return err
	}
	s.clock.heard(there, asked)
	return nil
}
