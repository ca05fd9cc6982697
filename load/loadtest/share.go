package loadtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// sharedBy is a destination restricted to one of two sources that share its tables. Both sources have rows with the
// same keys and hashes.
type sharedBy struct {
	load.Destination
	whole load.Destination
	other load.Destination
}

// shared returns a driver whose destinations are restricted to one source. After each commit of this source, the
// other source commits the same rows. The other source never sweeps.
func shared(d Driver, source, otherSource string) Driver {
	whole := func(d load.Destination) load.Destination { return d.(*sharedBy).whole }
	s := d
	s.Open = func(t testing.TB, step func(string) error) load.Destination {
		raw := d.Open(t, step)
		one, err := load.Share(raw, source)
		require.NoError(t, err)
		two, err := load.Share(raw, otherSource)
		require.NoError(t, err)
		return &sharedBy{Destination: one, whole: raw, other: two}
	}
	s.Rows = func(t testing.TB, dest load.Destination, table string) []Row {
		return rowsBy(d.Rows(t, whole(dest), table), source)
	}
	if d.Alter != nil {
		s.Alter = func(t testing.TB, dest load.Destination, table, column string, to arrow.DataType) {
			d.Alter(t, whole(dest), table, column, to)
		}
	}
	if d.Drop != nil {
		s.Drop = func(t testing.TB, dest load.Destination, table string) { d.Drop(t, whole(dest), table) }
	}
	s.Comment = func(t testing.TB, dest load.Destination, table, column string) string {
		return d.Comment(t, whole(dest), table, column)
	}
	return s
}

// rowsBy returns the rows of one source, without the source column. Rows of a table without that column belong to all
// sources.
func rowsBy(rows []Row, source string) []Row {
	var out []Row
	for _, r := range rows {
		owner, told := r[schemas.ColSource]
		if told && owner != source {
			continue
		}
		r = maps.Clone(r)
		delete(r, schemas.ColSource)
		out = append(out, r)
	}
	return out
}

// Begin opens a transaction. When this transaction commits, the other source commits the same rows.
func (s *sharedBy) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	x, err := s.Destination.Begin(ctx, k, from, p)
	if err != nil {
		return nil, err
	}
	return &echoed{Tx: x, of: s, key: k, pass: p}, nil
}

// Close closes the underlying destination.
func (s *sharedBy) Close() error { return s.whole.Close() }

type echoed struct {
	load.Tx
	of     *sharedBy
	key    state.Key
	pass   load.Pass
	tables []schemas.Table
	rows   []arrow.RecordBatch
}

// Write implements [load.Tx].
func (x *echoed) Write(ctx context.Context, t schemas.Table, b arrow.RecordBatch) error {
	if err := x.Tx.Write(ctx, t, b); err != nil {
		return err
	}
	b.Retain()
	x.tables, x.rows = append(x.tables, t), append(x.rows, b)
	return nil
}

// Commit commits the transaction. Then it commits the same rows for the other source.
func (x *echoed) Commit(ctx context.Context, next state.Cursor) error {
	if err := x.Tx.Commit(ctx, next); err != nil {
		return err
	}
	from, err := x.of.other.Cursor(ctx, x.key)
	if err != nil {
		return fmt.Errorf("the other source: %w", err)
	}
	tx, err := x.of.other.Begin(ctx, x.key, from, x.pass)
	if err != nil {
		return fmt.Errorf("the other source: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	for i, b := range x.rows {
		if err := tx.Write(ctx, x.tables[i], b); err != nil {
			return fmt.Errorf("the other source: %w", err)
		}
	}
	if err := tx.Commit(ctx, next+"'"); err != nil {
		return fmt.Errorf("the other source: %w", err)
	}
	return nil
}

// Rollback implements [load.Tx].
func (x *echoed) Rollback() error {
	for _, b := range x.rows {
		b.Release()
	}
	x.tables, x.rows = nil, nil
	return x.Tx.Rollback()
}

// sharedNames are the cases that are also run with a second source, which has rows with the same keys and hashes in
// the same tables.
var sharedNames = []string{
	"a key occurs twice in a pass", "composite key", "children follow their parent", "children of a composite key",
	"tombstone and revival", "a sweep after several commits of a pass", "a sweep of a resumed pass", "child rows of equal records without a key",
	"modes, applied in parts", "modes change", "rows delivered again", "a sweep lists the keys of missing rows", "rows with given keys are deleted",
	"log of rows", "log of rows without a key", "views of current rows", "scan", "penstock's own tables", "rows of penstock's own tables are replaced",
	"a cursor that moved and moved back", "lists paged by key", "modes without a key", "columns widen twice", "concurrent streams",
}

func testShared(t *testing.T, d Driver) {
	names := sharedNames
	if testing.Short() {
		names = []string{"children of a composite key", "rows with given keys are deleted", "scan", "penstock's own tables"}
	}
	if !sharing(t, d) {
		t.Skip("tables cannot be shared")
	}
	d = shared(d, "berlin", "boston")
	for _, c := range cases() {
		if slices.Contains(names, c.name) {
			t.Run(c.name, func(t *testing.T) { c.run(t, d) })
		}
	}
}

func sharing(t *testing.T, d Driver) bool {
	dest := d.Open(t, func(string) error { return nil })
	defer dest.Close()
	_, ok := dest.(load.Sharer)
	return ok
}
