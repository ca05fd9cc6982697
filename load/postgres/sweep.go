package postgres

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// missingRows is a temporary table with the missing rows. Its columns are the key (k0, k1…), the ctid (tid) and the
// start of the row's validity (since). For a table without a key, it has one row for each hash with surplus rows. The
// columns are then the hash (h), the number of rows that stay (n) and the number of surplus rows (spare).
const missingRows = "pg_temp.penstock_missing"

// sweep counts the rows that the pass has neither written nor found unchanged. If s.Delete is set, it deletes them.
// Invariant 12
func (m *merge) sweep(s load.Sweep) error {
	if s.Table == "" {
		return nil
	}
	if err := m.db.step("sweep"); err != nil {
		return err
	}
	t := m.tables[s.Table]
	var err error
	switch {
	case t == nil:
		m.out.Known = true
	case len(t.Key) == 0:
		err = m.sweepKeyless(t, s)
	default:
		err = m.sweepKeyed(t, s)
	}
	if err != nil {
		return fmt.Errorf("sweep %s: %w", s.Table, err)
	}
	return nil
}

func (m *merge) sweepKeyed(t *target, s load.Sweep) error {
	live := "t." + t.ended() + " IS NULL" + m.ownRowsSQL(t)
	if t.Mode == schemas.Append {
		m.out.Known = true
		return m.s.numbers(m.ctx, "SELECT count(*) FROM "+m.db.place(t.Name)+" AS t WHERE "+live, &m.out.Alive)
	}
	from, gone, err := m.missingSQL(t, s)
	if err != nil {
		return err
	}
	// Usually no row is missing, and one scan of the table is enough.
	err = m.s.numbers(m.ctx, "SELECT count(*), count(*) FILTER (WHERE "+gone+") FROM "+from+" WHERE "+live, &m.out.Alive, &m.out.Missing)
	if err == nil && m.out.Missing > 0 {
		err = m.createMissing(t, from+" WHERE "+live+" AND "+gone)
	}
	if err != nil {
		return err
	}
	m.db.mu.Lock()
	lost := m.pass.lost
	m.db.mu.Unlock()
	m.out.Known = m.out.Missing == 0 || m.of.Whole && !lost || s.Keys != nil
	if err := m.list(t, s.List); err != nil {
		return err
	}
	if !s.Delete || !m.out.Known || m.out.Missing == 0 {
		return nil
	}
	m.out.Deleted = m.out.Missing
	if err := m.logMissing(t); err != nil {
		return err
	}
	if err := m.db.step("bury"); err != nil {
		return err
	}
	return m.markDeleted(t)
}

// missingSQL returns a FROM item, and the condition that a row of it is missing. The item joins the table with the
// carried keys. If [load.Sweep].Keys is set, it joins the table with these keys instead.
func (m *merge) missingSQL(t *target, s load.Sweep) (from, gone string, err error) {
	from = m.db.place(t.Name) + " AS t"
	if s.Keys != nil {
		if err := m.copySweepKeys(t, s.Keys); err != nil {
			return "", "", err
		}
		keys := strings.Join(keyColumns("", t.Key), ", ")
		return from + " LEFT JOIN (SELECT DISTINCT " + keys + " FROM " + stagedKeys + ") AS c ON " + on("c", t.Key), "c.k0 IS NOT NULL", nil
	}
	gone = "NOT coalesce(t." + ident(schemas.ColRun) + ` COLLATE "C" >= ` + literal(m.of.Run) + ", false)"
	gone += " AND NOT (" + m.carriedRangeSQL(t) + ")"
	if m.carried == nil {
		return from, gone, nil
	}
	if err := m.castCarried(t); err != nil {
		return "", "", err
	}
	whole, err := m.complete(m.carried)
	if err != nil {
		return "", "", err
	}
	if !whole { // the server has crashed // Invariant 12
		m.db.markLost(m.pass)
	}
	// Without statistics, the planner assumes that many keys are equal.
	err = m.s.run(m.ctx, "ANALYZE "+m.carried.table)
	return from + " LEFT JOIN " + m.carried.table + " AS c ON " + on("c", t.Key), gone + " AND c.k0 IS NULL", err
}

// createMissing creates the table of missing rows.
func (m *merge) createMissing(t *target, from string) error {
	keys, since := "", "NULL::timestamptz"
	for i, k := range t.Key {
		keys += fmt.Sprintf("t.%s AS k%d, ", ident(k), i)
	}
	if t.Mode == schemas.History {
		since = "t." + ident(schemas.ColValidFrom)
	}
	return m.s.run(m.ctx, temporary(missingRows, "ON COMMIT DROP AS SELECT "+keys+"t.ctid AS tid, "+since+" AS since FROM "+from))
}

// copySweepKeys copies the keys of the sweep to the server. The caller has confirmed at the source that these records
// are gone.
func (m *merge) copySweepKeys(t *target, keys []arrow.RecordBatch) error {
	named := *t
	named.staged, named.subset = &load.Staged{Table: schemas.Table{Name: t.Name}}, nil
	defer named.staged.Release()
	for _, b := range keys {
		if err := named.staged.Add(b); err != nil {
			return err
		}
	}
	return m.copyKeys(&named, t.Key)
}

// list adds the keys of up to n missing rows to the outcome.
func (m *merge) list(t *target, n int) error {
	if n == 0 || m.out.Missing == 0 {
		return nil
	}
	schema, err := load.Select(t.Columns, t.Key)
	if err != nil {
		return err
	}
	query := fmt.Sprintf("SELECT %s FROM %s LIMIT %d", strings.Join(keyColumns("", t.Key), ", "), missingRows, n)
	return m.s.typed(m.ctx, query, schema, func(b arrow.RecordBatch) error {
		b.Retain()
		m.out.Keys = append(m.out.Keys, b)
		return nil
	})
}

// markDeleted deletes the missing rows and their child rows. How it does that depends on the table's mode.
func (m *merge) markDeleted(t *target) error {
	table, at := m.db.place(t.Name), timestamp(m.commitTime)
	deleted := ident(schemas.ColDeletedAt)
	located := " FROM " + missingRows + " AS s WHERE t.ctid = s.tid"
	var sql string
	switch t.Mode {
	case schemas.History:
		if err := m.endChildren(t, missingRows+" AS s", at, true); err != nil {
			return err
		}
		until := "greatest(" + at + ", s.since)"
		sql = "UPDATE " + table + " AS t SET " + m.synced() + ", " + t.ended() + " = " + until + ", " + deleted + " = " + until + located
	case schemas.Replace:
		if err := m.execOnChildren(t, "DELETE FROM %s AS t USING (%s) AS s WHERE s.l = %s"); err != nil {
			return err
		}
		sql = "DELETE FROM " + table + " AS t USING " + missingRows + " AS s WHERE t.ctid = s.tid"
	default:
		if err := m.execOnChildren(t, "UPDATE %s AS t SET "+m.synced()+", "+deleted+" = "+at+" FROM (%s) AS s WHERE s.l = %s"); err != nil {
			return err
		}
		sql = "UPDATE " + table + " AS t SET " + m.synced() + ", " + deleted + " = " + at + located
	}
	done, err := m.s.affect(m.ctx, sql)
	return checkCount(done, m.out.Missing, err)
}

// execOnChildren runs a statement on the child rows of the missing rows. The statement has three placeholders: the
// child table, a query whose column l has the links of the missing rows, and the expression for the link of a child
// row.
func (m *merge) execOnChildren(t *target, sql string) error {
	for _, c := range m.children(t) {
		key, link := m.linkOf(t, c)
		if err := m.s.run(m.ctx, fmt.Sprintf(sql, m.db.place(c.Name), "SELECT "+key+" AS l FROM "+missingRows, link)+m.ownRowsSQL(c)); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}
