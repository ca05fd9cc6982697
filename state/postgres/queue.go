package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/state"
)

// enqueue tells of units that may be claimed, byID so that all do it in one order.
func (s *Store) enqueue(ctx context.Context, tx pgx.Tx, units []state.Unit) error {
	if s.o.Enqueue == nil || len(units) == 0 {
		return nil
	}
	return s.o.Enqueue(ctx, tx, s.schema, byID(units))
}

// Revive has units wait again, and be enqueued, whose worker has given no sign of
// life for as long as it had claimed them, or fail if that was so too often. Of
// several processes that do so at once one has each unit. It returns how many there
// were.
func (s *Store) Revive(ctx context.Context) (n int, err error) {
	err = s.change(ctx, func(tx pgx.Tx) error {
		if err := s.ask(ctx, tx, "SELECT clock_timestamp()"); err != nil {
			return err
		}
		n, err = s.revive(ctx, tx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take units over: %w", err)
	}
	return n, nil
}

// mostRevived is how many units one transaction takes up.
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

// Queue is where a queue of this state's units is to be: the pool of connections,
// which stays the store's, and the schema. It returns [ErrUnmigrated] or
// [state.ErrNewer], wrapped, where the schema is not of this version.
func (s *Store) Queue(ctx context.Context) (pool *pgxpool.Pool, schema string, err error) {
	err = s.look(ctx, func(p *pgxpool.Pool) error {
		pool, schema = p, s.schema
		return nil
	})
	return pool, schema, err
}
