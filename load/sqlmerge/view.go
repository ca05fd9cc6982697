package sqlmerge

import (
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

// recreateView recreates the view of a table, because the old view may use a column that is gone.
func (f *fitting) recreateView(t schemas.Table) error {
	f.altered[t.Name] = load.Plan{Table: t, OldMode: t.Mode}
	return f.createCurrentView(&target{Table: t, in: f.in})
}

func (f *fitting) createCurrentView(t *target) error {
	name := t.Name + viewSuffix
	there, ours := f.c.findObject(name), f.c.views[name]
	plan, altered := f.altered[t.Name]
	switch {
	case there != nil && !(ours && there.View), f.altered[name].Create, len(name) > schemas.MaxName, load.IsInternal(t.Name):
		return nil // another object has the name of the view, or the table gets no view
	case !f.needsCurrentView(t):
		if there == nil || !plan.ChangesMode() {
			return nil
		}
		delete(f.c.live, name)
		return f.sql.View(f.sql.ctx, View{Name: name})
	case there != nil && !altered, there == nil && ours && !t.empty && !(altered && f.in.traits.ViewsBlock):
		return nil // the view is up to date, or a user has dropped it
	}
	f.c.live[name] = &Object{View: true}
	v := View{Name: name, Comment: "the rows of " + t.Name + " that are current"}
	v.Query = "SELECT " + Idents(inOrder(there, load.Names(t.Columns))) + " FROM " + f.in.ViewPlace(t.Name) + " WHERE " + t.current("")
	if err := f.sql.View(f.sql.ctx, v); err != nil {
		return err
	}
	if ours {
		return nil
	}
	return f.c.record(f.sql, []load.Change{{Table: name, Action: load.ActionView, Reason: v.Comment}})
}

// inOrder returns the columns of a view. The columns of the existing view come first, in their present order, because
// Postgres can add columns to a view, but cannot change the position of a column.
func inOrder(view *Object, columns []string) []string {
	if view == nil {
		return columns
	}
	kept := slices.DeleteFunc(slices.Clone(view.Columns), func(c string) bool { return !slices.Contains(columns, c) })
	return append(kept, slices.DeleteFunc(columns, func(c string) bool { return slices.Contains(kept, c) })...)
}

// needsCurrentView reports whether a table can hold rows that are no longer current.
func (f *fitting) needsCurrentView(t *target) bool {
	root := f.tables.rootOf(t.Name)
	return t.Mode == schemas.History || t.Mode == schemas.Merge && root != nil && len(root.Key) > 0
}
