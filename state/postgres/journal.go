package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// journal is the journal of all daemons that share the database. A slot belongs to the process that has added it. Each
// process regularly renews its entry in the table processes. If a process stops, another process may take over its
// slots.
type journal struct {
	s       *Store
	process string
	stop    context.CancelFunc
	beats   sync.WaitGroup
}

var _ state.Journal = (*journal)(nil)

// A process renews its entry every processBeat. For processLife after a renewal, it counts as alive.
const (
	processLife = 30 * time.Second
	processBeat = 5 * time.Second
)

// short() cuts a reason or an error to the length that the journal stores. // Invariant 6
func short(text string) string { return clean(state.Truncated(text)) }

// OpenJournal implements [state.Store]. Any number of processes may open it.
func (s *Store) OpenJournal(ctx context.Context) (state.Journal, error) {
	j := &journal{s: s, process: s.me + "/" + nonce()}
	if err := j.beat(ctx); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	j.stop = stop
	j.beats.Go(func() { j.sendBeats(live) })
	return j, nil
}

func (j *journal) sendBeats(ctx context.Context) {
	tick := time.NewTicker(processBeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = j.beat(ctx) // the next renewal may succeed; otherwise other processes take over the slots
		}
	}
}

func (j *journal) beat(ctx context.Context) error {
	return j.s.change(ctx, func(tx pgx.Tx) error {
		err := j.s.clock.query(ctx, tx, `INSERT INTO processes VALUES ($1, clock_timestamp() + $2)
			ON CONFLICT (process) DO UPDATE SET until = excluded.until RETURNING clock_timestamp()`, j.process, processLife)
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM processes WHERE until < clock_timestamp() - interval '1 day'")
		}
		return err
	})
}

// Close closes the journal. Other processes can then take over the open slots of this process immediately.
func (j *journal) Close() error {
	j.stop()
	j.beats.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := j.s.change(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM processes WHERE process = $1", j.process)
		return err
	})
	if err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// orphaned is the condition that the process that owns a row is dead: it has not renewed its entry for processLife.
const orphaned = `NOT EXISTS (SELECT FROM processes WHERE process = owner AND until > clock_timestamp())`

// Seen implements [state.Schedule]: see [state.JournalFile.Seen].
func (j *journal) Seen(ctx context.Context, pipeline, schedule string, now time.Time) (seen time.Time, err error) {
	err = j.change(ctx, "begin schedule", func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `INSERT INTO pipelines (name, schedule, seen) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET schedule = excluded.schedule,
				seen = CASE WHEN pipelines.schedule = excluded.schedule THEN pipelines.seen ELSE excluded.seen END
			RETURNING seen`, pipeline, schedule, now).Scan(&seen)
	})
	return seen.UTC(), err
}

// Pause implements [state.Schedule].
func (j *journal) Pause(ctx context.Context, pipeline string, start time.Time) error {
	return j.change(ctx, "pause", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE pipelines SET paused = $1 WHERE name = $2", nullTime(start), pipeline)
		return err
	})
}

// Paused implements [state.Schedule].
func (j *journal) Paused(ctx context.Context, pipeline string) (time.Time, error) {
	var since *time.Time
	err := j.s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, "SELECT paused FROM pipelines WHERE name = $1", pipeline).Scan(&since)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read journal: %w", err)
	}
	return timeOf(since), nil
}

func (j *journal) change(ctx context.Context, what string, do func(pgx.Tx) error) error {
	if err := j.s.change(ctx, do); err != nil {
		return fmt.Errorf("write journal: %s: %w", what, err)
	}
	return nil
}
