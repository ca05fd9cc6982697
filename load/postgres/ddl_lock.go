package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
)

// lineFactor says how many times [Options].Wait a source waits in the line for a
// table, in which it keeps no reader from anything.
const lineFactor = 10

// alone has sources change the shape of a table that they share one after the
// other: what two would make at once, one makes. Those that wait hold no lock on a
// table, and are not held to the time that one may wait for others' locks: of many
// sources the last one waits for the commits of all before it. The line is that of
// one stream's tables, and whoever finds that there is nothing left to change
// leaves it at once, not with its commit. It returns the catalog as it is then.
//
// A catalog is read in several questions, between which another source may have
// committed a change: a table that seems to be another's doing is looked at again
// from the line, too. // Invariants 15, 16
func (m *merge) alone(c *catalog, pending []*load.Staged, swept string, names []string) (*catalog, error) {
	if m.key.Source == "" {
		return c, nil // nobody else changes them
	}
	lines := changing(c, pending, swept)
	if len(lines) == 0 {
		return c, nil
	}
	queues := make([]string, len(lines))
	for i, table := range lines {
		queues[i] = "penstock table " + m.db.o.Schema + "." + table
	}
	begun := time.Now()
	err := m.s.run(m.ctx, "SAVEPOINT penstock_line; "+m.db.queueSQL(queues...))
	m.queued += time.Since(begun)
	if err != nil {
		return nil, fmt.Errorf("wait for other sources to change %s: %w", strings.Join(lines, ", "), err)
	}
	if c, err = m.db.readCatalog(m.ctx, m.s, names); err != nil {
		return nil, err
	}
	leave := "RELEASE SAVEPOINT penstock_line"
	if len(changing(c, pending, swept)) == 0 {
		leave = "ROLLBACK TO SAVEPOINT penstock_line; " + leave // which gives up its locks
	}
	return c, m.s.run(m.ctx, leave)
}

// queueSQL waits in the lines of these names until it is first in each.
func (d *DB) queueSQL(names ...string) string {
	sql := "SET LOCAL lock_timeout = " + millis(lineFactor*d.o.Wait)
	for _, name := range names {
		sql += "; SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(" + literal(name) + ", 0))"
	}
	return sql + "; SET LOCAL lock_timeout = " + millis(d.o.LockTimeout)
}

// changing are the root tables that would have to change for what is staged, or that
// are not as penstock has made them, or whose children are so, in the order in which
// everybody waits for them.
func changing(c *catalog, pending []*load.Staged, swept string) (roots []string) {
	for _, p := range pending {
		plan, err := load.Fit(c.made[p.Name], p.Table)
		if err != nil || c.live[p.Name] == nil || !plan.Empty() || c.altered(p.Name) {
			roots = append(roots, rootOf(p.Name))
		}
	}
	if swept != "" && c.live[swept] != nil && c.altered(swept) {
		roots = append(roots, rootOf(swept))
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}
