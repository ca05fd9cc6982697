package sqlmerge

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/load"
)

// serialize makes sources that share a table change its columns one after another, so that each change is made only
// once. Each root table has a lock for this. While a source waits for this lock, the source holds no lock on the table.
// If the other sources have already made the changes, serialize releases the lock at once. Otherwise the commit
// releases it. The catalog is read again after the wait.
//
// Several queries read the catalog, and another source may commit a change between them. So a table that seems to
// have been changed by hand is checked again under the lock. // Invariants 15, 16
func (c *catalog) serialize(ctx context.Context, s Session, pending []*load.Staged, swept string, names []string) error {
	pooled, ok := s.(PooledSession)
	if !ok {
		return nil // no other transaction changes the tables
	}
	roots := c.rootsToChange(pending, swept)
	if len(roots) == 0 {
		return nil
	}
	locks := make([]string, len(roots))
	for i, root := range roots {
		locks[i] = "table " + root
	}
	leave, err := pooled.Lock(ctx, locks...)
	if err != nil {
		return err
	}
	c.reset()
	if err := c.read(ctx, names...); err != nil {
		return err
	}
	return leave(len(c.rootsToChange(pending, swept)) == 0)
}

// rootsToChange returns the names of the root tables that must change for the staged rows, or that seem to have been
// changed by hand. For a child table, it returns the name of the child's root table. The names are sorted, so that
// all sources wait for locks in the same order.
func (c *catalog) rootsToChange(pending []*load.Staged, swept string) (roots []string) {
	for _, p := range pending {
		plan, err := load.Fit(c.made[p.Name], p.Table)
		if err != nil || c.live[p.Name] == nil || !plan.Empty() || c.foreign(p.Name) {
			roots = append(roots, c.rootOf(p.Name, pending))
		}
	}
	if swept != "" && c.live[swept] != nil && c.foreign(swept) {
		roots = append(roots, c.rootOf(swept, pending))
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

// The method foreign() reports whether the table looks as if it was changed by hand.
func (c *catalog) foreign(name string) bool {
	_, err := c.table(name)
	return err != nil
}

// rootOf returns the name of the root table of the named table. The root table may exist, or may be among the pending
// tables.
func (c *catalog) rootOf(name string, pending []*load.Staged) string {
	for _, n := range load.Ancestors(name) {
		t, known := c.made[n]
		if i := slices.IndexFunc(pending, func(p *load.Staged) bool { return p.Name == n }); i >= 0 {
			t, known = pending[i].Table, true
		}
		if known && !load.Child(t.Columns) {
			return n
		}
	}
	return name
}
