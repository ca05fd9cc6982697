// Package queue calls workers for the units of the state database, by River, a
// queue of jobs in the same database. A job is a call to look: which source of which
// run is next, and which of its units are to be done, the ledger says, in the
// transaction in which they are claimed, so that a call that comes twice or too late
// does nothing, and one that comes after thousands of others waits for none of them.
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

// The queues. What webhooks ask for has slots of its own, so that it never waits
// for what a schedule has planned.
const (
	Runs   = "runs"
	Deltas = "deltas"
)

// Widths are how many sources a worker of so many slots is at in each queue.
func Widths(slots int) map[string]int { return map[string]int{Runs: slots, Deltas: max(1, slots/4)} }

// refresh is the cause of a run, as its record has it, that goes to Deltas.
const refresh = "refresh"

// Wakeup is the job of a unit, and of those that may be begun together with it. Of
// one attempt at a unit there is one at most.
type Wakeup struct {
	Unit     int64  `json:"unit" river:"unique"`
	Attempt  int    `json:"attempt" river:"unique"`
	Run      string `json:"run"`
	Pipeline string `json:"pipeline"`
	Source   string `json:"source"`
	Part     string `json:"part"`

	Queue string `json:"-"` // that it came through
}

// Kind implements [river.JobArgs].
func (Wakeup) Kind() string { return "unit" }

// most is how much of the names of a part a call tells; nothing goes by it.
const most = 200

// Enqueue calls for units, in the transaction that makes them claimable: once for
// all of a source that may be begun at the same time. It is an Enqueue of
// postgres.Options.
func Enqueue(ctx context.Context, tx pgx.Tx, schema string, units []state.Unit) error {
	type together struct {
		run, pipeline, source string
		at                    int64
	}
	var now time.Time // else it were this process's
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
			Args:       Wakeup{Unit: u.ID, Attempt: u.Attempt, Run: u.Run, Pipeline: u.Pipeline, Source: u.Source, Part: u.Part[:min(most, len(u.Part))]},
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

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// quiet is the log of River where it has nothing to say: units tell what becomes
// of them.
var quiet = slog.New(slog.DiscardHandler)

// queueOf is where a unit's run belongs, by why it began.
func queueOf(ctx context.Context, tx pgx.Tx, u state.Unit) (string, error) {
	var urgent bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM runs WHERE pipeline = $1 AND run = $2 AND cause = $3)", u.Pipeline, u.Run, refresh).Scan(&urgent)
	if urgent {
		return Deltas, err
	}
	return Runs, err
}

// Migrate makes River's tables in a schema, or brings them to this version, and
// returns how many steps that took.
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

// Inspect returns what a schema lacks of River's tables; "" for nothing.
func Inspect(ctx context.Context, pool *pgxpool.Pool, schema string) (string, error) {
	m, err := migrator(pool, schema)
	if err != nil {
		return "", err
	}
	r, err := m.Validate(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("look at queue: %w", err)
	}
	return strings.Join(r.Messages, "; "), nil
}

func migrator(pool *pgxpool.Pool, schema string) (*rivermigrate.Migrator[pgx.Tx], error) {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return nil, fmt.Errorf("look at queue: %w", err)
	}
	return m, nil
}
