//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

var _ load.Sharer = (*DB)(nil)

// Share implements [load.Sharer].
func (d *DB) Share(source string) load.Destination {
	return load.SourcePart{Destination: d, Source: source, ScanOf: d.scanOf}
}

// Forget implements [load.Sharer].
func (d *DB) Forget(pipeline, source string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, p := range d.passes {
		if k.Pipeline == pipeline && k.Source == source {
			d.dropLater(p.carried)
			p.lost, p.carried = true, nil
			delete(d.passes, k)
		}
	}
	for k := range d.positions {
		if k.Pipeline == pipeline && k.Source == source {
			delete(d.positions, k)
			delete(d.claimed, k)
		}
	}
}

// Scan implements [load.Destination].
func (d *DB) Scan(ctx context.Context, table string, columns []string, each func(arrow.RecordBatch) error) error {
	return d.scanOf(ctx, "", table, columns, each)
}

// ownRelation returns an SQL relation with the rows of t. If the table is shared, these are only the rows of the
// transaction's source.
func (x *tx) ownRelation(t *target) string { return relationOf(t.Table, x.key.Source) }

func relationOf(t schemas.Table, source string) string {
	if source == "" || !load.Shared(t.Columns) {
		return place(t.Name)
	}
	return fmt.Sprintf("(FROM %s WHERE %s = %s)", place(t.Name), schemas.ColSource, literal(source))
}

// ownRowsSQL returns " AND" and the condition that a row of t belongs to the transaction's source. For a table that is
// not shared it returns "". The prefix, such as "t.", is put before the column name.
func (x *tx) ownRowsSQL(t *target, prefix string) string {
	if x.key.Source == "" || !load.Shared(t.Columns) {
		return ""
	}
	return " AND " + prefix + schemas.ColSource + " = " + literal(x.key.Source)
}

// sharing returns an error if the file's tables cannot hold the rows of k.Source; see [load.CheckSharing].
func sharing(live map[string]*object, k state.Key) error {
	o := live[load.State.Name]
	if o == nil {
		return nil
	}
	_, shared := o.types[schemas.ColSource]
	return load.CheckSharing(shared, k.Source)
}

// ownTable returns one of penstock's own tables, with a source column if the transaction has a source.
func (x *tx) ownTable(t schemas.Table) schemas.Table {
	if x.key.Source == "" {
		return t
	}
	return load.ShareTable(t)
}
