package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// prepare makes the tables of penstock's own, and the schema, where they are
// missing, as those for source have them: in a transaction of its own, as streams that begin at the same time
// all want them. They are empty until the first commit.
func (d *DB) prepare(ctx context.Context, source string) error {
	shared := source != ""
	d.mu.Lock()
	ready := d.ready[shared]
	d.mu.Unlock()
	if ready {
		return nil
	}
	s, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { s.rollback(); s.release(false) }()
	if err := d.begin(ctx, s); err != nil {
		return err
	}
	if err := d.sharing(ctx, s, source); err != nil {
		return err
	}
	if err := d.makeOwn(ctx, s, source); err != nil {
		return fmt.Errorf("make penstock's own tables in schema %s: %w", d.o.Schema, err)
	}
	if err := s.run(ctx, "COMMIT"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready[shared] = true
	return nil
}

func (d *DB) makeOwn(ctx context.Context, s *session, source string) error {
	missing, err := d.missingOwn(ctx, s, source)
	if err != nil || missing == 0 {
		return err
	}
	// Others who come to make them wait here, and then find them.
	if err := s.run(ctx, d.queueSQL("penstock "+d.o.Schema)); err != nil {
		return err
	}
	if err := d.sharing(ctx, s, source); err != nil {
		return err
	}
	var schema int64
	if err := s.numbers(ctx, "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = "+literal(d.o.Schema), &schema); err != nil {
		return err
	}
	if schema == 0 {
		if err := s.run(ctx, "CREATE SCHEMA "+ident(d.o.Schema)); err != nil {
			return err
		}
	}
	for _, t := range load.OwnTables() {
		if err := d.makeOne(ctx, s, ownTable(t, source)); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return nil
}

// missingOwn counts what there is not yet: a release may bring columns.
func (d *DB) missingOwn(ctx context.Context, s *session, source string) (n int64, err error) {
	var wanted []string
	for _, t := range load.OwnTables() {
		for _, f := range ownTable(t, source).Columns.Fields() {
			wanted = append(wanted, "("+literal(t.Name)+", "+literal(f.Name)+")")
		}
	}
	err = s.numbers(ctx, "SELECT count(*) FROM (VALUES "+strings.Join(wanted, ", ")+") AS w (t, c) WHERE NOT EXISTS ("+
		"SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON r.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace "+
		"WHERE n.nspname = "+literal(d.o.Schema)+" AND r.relname = w.t AND a.attname = w.c AND NOT a.attisdropped)", &n)
	return n, err
}

func (d *DB) makeOne(ctx context.Context, s *session, t schemas.Table) error {
	defs := make([]string, 0, t.Columns.NumFields()+1)
	for _, f := range t.Columns.Fields() {
		defs = append(defs, d.definition(t, f))
	}
	if len(t.Key) > 0 {
		defs = append(defs, "PRIMARY KEY ("+idents(load.FullKey(t))+")")
	}
	if err := s.run(ctx, "CREATE TABLE IF NOT EXISTS "+d.place(t.Name)+" ("+strings.Join(defs, ", ")+")"); err != nil {
		return err
	}
	for _, f := range t.Columns.Fields() {
		if err := s.run(ctx, "ALTER TABLE "+d.place(t.Name)+" ADD COLUMN IF NOT EXISTS "+d.definition(t, f)); err != nil {
			return err
		}
	}
	return s.run(ctx, "COMMENT ON TABLE "+d.place(t.Name)+" IS "+literal("penstock: "+strings.ReplaceAll(strings.TrimPrefix(t.Name, load.Prefix), "_", " ")))
}

// unprepared has penstock's own tables looked for anew where an error says that
// one of them is gone: somebody has dropped it.
func (d *DB) unprepared(err error) error {
	if code(err) != codeUndefinedTable {
		return err
	}
	d.mu.Lock()
	clear(d.ready)
	d.mu.Unlock()
	return again{err}
}
