//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// In a table without a key, two rows with the same hash differ only in the time at which they were written. So only
// the number of rows per hash is compared.

// keptRows is a temporary table with the number of rows n that were passed to Write for each hash h. A pass over a
// table without a key has only one transaction.
const keptRows = "temp.main._penstock_kept"

// createKeptRows creates the table of kept rows for this transaction if it has not done so yet.
func (m *merge) createKeptRows() error {
	if m.kept {
		return nil
	}
	m.kept = true
	return m.s.exec(m.ctx, "CREATE OR REPLACE TEMP TABLE _penstock_kept (h VARCHAR, n BIGINT)")
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
	err := m.scan(t.staged, t.Columns, []string{schemas.ColHash, schemas.ColOrdinal}, func(from string) error {
		return m.s.exec(m.ctx, fmt.Sprintf(`CREATE OR REPLACE TEMP TABLE _penstock_status AS
			SELECT s.h, s.o, CASE WHEN s.i + coalesce(k.n, 0) <= coalesce(t.n, 0) THEN %s ELSE %s END AS st
			FROM (SELECT %[3]s AS h, %[4]s AS o, row_number() OVER (PARTITION BY %[3]s ORDER BY %[4]s) AS i FROM %[5]s) AS s
			LEFT JOIN (SELECT h, sum(n) AS n FROM %[6]s GROUP BY h) AS k USING (h)
			LEFT JOIN (%[7]s) AS t USING (h)`,
			isUnchanged, isNew, schemas.ColHash, schemas.ColOrdinal, from, keptRows, m.countByHash(t)))
	})
	if err != nil {
		return err
	}
	if err := m.s.exec(m.ctx, "INSERT INTO "+keptRows+" SELECT h, count(*) FROM "+status+" GROUP BY h"); err != nil {
		return err
	}
	var n counts
	if err := m.s.numbers(m.ctx, "SELECT count(*), count_if(st = "+isNew+") FROM "+status, &n.staged, &n.fresh); err != nil {
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
		where = " WHERE " + t.currentSQL("")
	}
	return fmt.Sprintf("SELECT %s AS h, count(*) AS n FROM %s%s GROUP BY 1", schemas.ColHash, m.ownRelation(t), where)
}

// sweepKeyless counts the surplus rows: if the table has more rows of a hash than the pass, the difference is surplus.
// If s.Delete is set, it deletes them.
func (m *merge) sweepKeyless(t *target, s load.Sweep) error {
	if err := m.createKeptRows(); err != nil {
		return err
	}
	err := m.s.exec(m.ctx, fmt.Sprintf(`CREATE OR REPLACE TEMP TABLE _penstock_missing AS
		SELECT t.h, coalesce(k.n, 0) AS n, t.n - coalesce(k.n, 0) AS spare FROM (%s) AS t
		LEFT JOIN (SELECT h, sum(n) AS n FROM %s GROUP BY h) AS k USING (h) WHERE t.n > coalesce(k.n, 0)`, m.countByHash(t), keptRows))
	if err != nil {
		return err
	}
	err = m.s.numbers(m.ctx, fmt.Sprintf("SELECT count_if(%s), (SELECT coalesce(sum(spare), 0) FROM %s) FROM %s",
		t.currentSQL(""), missingKeys, m.ownRelation(t)), &m.out.Alive, &m.out.Missing)
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

// trim removes the surplus rows of t. It deletes all rows of the hashes that have surplus rows, and inserts those again
// that stay. Of a child table, these are the rows of the root rows that stay. In History it deletes only the current
// rows, and inserts all of them again; the surplus rows then have an end. Equal root rows may have equal links, because
// ordinals start again with each pass. The numbers _penstock_twin then distinguish their child rows.
func (m *merge) trim(t *target) error {
	rank, twin := "row_number() OVER (PARTITION BY _penstock_h ORDER BY "+schemas.ColSyncedAt+")", "1"
	if load.Child(t.Columns) {
		rank = "dense_rank() OVER (PARTITION BY _penstock_h ORDER BY " + load.RootKeyColumn(t.Columns) + ", _penstock_twin)"
		twin = fmt.Sprintf("row_number() OVER (PARTITION BY t.%s, t.%s, t.%s, t.%s)", schemas.ColHash, load.RootKeyColumn(t.Columns), schemas.ColParent, schemas.ColIndex)
	}
	these := "s.h = t." + schemas.ColHash
	if t.Mode == schemas.History {
		these += " AND " + t.currentSQL("t.")
	}
	err := m.s.exec(m.ctx, fmt.Sprintf(`CREATE OR REPLACE TEMP TABLE _penstock_spare AS SELECT *, %s AS _penstock_rank FROM
		(SELECT t.*, s.h AS _penstock_h, s.n AS _penstock_n, %s AS _penstock_twin FROM %s AS t JOIN %s AS s ON %s)`,
		rank, twin, m.ownRelation(t), missingKeys, these))
	if err != nil {
		return err
	}
	if err := m.logSurplus(t); err != nil {
		return err
	}
	// The rows keep columns that users have added. // Invariant 16
	back := "SELECT * EXCLUDE (_penstock_h, _penstock_n, _penstock_twin, _penstock_rank) FROM " + surplusRows + " WHERE _penstock_rank <= _penstock_n"
	if t.Mode == schemas.History {
		end := fmt.Sprintf("CASE WHEN _penstock_rank > _penstock_n THEN greatest(%s, %s) END", timestamp(m.when), schemas.ColValidFrom)
		synced := fmt.Sprintf("CASE WHEN _penstock_rank > _penstock_n THEN %s ELSE %s END", timestamp(m.when), schemas.ColSyncedAt)
		back = fmt.Sprintf("SELECT * EXCLUDE (_penstock_h, _penstock_n, _penstock_twin, _penstock_rank) REPLACE (%[1]s AS %[2]s, %[1]s AS %[3]s, %[5]s AS %[6]s) FROM %[4]s",
			end, schemas.ColValidTo, schemas.ColDeletedAt, surplusRows, synced, schemas.ColSyncedAt)
	}
	for _, q := range []string{
		fmt.Sprintf("DELETE FROM %s AS t USING %s AS s WHERE %s%s", place(t.Name), missingKeys, these, m.ownRowsSQL(t, "t.")),
		fmt.Sprintf("INSERT INTO %s BY NAME %s", place(t.Name), back),
		"DROP TABLE " + surplusRows,
	} {
		if err := m.change(m.ctx, t.Name, q); err != nil {
			return err
		}
	}
	return nil
}

// surplusRows is a temporary table with all rows of the hashes that have surplus rows. The rows whose _penstock_rank
// is above _penstock_n are surplus.
const surplusRows = "temp.main._penstock_spare"
