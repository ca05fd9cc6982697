package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// position holds the values of a stream's row in _penstock_state.
type position struct {
	cursor          state.Cursor
	sequence, moved int64
}

// fence runs the SQL that begins the transaction, and locks the stream's row until the transaction ends. If there is no
// row, fence inserts an empty one. So only one process can make the first commit of a stream. The statements after
// fence see everything that other processes have committed before. Invariant 13
func fence(ctx context.Context, s *session, sql dialect, k state.Key, begin string) (p position, err error) {
	column, owner := "", ""
	where := "pipeline = " + literal(k.Pipeline) + " AND stream = " + literal(k.Stream)
	if k.Source != "" {
		column, owner = ident(schemas.ColSource)+", ", literal(k.Source)+", "
		where += " AND " + ident(schemas.ColSource) + " = " + literal(k.Source)
	}
	table, found := sql.Place(load.State.Name), false
	insert := fmt.Sprintf("INSERT INTO %s (%spipeline, stream, cursor, sequence) VALUES (%s%s, %s, '', 0) ON CONFLICT DO NOTHING", table, column, owner, literal(k.Pipeline), literal(k.Stream))
	read := "SELECT cursor, sequence, coalesce(" + sql.Micros("updated_at") + ", 0) FROM " + table + " WHERE " + where + " FOR UPDATE"
	row := func(v [][]byte) error {
		found, p.cursor = true, state.Cursor(v[0])
		var err, merr error
		p.sequence, err = strconv.ParseInt(string(v[1]), 10, 64)
		p.moved, merr = strconv.ParseInt(string(v[2]), 10, 64)
		return errors.Join(err, merr)
	}
	if err = s.query(ctx, begin+read, row); err != nil || found {
		return p, err
	}
	return p, s.query(ctx, insert+"; "+read, row)
}

// settle is called after the server's answer to a COMMIT was lost. It waits until the COMMIT has ended on the server.
// The server then releases the lock of the stream's row, so settle waits for that lock. A read without the lock could
// come too early. // Invariants 1, 13
func settle(ctx context.Context, p *pool, sql dialect, k state.Key) error {
	return p.retry(ctx, func() error {
		s, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		defer func() { s.rollback(); s.release() }()
		_, err = fence(ctx, s, sql, k, p.beginSQL()+"; ")
		return err
	})
}
