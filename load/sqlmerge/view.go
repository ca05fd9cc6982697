package sqlmerge

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// CreateView creates or replaces a view, for a backend that is a [load.Viewer].
func (d *Store) CreateView(ctx context.Context, name, query string) error {
	x := &tx{db: d, b: d.b, open: d.b.Write}
	defer func() { _ = x.Rollback() }()
	if err := x.view(ctx, name, query); err != nil {
		return fmt.Errorf("view %s: %w", name, err)
	}
	return nil
}

func (x *tx) view(ctx context.Context, name, query string) error {
	if err := x.take(ctx); err != nil {
		return err
	}
	if err := x.c.read(ctx, name); err != nil {
		return err
	}
	there, ours := x.c.findObject(name), x.c.views[name]
	if there != nil && !(ours && there.View) {
		return load.ErrTaken // Invariant 16
	}
	if err := x.s.View(ctx, View{Name: name, Query: query}); err != nil {
		return err
	}
	if !ours {
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
	name := t.Name + viewSuffix
	there, ours := f.c.findObject(name), f.c.views[name]
	plan, altered := f.altered[t.Name]
	switch {
	case there != nil && !(ours && there.View), f.altered[name].Create, len(name) > schemas.MaxName, load.IsInternal(t.Name):
		return nil // the name is taken, or the table gets no view
	case !f.needsCurrentView(t):
		if there == nil || !plan.ChangesMode() {
			return nil
		}
		delete(f.c.live, name)
		return f.s.View(f.ctx, View{Name: name})
	case there != nil && !altered, there == nil && ours && !t.empty && !(altered && f.db.traits.ViewsBlock):
		return nil // the view is up to date, or a user has dropped it
	}
	f.c.live[name] = &Object{View: true}
	v := View{Name: name, Comment: "the rows of " + t.Name + " that are current"}
	v.Query = "SELECT " + Idents(inOrder(there, load.Names(t.Columns))) + " FROM " + f.b.ViewPlace(t.Name) + " WHERE " + t.currentSQL("")
	if err := f.s.View(f.ctx, v); err != nil {
		return err
	}
	if ours {
		return nil
	}
	return f.record(f.ctx, []load.Change{{Table: name, Action: load.ActionView, Reason: v.Comment}})
}

// inOrder returns the columns of a view in an order in which it can be replaced: first those of the existing view.
// Postgres can add columns to a view, but not change the place of a column.
func inOrder(view *Object, columns []string) []string {
	if view == nil {
		return columns
	}
	var out []string
	for _, c := range view.Columns {
		if slices.Contains(columns, c) {
			out = append(out, c)
		}
	}
	for _, c := range columns {
		if !slices.Contains(view.Columns, c) {
			out = append(out, c)
		}
	}
	return out
}

// needsCurrentView reports whether a table can hold rows that are no longer current.
func (f *fitting) needsCurrentView(t *target) bool {
	root := f.rootOf(t.Name)
	return t.Mode == schemas.History || t.Mode == schemas.Merge && root != nil && len(root.Key) > 0
}
