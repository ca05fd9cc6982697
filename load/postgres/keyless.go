package postgres

import (
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// In a table without a key, two rows with the same hash differ only in the time of writing. So only the numbers of
// rows per hash are compared.

// keptRows is a temporary table. For each hash h, it has the number n of rows that were passed to Write. It can be
// temporary, because a pass over a table without a key has only one transaction.
const keptRows = "pg_temp.penstock_kept"

// createKeptRows creates the table keptRows if this transaction does not have it yet.
func (m *merge) createKeptRows() error {
	if m.kept {
		return nil
	}
	m.kept = true
	return m.s.run(m.ctx, temporary(keptRows, "(h text, n bigint) ON COMMIT DROP"))
}

// countedSQL returns the condition that a row t is counted. With History, only current rows are.
func (m *merge) countedSQL(t *target) string {
	if t.Mode == schemas.History {
		return "t." + t.ended() + " IS NULL" + m.ownRowsSQL(t)
	}
	return "true" + m.ownRowsSQL(t)
}

// keyless compares the numbers of rows per hash. If the pass has more rows with a hash than the table, the additional
// rows are appended.
func (m *merge) keyless(t *target) error {
	if err := m.db.step("stage"); err != nil {
		return err
	}
	if err := m.createKeptRows(); err != nil {
		return err
	}
	if err := m.copyKeys(t, nil); err != nil {
		return err
	}
	hash := ident(schemas.ColHash)
	stored := "SELECT t." + hash + " AS h, count(*) AS n FROM " + m.db.place(t.Name) + " AS t WHERE " + m.countedSQL(t) +
		" AND t." + hash + " IN (SELECT h FROM " + stagedKeys + ") GROUP BY 1"
	err := m.s.run(m.ctx, temporary(status, "ON COMMIT DROP AS SELECT s.h, s.o, s.y, CASE WHEN s.i + coalesce(k.n, 0) <= coalesce(t.n, 0) THEN "+
		isUnchanged+" ELSE "+isNew+" END AS st FROM (SELECT h, o, y, row_number() OVER (PARTITION BY h ORDER BY o) AS i FROM "+stagedKeys+") AS s "+
		"LEFT JOIN (SELECT h, sum(n) AS n FROM "+keptRows+" GROUP BY h) AS k USING (h) LEFT JOIN ("+stored+") AS t USING (h)"))
	if err != nil {
		return err
	}
	if err := m.s.run(m.ctx, "INSERT INTO "+keptRows+" SELECT h, count(*) FROM "+status+" GROUP BY h"); err != nil {
		return err
	}
	var n counts
	if err := m.s.numbers(m.ctx, "SELECT count(*), count(*) FILTER (WHERE st = "+isNew+") FROM "+status, &n.staged, &n.fresh); err != nil {
		return err
	}
	m.out.Written += n.fresh
	m.out.Inserted += n.fresh
	m.out.Unchanged += n.staged - n.fresh
	if n.fresh == 0 {
		return nil
	}
	written, err := m.selectOrdinals(t, "st = "+isNew, n.fresh)
	if err != nil {
		return err
	}
	if err := m.db.step("insert"); err != nil {
		return err
	}
	if err := m.insertFamily(t, written); err != nil {
		return err
	}
	return m.logKeyless(t)
}

// sweepKeyless counts the surplus rows: those that the table has beyond the rows of the pass with the same hash. If
// s.Delete is set, it deletes them.
func (m *merge) sweepKeyless(t *target, s load.Sweep) error {
	if err := m.createKeptRows(); err != nil {
		return err
	}
	hash := ident(schemas.ColHash)
	stored := "SELECT t." + hash + " AS h, count(*) AS n FROM " + m.db.place(t.Name) + " AS t WHERE " + m.countedSQL(t) + " GROUP BY 1"
	err := m.s.run(m.ctx, temporary(missingRows, "ON COMMIT DROP AS SELECT t.h, coalesce(k.n, 0) AS n, t.n - coalesce(k.n, 0) AS spare FROM ("+stored+") AS t "+
		"LEFT JOIN (SELECT h, sum(n) AS n FROM "+keptRows+" GROUP BY h) AS k USING (h) WHERE t.n > coalesce(k.n, 0)"))
	if err != nil {
		return err
	}
	err = m.s.numbers(m.ctx, "SELECT count(*), (SELECT coalesce(sum(spare), 0) FROM "+missingRows+") FROM "+m.db.place(t.Name)+" AS t WHERE "+m.countedSQL(t),
		&m.out.Alive, &m.out.Missing)
	if err != nil {
		return err
	}
	m.out.Known = true
	if t.Mode == schemas.Append {
		m.out.Missing = 0
	}
	if !s.Delete || m.out.Missing == 0 {
		return nil
	}
	m.out.Deleted = m.out.Missing
	for _, c := range m.children(t) {
		if err := m.trim(c); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	if err := m.logTrimmed(t); err != nil {
		return err
	}
	return m.trim(t)
}

// trim deletes the surplus rows of t. With History, it ends their validity instead.
func (m *merge) trim(t *target) error {
	table, surplus := m.db.place(t.Name), m.isSurplus(t)
	if t.Mode != schemas.History {
		return m.s.run(m.ctx, "DELETE FROM "+table+" AS t WHERE "+surplus)
	}
	at := timestamp(m.commitTime)
	return m.s.run(m.ctx, "UPDATE "+table+" AS t SET "+m.synced()+", "+ident(schemas.ColValidTo)+" = "+at+", "+ident(schemas.ColDeletedAt)+" = "+at+" WHERE "+surplus)
}

// isSurplus returns the condition that a row t is surplus. It uses = ANY instead of IN, because the planner then
// finds the rows by their ctids.
func (m *merge) isSurplus(t *target) string {
	return "t.ctid = ANY (ARRAY(" + sqlmerge.SurplusSQL(t.Table, m.db.place(t.Name), "ctid", missingRows, m.countedSQL(t)) + "))"
}
