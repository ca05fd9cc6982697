package sqlmerge

import (
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// In a table without a key, two rows with the same hash differ only in the time at which they were written. So only
// the number of rows per hash is compared.

// keptRows is a temporary table with the number of rows n that were passed to Write for each hash h. A pass over a
// table without a key has only one transaction.
const keptRows = "_penstock_kept"

// createKeptRows creates the table of kept rows for this transaction if it has not done so yet.
func (m *merge) createKeptRows() error {
	if m.kept {
		return nil
	}
	m.kept = true
	return m.temporary(keptRows, "(h "+m.b.Type(schemas.Text)+", n "+m.b.Type(schemas.Int64)+")")
}

// keptByHash is a query for the numbers of kept rows.
func (m *merge) keptByHash() string {
	return "SELECT h, sum(n) AS n FROM " + m.b.Temp(keptRows) + " GROUP BY h"
}

// keyless compares the numbers of rows per hash. If the pass has more rows of a hash than the table, keyless appends
// the additional rows.
func (m *merge) keyless(t *target) error {
	if err := m.b.Step("stage"); err != nil {
		return err
	}
	if err := m.createKeptRows(); err != nil {
		return err
	}
	err := m.s.Stage(m.ctx, t.staged, t.Columns, []string{schemas.ColHash, schemas.ColOrdinal}, func(from string) error {
		return m.temporary(status, fmt.Sprintf(`AS SELECT s.h, s.o, CASE WHEN s.i + coalesce(k.n, 0) <= coalesce(t.n, 0) THEN %s ELSE %s END AS st
			FROM (SELECT %[3]s AS h, %[4]s AS o, row_number() OVER (PARTITION BY %[3]s ORDER BY %[4]s) AS i FROM %[5]s AS r) AS s
			LEFT JOIN (%[6]s) AS k ON k.h = s.h LEFT JOIN (%[7]s) AS t ON t.h = s.h`,
			isUnchanged, isNew, schemas.ColHash, schemas.ColOrdinal, from, m.keptByHash(), m.countByHash(t)))
	})
	if err != nil {
		return err
	}
	if err := m.s.Exec(m.ctx, "INSERT INTO "+m.b.Temp(keptRows)+" SELECT h, count(*) FROM "+m.b.Temp(status)+" GROUP BY h"); err != nil {
		return err
	}
	var n counts
	if err := numbers(m.ctx, m.s, "SELECT count(*), "+countIf("st = "+isNew)+" FROM "+m.b.Temp(status), &n.staged, &n.fresh); err != nil {
		return err
	}
	m.out.Written += n.fresh
	m.out.Inserted += n.fresh
	m.out.Unchanged += n.staged - n.fresh
	if err := m.logWritten(t, n); err != nil {
		return err
	}
	return m.insertFamily(t, n)
}

// countByHash returns a query that counts the rows of t by hash, in History only the current ones.
func (m *merge) countByHash(t *target) string {
	where := ""
	if t.Mode == schemas.History {
		where = " AND " + t.currentSQL("t.")
	}
	return fmt.Sprintf("SELECT t.%s AS h, count(*) AS n FROM %s%s GROUP BY 1", schemas.ColHash, m.ownRows(t), where)
}

// sweepKeyless counts the surplus rows: if the table has more rows of a hash than the pass, the difference is surplus.
// If s.Delete is set, it deletes them.
func (m *merge) sweepKeyless(t *target, s load.Sweep) error {
	if err := m.createKeptRows(); err != nil {
		return err
	}
	err := m.temporary(missing, fmt.Sprintf("AS SELECT t.h, coalesce(k.n, 0) AS n, t.n - coalesce(k.n, 0) AS spare FROM (%s) AS t "+
		"LEFT JOIN (%s) AS k ON k.h = t.h WHERE t.n > coalesce(k.n, 0)", m.countByHash(t), m.keptByHash()))
	if err != nil {
		return err
	}
	err = numbers(m.ctx, m.s, fmt.Sprintf("SELECT %s, (SELECT coalesce(sum(spare), 0) FROM %s) FROM %s",
		countIf(t.currentSQL("t.")), m.b.Temp(missing), m.ownRows(t)), &m.out.Alive, &m.out.Missing)
	if err != nil {
		return err
	}
	m.out.Known = true
	if !s.Delete || m.out.Missing == 0 {
		return nil
	}
	m.out.Deleted = m.out.Missing
	for _, c := range append(m.children(t), t) {
		if err := m.trim(c); err != nil {
			return fmt.Errorf("trim %s: %w", c.Name, err)
		}
	}
	return nil
}

// surplus is a temporary table with the ids of the surplus rows of a table.
const surplus = "_penstock_spare"

// surplusSQL returns a query for the ids of the surplus rows of t.
func (m *merge) surplusSQL(t *target) string {
	counted := all + m.ownRowsSQL(t, "t.")
	if t.Mode == schemas.History {
		counted += " AND " + t.currentSQL("t.")
	}
	return SurplusSQL(t.Table, m.b.Place(t.Name), m.b.RowID(), m.b.Temp(missing), counted)
}

// SurplusSQL returns a query for the column id of the surplus rows t of a table without a key. Of a child table, these
// are the rows of surplus root rows. The parameters place and missing are the qualified names of the table and of the
// temporary table of missing rows, and counted is the condition that a row t was counted.
//
// Equal root rows may have equal links, because ordinals start again with each pass. The numbers twin then distinguish
// their child rows.
func SurplusSQL(t schemas.Table, place, id, missing, counted string) string {
	rank, link, twin := "row_number() OVER (PARTITION BY h ORDER BY y, id)", "NULL", "1"
	if load.Child(t.Columns) {
		link = "t." + load.RootKeyColumn(t.Columns)
		rank = "dense_rank() OVER (PARTITION BY h ORDER BY link, twin)"
		twin = fmt.Sprintf("row_number() OVER (PARTITION BY t.%s, %s, t.%s, t.%s ORDER BY t.%s)",
			schemas.ColHash, link, schemas.ColParent, schemas.ColIndex, id)
	}
	return fmt.Sprintf("SELECT id FROM (SELECT id, n, %s AS i FROM (SELECT t.%s AS id, s.h, s.n, t.%s AS y, %s AS link, %s AS twin FROM %s AS t JOIN %s AS s ON s.h = t.%s WHERE %s) AS t) AS t WHERE i > n",
		rank, id, schemas.ColSyncedAt, link, twin, place, missing, schemas.ColHash, counted)
}

// trim deletes the surplus rows of t, or ends them in History.
func (m *merge) trim(t *target) error {
	if err := m.temporary(surplus, "AS "+m.surplusSQL(t)); err != nil {
		return err
	}
	if err := m.logSurplus(t); err != nil {
		return err
	}
	if t.Mode != schemas.History {
		return m.change(t.Name, fmt.Sprintf("DELETE FROM %s AS t WHERE %s", m.b.Place(t.Name), m.isSurplus()))
	}
	at := m.until(m.b.Timestamp(m.when))
	return m.change(t.Name, fmt.Sprintf("UPDATE %s AS t SET %s, %s = %s, %s = %[4]s WHERE %[6]s",
		m.b.Place(t.Name), m.synced(), schemas.ColValidTo, at, schemas.ColDeletedAt, m.isSurplus()))
}

// isSurplus returns the condition that a row t is surplus.
func (m *merge) isSurplus() string {
	return fmt.Sprintf("t.%s IN (SELECT id FROM %s)", m.b.RowID(), m.b.Temp(surplus))
}
