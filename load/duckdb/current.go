//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// createCurrentViews creates the <table>_current views of the current rows, and recreates them if columns have changed.
// The views name their columns, so that columns added by users do not break them.
func (f *fitting) createCurrentViews() error {
	for _, name := range slices.Sorted(maps.Keys(f.merge.tables)) {
		if err := f.createCurrentView(f.merge.tables[name]); err != nil {
			return fmt.Errorf("view of %s: %w", name, err)
		}
	}
	return nil
}

func (f *fitting) createCurrentView(t *target) error {
	name := t.Name + "_current"
	there, ours := f.findObject(name), f.views[name]
	plan, altered := f.altered[t.Name]
	switch {
	case there != nil && !(ours && there.view), f.altered[name].Create, len(name) > schemas.MaxName, load.IsInternal(t.Name):
		return nil // the name is taken, or the table gets no view
	case !f.needsCurrentView(t):
		if there == nil || !plan.ChangesMode() {
			return nil
		}
		f.ddl = true
		return f.s.exec(f.ctx, "DROP VIEW "+place(name))
	case there != nil && !altered, there == nil && ours && !t.empty:
		return nil // the view is up to date, or a user has dropped it
	}
	f.ddl = true
	q := fmt.Sprintf("CREATE OR REPLACE VIEW %s AS SELECT %s FROM main.%s WHERE %s", place(name), idents(load.Names(t.Columns)), ident(t.Name), t.currentSQL(""))
	if err := f.s.exec(f.ctx, q); err != nil {
		return err
	}
	if ours {
		return nil
	}
	return f.recorder.record(f.ctx, []load.Change{{Table: name, Action: load.ActionView, Reason: "rows of " + t.Name + " that are current"}})
}

// needsCurrentView reports whether a table can hold rows that are no longer current.
func (f *fitting) needsCurrentView(t *target) bool {
	root := f.rootOf(t.Name)
	return t.Mode == schemas.History || t.Mode == schemas.Merge && root != nil && len(root.Key) > 0
}

// findObject returns the table or view of that name, ignoring case.
func (c *catalog) findObject(name string) *object {
	for n, o := range c.live {
		if strings.EqualFold(n, name) {
			return o
		}
	}
	return nil
}
