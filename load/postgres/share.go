package postgres

import (
	"context"
	"maps"

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
	d.forget(func(k state.Key) bool { return k.Pipeline == pipeline && k.Source == source })
}

// forget drops what this process remembers of the streams for which the function match returns true. It also drops the
// tables of carried keys of their passes.
func (d *DB) forget(match func(state.Key) bool) {
	d.mu.Lock()
	maps.DeleteFunc(d.positions, func(k state.Key, _ position) bool { return match(k) })
	maps.DeleteFunc(d.claimed, func(k state.Key, _ claimed) bool { return match(k) })
	for k, p := range d.passes {
		if match(k) {
			d.discard(p)
			delete(d.passes, k)
		}
	}
	garbage := len(d.garbage)
	d.mu.Unlock()
	if garbage == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	if s, err := d.acquire(ctx); err == nil { // if this fails, a later commit drops the tables
		defer s.release()
		d.dropGarbage(ctx, s)
	}
}

// Scan implements [load.Destination].
func (d *DB) Scan(ctx context.Context, table string, columns []string, visit func(arrow.RecordBatch) error) error {
	return d.scanOf(ctx, "", table, columns, visit)
}

// ownRowsSQL returns " AND" and the condition that a row t belongs to the transaction's source. It returns "" if
// sources do not share the table.
func (x *tx) ownRowsSQL(t *target) string {
	if x.key.Source == "" || !load.Shared(t.Columns) {
		return ""
	}
	return " AND t." + ident(schemas.ColSource) + " = " + literal(x.key.Source)
}

// ownTable returns one of penstock's own tables. If source is not "", the table has a column for the source.
func ownTable(t schemas.Table, source string) schemas.Table {
	if source == "" {
		return t
	}
	return load.ShareTable(t)
}

// sharing returns an error if the tables of the schema cannot hold rows of the given source: see [load.CheckSharing].
func (d *DB) sharing(ctx context.Context, s *session, source string) error {
	d.mu.Lock()
	ready := d.ready[source != ""] && !d.ready[source == ""]
	d.mu.Unlock()
	if ready {
		return nil // already checked
	}
	var tables, shared int64
	err := s.numbers(ctx, "SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = "+
		literal(schemas.ColSource)+")) FROM pg_catalog.pg_class c WHERE c.relname = "+literal(load.State.Name)+
		" AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = "+literal(d.o.Schema)+")", &tables, &shared)
	if err != nil || tables == 0 {
		return err
	}
	return load.CheckSharing(shared > 0, source)
}
