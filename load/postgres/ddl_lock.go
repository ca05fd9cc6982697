package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
)

// lockWaitFactor limits how long a source waits for other sources that change the same table: this many times
// [Options].Wait. Such a wait blocks no reader.
const lockWaitFactor = 10

// serializeDDL makes sources that share a table change its columns one after another, so that each change is made
// only once. Each root table has an advisory lock for this. While a source waits for it, it holds no lock on the
// table. The wait may be longer than for other locks, because the last of many sources waits for the commits of all
// others. If the other sources have already made the changes, serializeDDL releases the lock at once. Otherwise the
// commit releases it. The returned catalog was read after the wait.
//
// Several queries read the catalog, and another source may commit a change between them. So a table that seems to
// have been changed by hand is checked again under the lock. // Invariants 15, 16
func (m *merge) serializeDDL(c *catalog, pending []*load.Staged, swept string, names []string) (*catalog, error) {
	if m.key.Source == "" {
		return c, nil // no other source changes the tables
	}
	lines := rootsToChange(c, pending, swept)
	if len(lines) == 0 {
		return c, nil
	}
	queues := make([]string, len(lines))
	for i, table := range lines {
		queues[i] = "penstock table " + m.db.o.Schema + "." + table
	}
	begun := time.Now()
	err := m.s.run(m.ctx, "SAVEPOINT penstock_line; "+m.db.advisoryLockSQL(queues...))
	m.queued += time.Since(begun)
	if err != nil {
		return nil, fmt.Errorf("wait for other sources to change %s: %w", strings.Join(lines, ", "), err)
	}
	if c, err = m.db.readCatalog(m.ctx, m.s, names); err != nil {
		return nil, err
	}
	leave := "RELEASE SAVEPOINT penstock_line"
	if len(rootsToChange(c, pending, swept)) == 0 {
		leave = "ROLLBACK TO SAVEPOINT penstock_line; " + leave // releases the locks
	}
	return c, m.s.run(m.ctx, leave)
}

// advisoryLockSQL returns SQL that waits for the advisory locks with the given names.
func (d *DB) advisoryLockSQL(names ...string) string {
	sql := "SET LOCAL lock_timeout = " + millis(lockWaitFactor*d.o.Wait)
	for _, name := range names {
		sql += "; SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(" + literal(name) + ", 0))"
	}
	return sql + "; SET LOCAL lock_timeout = " + millis(d.o.LockTimeout)
}

// rootsToChange returns the names of the root tables that must change for the staged rows, or that seem to have been
// changed by hand. For a child table of this kind, rootsToChange returns the root table. The names are sorted, so that
// all sources wait for locks in the same order.
func rootsToChange(c *catalog, pending []*load.Staged, swept string) (roots []string) {
	for _, p := range pending {
		plan, err := load.Fit(c.made[p.Name], p.Table)
		if err != nil || c.live[p.Name] == nil || !plan.Empty() || c.altered(p.Name) {
			roots = append(roots, c.rootOf(p.Name, pending))
		}
	}
	if swept != "" && c.live[swept] != nil && c.altered(swept) {
		roots = append(roots, c.rootOf(swept, pending))
	}
	slices.Sort(roots)
	return slices.Compact(roots)
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
