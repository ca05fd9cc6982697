package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// prepare creates the schema and penstock's own tables if they are missing. It uses its own transaction, because
// streams that start at the same time all need the tables. The tables stay empty until the first commit.
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
	defer func() { s.rollback(); s.release() }()
	if err := d.begin(ctx, s); err != nil {
		return err
	}
	if err := d.sharing(ctx, s, source); err != nil {
		return err
	}
	if err := d.checkOwnTrust(ctx, s); err != nil {
		return err
	}
	if err := d.makeOwn(ctx, s, source); err != nil {
		return fmt.Errorf("create penstock's own tables in schema %s: %w", d.o.Schema, err)
	}
	if err := d.stalePasses(ctx, s); err != nil {
		return err
	}
	if err := d.warn(ctx, s); err != nil {
		return err
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
	if lacking, err := d.lackingOwn(ctx, s, source); err != nil || len(lacking) == 0 {
		return err
	}
	// If other processes want to create the same tables, they wait here, and then find the tables.
	if err := s.run(ctx, d.advisoryLockSQL("penstock "+d.o.Schema)); err != nil {
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
	lacking, err := d.lackingOwn(ctx, s, source)
	if err != nil {
		return err
	}
	for _, l := range lacking {
		if err := s.run(ctx, d.makeSQL(l)); err != nil {
			return fmt.Errorf("%s: %w", l.table.Name, err)
		}
	}
	return nil
}

// lack says what one of penstock's own tables lacks. Columns may be missing because a newer version of penstock has
// added them.
type lack struct {
	table   schemas.Table
	there   bool
	columns []arrow.Field
}

// lackingOwn returns what is missing of penstock's own tables.
func (d *DB) lackingOwn(ctx context.Context, s *session, source string) (all []lack, err error) {
	var names []string
	for _, t := range load.OwnTables() {
		names = append(names, literal(t.Name))
	}
	there := map[string]map[string]bool{}
	err = s.query(ctx, "SELECT c.relname, coalesce(a.attname, '') FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "+
		"WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = "+literal(d.o.Schema)+") AND c.relname IN ("+strings.Join(names, ", ")+")",
		func(v [][]byte) error {
			name := string(v[0])
			if there[name] == nil {
				there[name] = map[string]bool{}
			}
			there[name][string(v[1])] = true
			return nil
		})
	for _, t := range load.OwnTables() {
		l := lack{table: ownTable(t, source), there: there[t.Name] != nil}
		for _, f := range l.table.Columns.Fields() {
			if !there[t.Name][f.Name] {
				l.columns = append(l.columns, f)
			}
		}
		if len(l.columns) > 0 {
			all = append(all, l)
		}
	}
	return all, err
}

func (d *DB) makeSQL(l lack) string {
	t := l.table
	var defs []string
	for _, f := range l.columns {
		defs = append(defs, d.definition(t, f))
	}
	if l.there {
		return "ALTER TABLE " + d.place(t.Name) + " ADD COLUMN " + strings.Join(defs, ", ADD COLUMN ")
	}
	if len(t.Key) > 0 {
		defs = append(defs, "PRIMARY KEY ("+idents(load.FullKey(t))+")")
	}
	return "CREATE TABLE " + d.place(t.Name) + " (" + strings.Join(defs, ", ") + "); " +
		"COMMENT ON TABLE " + d.place(t.Name) + " IS " + literal(ownComment(t))
}

// ownComment returns the comment on one of penstock's own tables.
func ownComment(t schemas.Table) string {
	return "penstock: " + strings.ReplaceAll(strings.TrimPrefix(t.Name, load.Prefix), "_", " ")
}

// recheckTables returns err. If err says that a table is missing, one of penstock's own tables was dropped by hand.
// The returned error then allows a retry, and the next call of prepare creates the table.
func (d *DB) recheckTables(err error) error {
	if code(err) != codeUndefinedTable {
		return err
	}
	d.mu.Lock()
	clear(d.ready)
	d.mu.Unlock()
	return retryable{err}
}
