package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// adopt takes a table that penstock made for its own although the account of it
// is lost: it has the columns of bookkeeping, which nobody else would give one.
// What the columns hold is known again from the rows that arrive.
func (c *catalog) adopt(want schemas.Table) (load.Plan, bool) {
	o := c.live[want.Name]
	if _, known := c.made[want.Name]; known || o == nil || o.kind != "r" || load.Own(want.Name) {
		return load.Plan{}, false
	}
	for _, own := range []string{schemas.ColSyncedAt, schemas.ColRun, schemas.ColHash, schemas.ColDeletedAt, schemas.ColVia} {
		if _, ok := o.types[own]; !ok {
			return load.Plan{}, false
		}
	}
	t := schemas.Table{Name: want.Name, Key: want.Key, Mode: want.Mode.Or(schemas.Merge)}
	if _, versions := o.types[schemas.ColValidTo]; versions {
		t.Mode = schemas.History
	} else if len(want.Key) > 0 && !slices.Contains(o.unique, load.KeyName(want.Key)) {
		t.Mode = schemas.Append
	} else if t.Mode == schemas.History || t.Mode == schemas.Append && len(want.Key) > 0 {
		t.Mode = schemas.Merge
	}
	p := load.Plan{Create: true, From: t.Mode, Table: t}
	fields := want.Columns.Fields()
	if t.Mode == schemas.History {
		fields = append(fields, schemas.Field(schemas.ColValidFrom, schemas.Timestamp, ""), schemas.Field(schemas.ColValidTo, schemas.Timestamp, ""))
	}
	for _, f := range fields {
		if typ, ok := latticeOf(o.types[f.Name]); ok {
			p.Add = append(p.Add, schemas.Field(f.Name, typ, schemas.Source(f)))
		}
	}
	md := want.Columns.Metadata()
	p.Table.Columns = arrow.NewSchema(p.Add, &md)
	return p, true
}

// change runs f in a transaction that belongs to no stream, and commits it where
// f has changed something.
func (d *DB) change(ctx context.Context, f func(*merge) (bool, error)) error {
	return d.retry(ctx, func() error {
		if err := d.prepare(ctx); err != nil {
			return err
		}
		s, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		defer func() { s.rollback(); s.release(false) }()
		if err := d.begin(ctx, s); err != nil {
			return err
		}
		m := &merge{tx: &tx{db: d, attempt: attempt{s: s}}, ctx: ctx, tables: map[string]*target{}}
		if changed, err := f(m); err != nil || !changed {
			return err
		}
		return s.run(ctx, "COMMIT")
	})
}

// Accept implements [load.Destination].
func (d *DB) Accept(ctx context.Context, table string) (changes []load.Change, err error) {
	err = d.change(ctx, func(m *merge) (bool, error) {
		changes, err = m.accept(table)
		return len(changes) > 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("accept %s: %w", table, err)
	}
	return changes, nil
}

func (m *merge) accept(table string) ([]load.Change, error) {
	c, err := m.db.readCatalog(m.ctx, m.s, []string{rootOf(table), table})
	if err != nil {
		return nil, err
	}
	t, known := c.made[table]
	o := c.live[table]
	if !known || o == nil {
		return nil, nil
	}
	changes, err := c.accepted(t, o)
	if err != nil {
		return nil, err
	}
	if changes == nil {
		_, err := c.table(table) // what remains cannot be accepted
		return nil, err
	}
	for _, t := range c.tables() {
		m.tables[t.Name] = c.target(t)
	}
	if err := m.forgetAll(table); err != nil {
		return nil, err
	}
	if err := m.record(changes); err != nil {
		return nil, err
	}
	after, err := m.db.readCatalog(m.ctx, m.s, []string{table})
	if err != nil {
		return nil, err
	}
	if _, err = after.table(table); err != nil {
		return nil, err
	}
	return changes, m.current(after, load.Plan{Table: after.made[table]})
}

// accepted are the changes that take a table for what it is.
func (c *catalog) accepted(t schemas.Table, o *object) ([]load.Change, error) {
	if o.kind != "r" {
		_, err := c.table(t.Name)
		return nil, err
	}
	var changes []load.Change
	types := c.types(t)
	for _, f := range t.Columns.Fields() {
		live, there := o.types[f.Name]
		if there && live == types[f.Name] {
			continue
		}
		var to arrow.DataType
		if there {
			var ok bool
			if to, ok = latticeOf(live); !ok {
				return nil, fmt.Errorf("column %q is %s, which penstock does not write", f.Name, live)
			}
		}
		ch, err := load.Accepted(t, f, to)
		if err != nil {
			return nil, err
		}
		changes = append(changes, ch)
	}
	return changes, nil
}
