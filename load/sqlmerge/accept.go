package sqlmerge

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/load"
)

// Accept records a table as it is; see [load.Destination]. The next whole pass writes the records of the table again,
// because the content of the changed columns is unknown.
func (d *Store) Accept(ctx context.Context, table string) ([]load.Change, error) {
	if !d.b.Exists() {
		return nil, nil
	}
	x := &tx{db: d, b: d.b, open: d.b.Write}
	defer func() { _ = x.Rollback() }()
	changes, err := x.accept(ctx, table)
	if err != nil {
		return nil, fmt.Errorf("accept %s: %w", table, err)
	}
	return changes, nil
}

func (x *tx) accept(ctx context.Context, table string) ([]load.Change, error) {
	if err := x.take(ctx); err != nil {
		return nil, err
	}
	family := load.Ancestors(table)
	if err := x.c.read(ctx, family...); err != nil {
		return nil, err
	}
	if err := x.c.checkSafe([]string{table}); err != nil {
		return nil, err
	}
	changes, err := x.c.accept(table)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	m := &merge{tx: x, ctx: ctx}
	m.know(family)
	for _, step := range []func() error{
		func() error { return x.record(ctx, changes) },
		func() error { return m.clearHashes(table, "") },
		func() error { return m.recreateView(table) },
		func() error { return x.s.Commit(ctx) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	x.finish()
	return changes, nil
}

// recreateView recreates the view of a table, because a column that the old view names may be gone.
func (m *merge) recreateView(table string) error {
	if err := m.c.read(m.ctx, table); err != nil {
		return err
	}
	t := m.c.made[table]
	f := &fitting{merge: m, altered: map[string]load.Plan{table: {Table: t, OldMode: t.Mode}}}
	return f.createCurrentView(&target{Table: t})
}

// accept returns the changes that accept the named table as it is.
func (c *catalog) accept(name string) ([]load.Change, error) {
	live := c.live[name]
	if live == nil {
		return nil, nil
	}
	if err := c.usable(name); err != nil {
		return nil, err
	}
	t := c.made[name]
	return load.Accept(t, c.typesOf(t), live.Types, c.store.b.Lattice)
}
