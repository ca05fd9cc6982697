// Package queue wakes up workers when units are ready. It uses River, a queue of jobs in the state
// database. A job of River only wakes up a worker. The worker then selects the next source and its units
// in the state, in the transaction that claims them. So a wakeup that arrives twice or too late does
// nothing, and no source waits because its wakeup is behind thousands of others.
package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/penstock-data/penstock/state"
)

// The queues. Runs that webhooks cause have their own slots, so that they never wait
// for scheduled runs.
const (
	Runs   = "runs"
	Deltas = "deltas"
)

// Widths returns how many sources a worker with the given slots works on at once, by queue.
func Widths(slots int) map[string]int { return map[string]int{Runs: slots, Deltas: max(1, slots/4)} }

// refresh is the cause of runs that go to the queue Deltas.
const refresh = "refresh"

// Wakeup is the job for a unit and for the units that may begin together with it. There is
// at most one per attempt at a unit.
type Wakeup struct {
	Unit     int64  `json:"unit" river:"unique"`
	Attempt  int    `json:"attempt" river:"unique"`
	Run      string `json:"run"`
	Pipeline string `json:"pipeline"`
	Source   string `json:"source"`
	Part     string `json:"part"`

	Queue string `json:"-"` // the queue that delivered the wakeup
}

// Kind implements [river.JobArgs].
func (Wakeup) Kind() string { return "unit" }

// mostPart is in bytes. The part of a Wakeup is only for people who look at the queue.
const mostPart = 200

// Enqueue inserts wakeups for units, in the transaction that makes the units claimable. It inserts one
// wakeup for all units of a source that may begin at the same time. It is meant for the field Enqueue of
// postgres.Options.
func Enqueue(ctx context.Context, tx pgx.Tx, schema string, units []state.Unit) error {
	type together struct {
		run, pipeline, source string
		at                    int64
	}
	var now time.Time // by the database's clock, not this process's
	if err := tx.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return fmt.Errorf("enqueue units: %w", err)
	}
	seen := map[together]bool{}
	queues := map[string]string{}
	var params []river.InsertManyParams
	for _, u := range units {
		k := together{u.Run, u.Pipeline, u.Source, u.NotBefore.UnixMicro()}
		if seen[k] {
			continue
		}
		seen[k] = true
		if queues[u.Run] == "" {
			name, err := queueOf(ctx, tx, u)
			if err != nil {
				return err
			}
			queues[u.Run] = name
		}
		params = append(params, river.InsertManyParams{
			Args:       Wakeup{Unit: u.ID, Attempt: u.Attempt, Run: u.Run, Pipeline: u.Pipeline, Source: u.Source, Part: u.Part[:min(mostPart, len(u.Part))]},
			InsertOpts: &river.InsertOpts{Queue: queues[u.Run], ScheduledAt: later(now, u.NotBefore), UniqueOpts: river.UniqueOpts{ByArgs: true}},
		})
	}
	c, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return fmt.Errorf("enqueue units: %w", err)
	}
	if _, err := c.InsertManyTx(ctx, tx, params); err != nil {
		return fmt.Errorf("enqueue units: %w", err)
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// quiet discards River's log, because the units report their own results.
var quiet = slog.New(slog.DiscardHandler)

func queueOf(ctx context.Context, tx pgx.Tx, u state.Unit) (string, error) {
	var urgent bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM runs WHERE pipeline = $1 AND run = $2 AND cause = $3)", u.Pipeline, u.Run, refresh).Scan(&urgent)
	if urgent {
		return Deltas, err
	}
	return Runs, err
}

// Migrate creates River's tables in a schema, or migrates them to this version. It
// returns the number of migrations that it applied.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) (int, error) {
	m, err := migrator(pool, schema)
	if err != nil {
		return 0, err
	}
	r, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return 0, fmt.Errorf("migrate queue: %w", err)
	}
	return len(r.Versions), nil
}

// Inspect returns which of River's tables or migrations a schema lacks; "" for none.
func Inspect(ctx context.Context, pool *pgxpool.Pool, schema string) (string, error) {
	m, err := migrator(pool, schema)
	if err != nil {
		return "", err
	}
	r, err := m.Validate(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("inspect queue: %w", err)
	}
	return strings.Join(r.Messages, "; "), nil
}

func migrator(pool *pgxpool.Pool, schema string) (*rivermigrate.Migrator[pgx.Tx], error) {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return nil, fmt.Errorf("inspect queue: %w", err)
	}
	return m, nil
}
