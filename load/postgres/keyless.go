package postgres

import (
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// In a table without a key, two rows with the same hash differ only in the time at which they were written. So only
// the number of rows per hash is compared.

// keptRows is a temporary table with the number of rows n that were passed to Write for each hash h. A pass over a
// table without a key has only one transaction.
const keptRows = "pg_temp.penstock_kept"

// createKeptRows creates the table of kept rows for this transaction if it has not done so yet.
func (m *merge) createKeptRows() error {
	if m.kept {
		return nil
	}
	m.kept = true
	return m.s.run(m.ctx, temporary(keptRows, "(h text, n bigint) ON COMMIT DROP"))
}

// countedSQL returns the condition that a row t is compared with the rows of the pass. In History these are only the
// current rows.
func (m *merge) countedSQL(t *target) string {
	if t.Mode == schemas.History {
		return "t." + t.ended() + " IS NULL" + m.ownRowsSQL(t)
	}
	return "true" + m.ownRowsSQL(t)
}

// keyless compares the numbers of rows per hash. If the pass has more rows of a hash than the table, keyless appends
// the additional rows.
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

// sweepKeyless counts the surplus rows: if the table has more rows of a hash than the pass, the difference is surplus.
// If s.Delete is set, it deletes them.
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
		if err := m.trim(c, "t."+ident(load.RootKeyColumn(c.Columns))); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	if err := m.logTrimmed(t); err != nil {
		return err
	}
	return m.trim(t, "")
}

// trim deletes the surplus rows of t, or ends them in History. For a child table, parent is the column with the link to
// the root row, and the surplus rows are the child rows of surplus root rows. For a root table, parent is "".
func (m *merge) trim(t *target, parent string) error {
	spare := m.surplusSQL(t, parent)
	if t.Mode == schemas.History {
		at := timestamp(m.when)
		return m.s.run(m.ctx, "UPDATE "+m.db.place(t.Name)+" AS t SET "+m.synced()+", "+ident(schemas.ColValidTo)+" = "+at+", "+ident(schemas.ColDeletedAt)+" = "+at+
			" WHERE t.ctid = ANY (ARRAY("+spare+"))")
	}
	return m.s.run(m.ctx, "DELETE FROM "+m.db.place(t.Name)+" AS t WHERE t.ctid = ANY (ARRAY("+spare+"))")
}

// surplusSQL returns a query for the ctids of the surplus rows. Equal root rows may have equal links, because ordinals
// start again with each pass. The numbers twin then distinguish their child rows.
func (m *merge) surplusSQL(t *target, parent string) string {
	hash := "t." + ident(schemas.ColHash)
	rank, link, twin := "row_number() OVER (PARTITION BY h ORDER BY y, tid)", "NULL", "1"
	if parent != "" {
		rank, link = "dense_rank() OVER (PARTITION BY h ORDER BY link, twin)", parent
		twin = fmt.Sprintf("row_number() OVER (PARTITION BY %s, %s, t.%s, t.%s ORDER BY t.ctid)", hash, parent, ident(schemas.ColParent), ident(schemas.ColIndex))
	}
	return fmt.Sprintf("SELECT tid FROM (SELECT tid, n, %s AS place FROM (SELECT t.ctid AS tid, s.h, s.n, t.%s AS y, %s AS link, %s AS twin FROM %s AS t JOIN %s AS s ON s.h = %s WHERE %s) AS t) AS t WHERE place > n",
		rank, ident(schemas.ColSyncedAt), link, twin, m.db.place(t.Name), missingRows, hash, m.countedSQL(t))
}
