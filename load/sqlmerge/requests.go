package sqlmerge

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Accept records a table as it is; see [load.Destination]. The next whole pass writes the records of the table again,
// because the content of the changed columns is unknown.
func (d *Store) Accept(ctx context.Context, table string) (changes []load.Change, err error) {
	if !d.b.Exists() {
		return nil, nil
	}
	err = d.request(ctx, func(x *tx) error {
		changes, err = x.accept(ctx, table)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("accept %s: %w", table, err)
	}
	return changes, nil
}

// CreateView creates or replaces a view, for a backend that is a [load.Viewer].
func (d *Store) CreateView(ctx context.Context, name, query string) error {
	if err := d.request(ctx, func(x *tx) error { return x.view(ctx, name, query) }); err != nil {
		return fmt.Errorf("view %s: %w", name, err)
	}
	return nil
}

// request makes changes that a user requests. It makes them in a transaction that belongs to no stream.
func (d *Store) request(ctx context.Context, change func(x *tx) error) error {
	x := d.newTx(state.Key{}, "", position{}, load.Pass{}, nil, d.b.Write)
	defer func() { _ = x.Rollback() }()
	if err := x.take(ctx); err != nil {
		return err
	}
	if err := change(x); err != nil {
		return err
	}
	if err := x.sql.Commit(ctx); err != nil {
		return err
	}
	x.finish()
	return nil
}

func (x *tx) accept(ctx context.Context, table string) ([]load.Change, error) {
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
	f := x.fitting(nil, family)
	for _, step := range []func() error{
		func() error { return x.c.record(x.sql, changes) },
		func() error { return f.clearHashes(table, "") },
		func() error { return x.c.read(ctx, table) }, // read the table again, now with its changes
		func() error { return f.recreateView(x.c.made[table]) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

func (x *tx) view(ctx context.Context, name, query string) error {
	if err := x.c.read(ctx, name); err != nil {
		return err
	}
	there, ours := x.c.findObject(name), x.c.views[name]
	if there != nil && !(ours && there.View) {
		return load.ErrTaken // Invariant 16
	}
	if err := x.sql.View(ctx, View{Name: name, Query: query}); err != nil || ours {
		return err
	}
	return x.c.record(x.sql, []load.Change{{Table: name, Action: load.ActionView, Reason: "requested"}})
}
