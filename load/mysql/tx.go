package mysql

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// tx is a transaction that replaces times that MySQL cannot store.
type tx struct {
	load.Tx
	key  state.Key
	pass load.Pass
}

// Begin opens a transaction; see [load.Destination].
func (d *DB) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	x, err := d.BeginRepeatable(ctx, k, from, p, sqlmerge.Repetition{})
	if err != nil {
		return nil, err
	}
	return &tx{x, k, p}, nil
}

// Write implements [load.Tx].
func (x *tx) Write(ctx context.Context, t schemas.Table, b arrow.RecordBatch) error {
	b, rejects, err := load.ClampTimes(x.key, x.pass, t, b, lastTime)
	if err != nil {
		return fmt.Errorf("write %s: %w", t.Name, err)
	}
	defer b.Release()
	if err := x.Tx.Write(ctx, t, b); err != nil || rejects == nil {
		return err
	}
	defer rejects.Release()
	return x.Tx.Write(ctx, load.Rejects, rejects)
}
