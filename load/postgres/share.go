package postgres

import (
	"context"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

var _ load.Sharer = (*DB)(nil)

// Share implements [load.Sharer].
func (d *DB) Share(source string) load.Destination {
	part := d.Store.Share(source).(load.SourcePart)
	part.Destination = d
	return part
}

// Forget implements [load.Sharer]. It also drops the tables of carried keys.
func (d *DB) Forget(pipeline, source string) {
	d.Store.Forget(pipeline, source)
	d.dropNow()
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
