package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/state"
)

// enqueue adds units to the queue. It sorts them by ID, so that concurrent transactions use the same order and cannot
// deadlock.
func (s *Store) enqueue(ctx context.Context, tx pgx.Tx, units []state.Unit) error {
	if s.o.Enqueue == nil || len(units) == 0 {
		return nil
	}
	return s.o.Enqueue(ctx, tx, s.schema, byID(units))
}

// Revive releases running units whose claims have expired, and returns their number. The units wait again and are
// enqueued. A unit whose claims expired [state.MostBroken] times in a row fails instead. If several processes call
// Revive at the same time, each unit is released once.
func (s *Store) Revive(ctx context.Context) (n int, err error) {
	err = s.change(ctx, func(tx pgx.Tx) error {
		if err := s.queryClock(ctx, tx, "SELECT clock_timestamp()"); err != nil {
			return err
		}
		n, err = s.revive(ctx, tx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("revive units: %w", err)
	}
	return n, nil
}

const mostRevived = 1000

func (s *Store) revive(ctx context.Context, tx pgx.Tx) (n int, err error) {
	rows, err := tx.Query(ctx, `UPDATE units SET broken = broken + 1, not_before = '-infinity',
			state = CASE WHEN broken + 1 < $2 THEN 'waiting' ELSE 'failed' END, ended = CASE WHEN broken + 1 < $2 THEN NULL ELSE clock_timestamp() END
		WHERE id = ANY(ARRAY(SELECT id FROM units WHERE state = 'running' AND beat < statement_timestamp() ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
		RETURNING `+unitColumns, mostRevived, state.MostBroken)
	if err != nil {
		return 0, err
	}
	lost, err := pgx.CollectRows(rows, unitOf)
	if err != nil {
		return 0, err
	}
	again := slices.DeleteFunc(slices.Clone(lost), func(u state.Unit) bool { return u.State.Ended() })
	return len(lost), s.enqueue(ctx, tx, again)
}

// Queue returns the connection pool and the schema in which a queue of units can be stored. The pool belongs to the
// store. Queue returns [ErrUnmigrated] or [state.ErrNewer], wrapped, if the schema has another version.
func (s *Store) Queue(ctx context.Context) (pool *pgxpool.Pool, schema string, err error) {
	err = s.read(ctx, func(p *pgxpool.Pool) error {
		pool, schema = p, s.schema
		return nil
	})
	return pool, schema, err
}
