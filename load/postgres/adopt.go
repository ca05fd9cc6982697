package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// adopt plans to take over a table that penstock made, but whose recorded changes are lost. A unique key shows that
// the table has one row per record. Without one, the table is adopted with mode append.
func (c *catalog) adopt(want schemas.Table) (load.Plan, bool) {
	o := c.live[want.Name]
	if _, known := c.made[want.Name]; known || o == nil || o.kind != "r" {
		return load.Plan{}, false
	}
	mode := want.Mode.Or(schemas.Merge)
	switch {
	case len(want.Key) > 0 && !slices.Contains(o.unique, load.KeyName(load.FullKey(want))):
		mode = schemas.Append
	case mode == schemas.History || mode == schemas.Append && len(want.Key) > 0:
		mode = schemas.Merge // the table's mode can be changed later
	}
	return load.Adopt(want, mode, o.types, latticeOf)
}

// change runs f in a transaction that belongs to no stream. It commits if f reports a change.
func (d *DB) change(ctx context.Context, f func(*merge) (bool, error)) error {
	return d.retry(ctx, func() error {
		// ErrUnshared is no obstacle: penstock's own tables exist, and sources share them
		if err := d.prepare(ctx, ""); err != nil && !errors.Is(err, load.ErrUnshared) {
			return err
		}
		s, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		defer func() { s.rollback(); s.release() }()
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
	c, err := m.db.readCatalog(m.ctx, m.s, load.Ancestors(table))
	if err != nil {
		return nil, err
	}
	t, known := c.made[table]
	o := c.live[table]
	if !known || o == nil {
		return nil, nil
	}
	if err := m.checkTrust(c, []string{table}); err != nil {
		return nil, err
	}
	changes, err := c.accepted(t, o)
	if err != nil {
		return nil, err
	}
	if changes == nil {
		_, err := c.table(table) // returns an error if a difference remains that cannot be accepted
		return nil, err
	}
	for _, t := range load.ExistingTables(c.made, c.live) {
		m.tables[t.Name] = c.target(t)
	}
	if err := m.clearHashes(table, ""); err != nil {
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

// accepted returns the changes to record so that a table is accepted as it is in the database.
func (c *catalog) accepted(t schemas.Table, o *object) ([]load.Change, error) {
	if o.kind != "r" {
		_, err := c.table(t.Name)
		return nil, err
	}
	return load.Accept(t, c.types(t), o.types, latticeOf)
}
