package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// position is a stream's row in _penstock_state.
type position struct {
	cursor   state.Cursor
	sequence int64     // 0: there is no row
	moved    time.Time // when the row was written, by the clock of the process that wrote it
}

// at reports whether both positions are the same. It does not matter which process wrote them.
func (p position) at(other position) bool {
	return p.cursor == other.cursor && p.sequence == other.sequence
}

func whereKey(k state.Key) string {
	where := "pipeline = " + literal(k.Pipeline) + " AND stream = " + literal(k.Stream)
	if k.Source != "" {
		where += " AND " + ident(schemas.ColSource) + " = " + literal(k.Source)
	}
	return where
}

// position reads a stream's position from the database.
func (d *DB) position(ctx context.Context, k state.Key) (p position, err error) {
	err = d.withReadTx(ctx, func(s *session) error {
		if err := d.sharing(ctx, s, k.Source); err != nil {
			return err
		}
		p, err = s.position(ctx, d.positionSQL(k))
		if c := code(err); c == codeUndefinedTable || c == codeNoSchema {
			p, err = position{}, nil
		}
		return err
	})
	if err == nil {
		d.cachePosition(k, p)
	}
	return p, err
}

// positionAt returns the position of a stream. The parameter from is the cursor that the caller expects. If this
// process has cached a position with that cursor, positionAt sends no query. If another process has changed the cursor
// since, [DB.fence] notices. // Invariant 13
func (d *DB) positionAt(ctx context.Context, k state.Key, from state.Cursor) (position, error) {
	d.mu.Lock()
	p, known := d.positions[k]
	d.mu.Unlock()
	if known && p.cursor == from {
		return p, nil
	}
	return d.position(ctx, k)
}

// cachePosition caches a stream's position.
func (d *DB) cachePosition(k state.Key, p position) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.positions[k] = p
}

// cacheClaim caches a claim that was checked, and the position of the stream after the commit.
func (d *DB) cacheClaim(k state.Key, c claimed) {
	if c.Table == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claimed[k] = c
}

// dropPosition drops a stream's cached position, so that the next use reads it again.
func (d *DB) dropPosition(k state.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.positions, k)
}

func (d *DB) positionSQL(k state.Key) string {
	return "SELECT cursor, sequence, (pg_catalog.date_part('epoch', updated_at) * 1000000)::bigint FROM " + d.place(load.State.Name) + " WHERE " + whereKey(k)
}

// position runs statements. The last one must read the row of a stream. If there is no row, the position is zero.
func (s *session) position(ctx context.Context, sql string) (p position, err error) {
	err = s.query(ctx, sql, func(v [][]byte) (err error) {
		p.cursor = state.Cursor(v[0])
		if p.sequence, err = strconv.ParseInt(string(v[1]), 10, 64); err != nil || v[2] == nil {
			return err
		}
		micros, err := strconv.ParseInt(string(v[2]), 10, 64)
		p.moved = time.UnixMicro(micros)
		return err
	})
	return p, err
}

// fence begins a transaction and locks the stream's row until the transaction ends. It returns the stream's position.
// If there is no row, fence inserts an empty one, so that only one process can make the first commit of a stream. All
// this is one request, to save time. Each statement sees everything that was committed before it began. Invariant 13
func (d *DB) fence(ctx context.Context, s *session, k state.Key) (position, error) {
	column, owner := "", ""
	if k.Source != "" {
		column, owner = ident(schemas.ColSource)+", ", literal(k.Source)+", "
	}
	return s.position(ctx, fmt.Sprintf("%s; INSERT INTO %s (%spipeline, stream, cursor, sequence) VALUES (%s%s, %s, '', 0) ON CONFLICT DO NOTHING; %s FOR UPDATE",
		d.beginSQL(), d.place(load.State.Name), column, owner, literal(k.Pipeline), literal(k.Stream), d.positionSQL(k)))
}

// writePosition replaces the position in the stream's row. If the row does not have the position in the parameter from,
// it returns [state.ErrMoved].
func (d *DB) writePosition(ctx context.Context, s *session, k state.Key, from, to position) error {
	n, err := s.affect(ctx, fmt.Sprintf("UPDATE %s SET cursor = %s, sequence = %d, updated_at = %s WHERE %s AND cursor = %s AND sequence = %d",
		d.place(load.State.Name), literal(string(to.cursor)), to.sequence, timestamp(to.moved), whereKey(k), literal(string(from.cursor)), from.sequence))
	if err != nil {
		return fmt.Errorf("move cursor: %w", err)
	}
	if n != 1 {
		return state.ErrMoved
	}
	return nil
}

// commitOutcome determines the outcome of a COMMIT whose answer was lost. It waits for the lock of the stream's row.
// The server releases that lock when the COMMIT has finished. Reading without the lock could be too early.
// Invariants 1, 13
func (d *DB) commitOutcome(ctx context.Context, k state.Key, to position) (committed bool, now position, err error) {
	err = d.retry(ctx, func() error {
		s, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		defer func() { s.rollback(); s.release() }()
		now, err = d.fence(ctx, s, k)
		return err
	})
	return now.at(to) && now.moved.Equal(to.moved), now, err
}
