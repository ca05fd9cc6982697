package sqlmerge

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// createCurrentViews creates the <table>_current views of the current rows, and recreates them if columns have changed.
// The views name their columns, so that columns added by users do not break them.
func (f *fitting) createCurrentViews() error {
	for _, name := range slices.Sorted(maps.Keys(f.tables)) {
		if err := f.createCurrentView(f.tables[name]); err != nil {
			return fmt.Errorf("view of %s: %w", name, err)
		}
	}
	return nil
}

func (f *fitting) createCurrentView(t *target) error {
	name := t.Name + "_current"
	there, ours := f.c.findObject(name), f.c.views[name]
	plan, altered := f.altered[t.Name]
	switch {
	case there != nil && !(ours && there.View), f.altered[name].Create, len(name) > schemas.MaxName, load.IsInternal(t.Name):
		return nil // the name is taken, or the table gets no view
	case !f.needsCurrentView(t):
		if there == nil || !plan.ChangesMode() {
			return nil
		}
		f.ddl = true
		return f.s.Exec(f.ctx, "DROP VIEW "+f.b.Place(name))
	case there != nil && !altered, there == nil && ours && !t.empty:
		return nil // the view is up to date, or a user has dropped it
	}
	query := "SELECT " + Idents(load.Names(t.Columns)) + " FROM main." + Ident(t.Name) + " WHERE " + t.currentSQL("")
	if err := f.createView(f.ctx, name, query); err != nil {
		return err
	}
	if ours {
		return nil
	}
	return f.record(f.ctx, []load.Change{{Table: name, Action: load.ActionView, Reason: "rows of " + t.Name + " that are current"}})
}

// createView creates or replaces a view.
func (x *tx) createView(ctx context.Context, name, query string) error {
	x.ddl = true
	if err := x.s.Exec(ctx, "DROP VIEW IF EXISTS "+x.b.Place(name)); err != nil {
		return err
	}
	return x.s.Exec(ctx, "CREATE VIEW "+x.b.Place(name)+" AS "+query)
}

// needsCurrentView reports whether a table can hold rows that are no longer current.
func (f *fitting) needsCurrentView(t *target) bool {
	root := f.rootOf(t.Name)
	return t.Mode == schemas.History || t.Mode == schemas.Merge && root != nil && len(root.Key) > 0
}

// Schema returns the schema name for tables in a view's query; see [load.Viewer].
func (d *Store) Schema() string { return "" }

// View creates or replaces a view; see [load.Viewer].
func (d *Store) View(ctx context.Context, name, query string) error {
	x := &tx{db: d, b: d.b}
	defer x.Rollback()
	if err := x.view(ctx, name, query); err != nil {
		return fmt.Errorf("view %s: %w", name, err)
	}
	return nil
}

func (x *tx) view(ctx context.Context, name, query string) error {
	if err := x.take(ctx); err != nil {
		return err
	}
	c, err := x.db.readCatalog(ctx, x.s, []string{name}, false)
	if err != nil {
		return err
	}
	there, ours := c.findObject(name), c.views[name]
	if there != nil && !(ours && there.View) {
		return load.ErrTaken // Invariant 16
	}
	if err := x.createView(ctx, name, query); err != nil {
		return err
	}
	if !ours {
		if err := x.ownTables(ctx); err != nil {
			return err
		}
		if err := x.record(ctx, []load.Change{{Table: name, Action: load.ActionView, Reason: "requested"}}); err != nil {
			return err
		}
	}
	if err := x.s.Commit(ctx); err != nil {
		return err
	}
	x.finish()
	return nil
}
