package sqlmerge

import (
	"fmt"
	"slices"
	"strings"

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
	return m.s.CreateTemp(m.ctx, keptRows, "(h "+m.b.Type(schemas.Text)+", n "+m.b.Type(schemas.Int64)+")")
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
		return m.s.CreateTemp(m.ctx, status, fmt.Sprintf(`AS SELECT s.h, s.o, CASE WHEN s.i + coalesce(k.n, 0) <= coalesce(t.n, 0) THEN %s ELSE %s END AS st
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
	if err := numbers(m.ctx, m.s, "SELECT "+countIf("st = "+isNew)+" FROM "+m.b.Temp(status), &n.fresh); err != nil {
		return err
	}
	m.out.Written += n.fresh
	m.out.Inserted += n.fresh
	m.out.Unchanged += t.staged.Rows - n.fresh
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
	err := m.s.CreateTemp(m.ctx, missing, fmt.Sprintf("AS SELECT t.h, coalesce(k.n, 0) AS n, t.n - coalesce(k.n, 0) AS spare FROM (%s) AS t "+
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

// counted is a temporary table with the rows of a table whose hashes have surplus rows; see rankedSQL.
const counted = "_penstock_counted"

// trim deletes the surplus rows of t, or ends them in History. It does so by a copy: it deletes all rows whose hashes
// have surplus rows, and inserts those again that stay. No other way selects one of several equal rows in every
// database. The rows keep the values of users' own columns. // Invariant 16
func (m *merge) trim(t *target) error {
	if m.db.traits.RowID != "" {
		return m.trimByID(t)
	}
	names := slices.Concat(load.Names(t.Columns), t.userColumns)
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = "t." + Ident(name)
	}
	logged := m.of.Log && !load.Child(t.Columns)
	if logged {
		values = append(values, m.document("t.", t))
	}
	where := all + m.ownRowsSQL(t, "t.")
	if t.Mode == schemas.History {
		where += " AND " + t.currentSQL("t.")
	}
	if err := m.s.CreateTemp(m.ctx, counted, "AS "+rankedSQL(t.Table, m.b.Place(t.Name), m.b.Temp(missing), where, values)); err != nil {
		return err
	}
	if logged {
		if err := m.logSurplus(t, fmt.Sprintf("t.c%d", len(names))); err != nil {
			return err
		}
	}
	for _, q := range []string{
		fmt.Sprintf("DELETE FROM %s AS t WHERE t.%s IN (SELECT h FROM %s) AND %s", m.b.Place(t.Name), schemas.ColHash, m.b.Temp(missing), where),
		fmt.Sprintf("INSERT INTO %s (%s) %s", m.b.Place(t.Name), Idents(names), m.remainingSQL(t, names)),
		"DROP TABLE " + m.b.Temp(counted),
	} {
		if err := m.change(t.Name, q); err != nil {
			return err
		}
	}
	return nil
}

// trimByID deletes the surplus rows of t, or ends them in History, in a database that can select single rows.
func (m *merge) trimByID(t *target) error {
	where := all + m.ownRowsSQL(t, "t.")
	if t.Mode == schemas.History {
		where += " AND " + t.currentSQL("t.")
	}
	id := "t." + m.db.traits.RowID
	if m.of.Log && !load.Child(t.Columns) {
		if err := m.s.CreateTemp(m.ctx, counted, "AS "+rankedSQL(t.Table, m.b.Place(t.Name), m.b.Temp(missing), where, []string{id, m.document("t.", t)})); err != nil {
			return err
		}
		if err := m.logSurplus(t, "t.c1"); err != nil {
			return err
		}
	}
	// = ANY instead of IN, because the planner of Postgres then finds the rows by their ids.
	surplus := id + " = ANY (ARRAY(SELECT c0 FROM (" + rankedSQL(t.Table, m.b.Place(t.Name), m.b.Temp(missing), where, []string{id}) + ") AS t WHERE i > n))"
	if t.Mode != schemas.History {
		return m.change(t.Name, "DELETE FROM "+m.b.Place(t.Name)+" AS t WHERE "+surplus)
	}
	at := m.until(m.b.Timestamp(m.when))
	return m.change(t.Name, fmt.Sprintf("UPDATE %s AS t SET %s, %s = %s, %s = %s WHERE %s",
		m.b.Place(t.Name), m.synced(), schemas.ColValidTo, at, schemas.ColDeletedAt, at, surplus))
}

// remainingSQL returns a query for the counted rows that stay in the table. In History all rows stay, and the surplus
// rows have an end.
func (m *merge) remainingSQL(t *target, names []string) string {
	column := func(name string) string { return fmt.Sprintf("c%d", slices.Index(names, name)) }
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = column(name)
		at := m.b.Timestamp(m.when)
		switch {
		case t.Mode != schemas.History:
		case name == schemas.ColSyncedAt:
			values[i] = "CASE WHEN i > n THEN " + at + " ELSE " + values[i] + " END"
		case name == schemas.ColValidTo || name == schemas.ColDeletedAt:
			values[i] = "CASE WHEN i > n THEN " + m.b.Greatest(at, column(schemas.ColValidFrom)) + " END"
		}
	}
	where := " WHERE i <= n"
	if t.Mode == schemas.History {
		where = ""
	}
	return "SELECT " + strings.Join(values, ", ") + " FROM " + m.b.Temp(counted) + where
}

// rankedSQL returns a query for the rows t whose hashes have surplus rows. Its columns c0, c1… are the given values of
// the row, h is the hash, n is the number of rows with this hash that stay, and i numbers these rows. A row is surplus
// if i is greater than n.
//
// Equal root rows may have equal links, because ordinals start again with each pass. The numbers twin then distinguish
// their child rows.
func rankedSQL(t schemas.Table, place, missing, where string, values []string) string {
	columns, selected := make([]string, len(values)), make([]string, len(values))
	for i, value := range values {
		columns[i] = fmt.Sprintf("c%d", i)
		selected[i] = value + " AS " + columns[i]
	}
	rank, order := "row_number() OVER (PARTITION BY h ORDER BY y, c0)", "t."+schemas.ColSyncedAt+" AS y"
	if load.Child(t.Columns) {
		link := "t." + load.RootKeyColumn(t.Columns)
		rank = "dense_rank() OVER (PARTITION BY h ORDER BY link, twin)"
		order = fmt.Sprintf("%s AS link, row_number() OVER (PARTITION BY t.%s, %s, t.%s, t.%s ORDER BY %s) AS twin",
			link, schemas.ColHash, link, schemas.ColParent, schemas.ColIndex, values[0])
	}
	return fmt.Sprintf("SELECT %s, h, n, %s AS i FROM (SELECT %s, s.h, s.n, %s FROM %s AS t JOIN %s AS s ON s.h = t.%s WHERE %s) AS t",
		strings.Join(columns, ", "), rank, strings.Join(selected, ", "), order, place, missing, schemas.ColHash, where)
}
