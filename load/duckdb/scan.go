//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// scanOf scans the rows of one source, or all rows if source is "".
func (d *DB) scanOf(ctx context.Context, source, table string, columns []string, each func(arrow.RecordBatch) error) error {
	err := d.withOwnReader(ctx, func(s *session) error {
		t, ok, err := readTable(ctx, s, table)
		if err != nil || !ok {
			return err
		}
		if columns == nil && source != "" {
			columns = load.Unshared(t.Columns)
		}
		schema, err := load.Select(t.Columns, columns)
		if err != nil {
			return err
		}
		return s.stream(ctx, "SELECT "+idents(load.Names(schema))+" FROM "+relationOf(t, source), func(b arrow.RecordBatch) error {
			if b.NumRows() == 0 {
				return nil
			}
			b = retyped(b, schema)
			defer b.Release()
			return each(b)
		})
	})
	if err != nil {
		return fmt.Errorf("scan %s: %w", table, err)
	}
	return nil
}

// withOwnReader is like withReader, but runs f with a new session, because f may take long. The session of withReader
// has one user at a time.
func (d *DB) withOwnReader(ctx context.Context, f func(*session) error) error {
	if !d.exists() {
		return nil
	}
	e, release, err := d.acquire(ctx, reading)
	if err != nil {
		return err
	}
	defer release()
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.conn.Close())
}

// readTable returns the named table, and false if it does not exist. It returns an error if the table was changed by
// hand, or was not made by penstock.
func readTable(ctx context.Context, s *session, name string) (schemas.Table, bool, error) {
	c, err := readCatalog(ctx, s, []string{name}, false)
	if err != nil {
		return schemas.Table{}, false, err
	}
	if c.live[name] == nil {
		return schemas.Table{}, false, nil
	}
	if _, ok := c.made[name]; ok {
		t, err := c.table(name) // an error if the table was changed by hand
		return t, true, err
	}
	for _, own := range load.OwnTables() {
		if own.Name == name {
			if _, shared := c.live[name].types[schemas.ColSource]; shared {
				own = load.ShareTable(own)
			}
			return own, true, nil
		}
	}
	return schemas.Table{}, false, errors.New("it was not made by penstock")
}

// retyped returns b with the types of s. The engine gives its batches other Arrow types with the same layout. The
// caller releases the result.
func retyped(b arrow.RecordBatch, s *arrow.Schema) arrow.RecordBatch {
	columns := make([]arrow.Array, b.NumCols())
	for i, c := range b.Columns() {
		data := withType(c.Data(), s.Field(i).Type)
		columns[i] = array.MakeFromData(data)
		data.Release()
		defer columns[i].Release()
	}
	return array.NewRecordBatch(s, columns, b.NumRows())
}

func withType(a arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	children := slices.Clone(a.Children())
	if l, ok := t.(*arrow.ListType); ok {
		children[0] = withType(children[0], l.Elem())
		defer children[0].Release()
	}
	return array.NewData(t, a.Len(), a.Buffers(), children, a.NullN(), a.Offset())
}
