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

// keptRows is a temporary table of the rows that were passed to Write. The column n is the number of rows with the hash
// in the column h. Each call of Write adds its own numbers, so a hash may occur several times. A pass over a table
// without a key has only one transaction, so later transactions do not need this table.
const keptRows = "_penstock_kept"

// createKeptRows creates the table of kept rows, unless this transaction has already created it.
func (m *merge) createKeptRows() error {
	if m.sql.kept {
		return nil
	}
	m.sql.kept = true
	return m.sql.CreateTemp(m.sql.ctx, keptRows, "(h "+m.in.Type(schemas.Text)+", n "+m.in.Type(schemas.Int64)+")")
}

// keptByHash returns a query for the number of kept rows with each hash.
func (in *scope) keptByHash() string {
	return "SELECT h, sum(n) AS n FROM " + in.Temp(keptRows) + " GROUP BY h"
}

// countByHash returns a query that counts the rows of t by hash. In History, it counts only current rows.
func (t *target) countByHash() string {
	return fmt.Sprintf("SELECT t.%s AS h, count(*) AS n FROM %s%s GROUP BY 1", schemas.ColHash, t.rows(), t.open("t."))
}

// keyless compares, for each hash, the number of rows in the pass with the number of rows in the table. If the pass has
// more, keyless appends the additional rows.
func (m *merge) keyless(t *target) error {
	if err := m.sql.step("stage"); err != nil {
		return err
	}
	if err := m.createKeptRows(); err != nil {
		return err
	}
	err := m.sql.Stage(m.sql.ctx, t.staged, t.Columns, []string{schemas.ColHash, schemas.ColOrdinal}, func(from string) error {
		return m.sql.temp(status, fmt.Sprintf(`SELECT s.h, s.o, CASE WHEN s.i + coalesce(k.n, 0) <= coalesce(t.n, 0) THEN %s ELSE %s END AS st
			FROM (SELECT %[3]s AS h, %[4]s AS o, row_number() OVER (PARTITION BY %[3]s ORDER BY %[4]s) AS i FROM %[5]s AS r) AS s
			LEFT JOIN (%[6]s) AS k ON k.h = s.h LEFT JOIN (%[7]s) AS t ON t.h = s.h`,
			isUnchanged, isNew, schemas.ColHash, schemas.ColOrdinal, from, m.in.keptByHash(), t.countByHash()))
	})
	if err != nil {
		return err
	}
	if err := m.sql.exec("INSERT INTO " + m.in.Temp(keptRows) + " SELECT h, count(*) FROM " + m.in.Temp(status) + " GROUP BY h"); err != nil {
		return err
	}
	var n counts
	if err := m.sql.numbers("SELECT "+countIf("st = "+isNew)+" FROM "+m.in.Temp(status), &n.fresh); err != nil {
		return err
	}
	m.out.Written += n.fresh
	m.out.Inserted += n.fresh
	m.out.Unchanged += t.staged.Rows - n.fresh
	if err := m.log.written(t, n); err != nil {
		return err
	}
	return m.insertFamily(t, n)
}

// sweepKeyless counts the surplus rows: if the table has more rows with a hash than the pass, the difference is
// surplus. If s.Delete is set, it deletes the surplus rows.
func (m *merge) sweepKeyless(t *target, s load.Sweep) error {
	if err := m.createKeptRows(); err != nil {
		return err
	}
	err := m.sql.temp(missing, fmt.Sprintf("SELECT t.h, coalesce(k.n, 0) AS n, t.n - coalesce(k.n, 0) AS spare FROM (%s) AS t "+
		"LEFT JOIN (%s) AS k ON k.h = t.h WHERE t.n > coalesce(k.n, 0)", t.countByHash(), m.in.keptByHash()))
	if err != nil {
		return err
	}
	err = m.sql.numbers(fmt.Sprintf("SELECT %s, (SELECT coalesce(sum(spare), 0) FROM %s) FROM %s",
		countIf(t.current("t.")), m.in.Temp(missing), t.rows()), &m.out.Alive, &m.out.Missing)
	if err != nil {
		return err
	}
	m.out.Known = true
	if !s.Delete || m.out.Missing == 0 {
		return nil
	}
	m.out.Deleted = m.out.Missing
	for _, c := range append(m.tables.children(t), t) {
		if err := m.trim(c); err != nil {
			return fmt.Errorf("delete surplus rows of %s: %w", c.Name, err)
		}
	}
	return nil
}

// The constant surplus names a temporary table. For each hash with surplus rows, the temporary table has all rows with
// this hash, including the rows that stay; see rankedSQL.
const surplus = "_penstock_surplus"

// trim deletes the surplus rows of t, or ends them in History. The rows that stay keep the values of users' own
// columns.
// Invariant 16
func (m *merge) trim(t *target) error {
	names := slices.Concat(load.Names(t.Columns), t.userColumns)
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = "t." + Ident(name)
	}
	trim := trimByCopy(t, names)
	if id := t.in.traits.RowID; id != "" {
		values, trim = []string{"t." + id}, trimByID(t)
	}
	logged := m.log != nil && !load.Child(t.Columns)
	if logged {
		values = append(values, t.document("t."))
	}
	if err := m.sql.temp(surplus, rankedSQL(t, values)); err != nil {
		return err
	}
	if logged {
		from := m.in.Temp(surplus) + " AS t WHERE t.i > t.n"
		if err := m.log.deleted(t, "t.h", fmt.Sprintf("t.c%d", len(values)-1), from); err != nil {
			return err
		}
	}
	for _, q := range append(trim, "DROP TABLE "+m.in.Temp(surplus)) {
		if err := m.sql.change(t, q); err != nil {
			return err
		}
	}
	return nil
}

// trimByID returns the statement that deletes the surplus rows of t, or ends them in History, in a database that can
// select single rows. The statement has = ANY instead of IN, because the planner of Postgres then finds the rows by
// their ids.
func trimByID(t *target) []string {
	statement := "DELETE FROM " + t.place() + " AS t WHERE "
	if t.Mode == schemas.History {
		statement = t.deletion()
	}
	return []string{fmt.Sprintf("%st.%s = ANY (ARRAY(SELECT c0 FROM %s WHERE i > n))", statement, t.in.traits.RowID, t.in.Temp(surplus))}
}

// trimByCopy returns the statements for other databases: if some of the rows with a hash are surplus, they delete all
// rows with this hash, and insert again the rows that stay. These databases have no other way to select one of several
// equal rows. In History all rows stay, and the surplus rows have an end.
func trimByCopy(t *target, names []string) []string {
	at := t.in.Timestamp(t.in.when)
	ended := map[string]string{}
	where := " WHERE i <= n"
	if t.Mode == schemas.History {
		end := t.in.Greatest(at, fmt.Sprintf("c%d", slices.Index(names, schemas.ColValidFrom)))
		ended = map[string]string{schemas.ColSyncedAt: at, schemas.ColValidTo: end, schemas.ColDeletedAt: end}
		where = ""
	}
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = fmt.Sprintf("c%d", i)
		if end, ok := ended[name]; ok {
			values[i] = "CASE WHEN i > n THEN " + end + " ELSE " + values[i] + " END"
		}
	}
	return []string{
		fmt.Sprintf("DELETE FROM %s AS t WHERE t.%s IN (SELECT h FROM %s)%s%s", t.place(), schemas.ColHash, t.in.Temp(missing), t.own("t."), t.open("t.")),
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s%s", t.place(), Idents(names), strings.Join(values, ", "), t.in.Temp(surplus), where),
	}
}

// rankedSQL returns a query for the rows of each hash with surplus rows, including the rows that stay. The query has
// these columns: c0, c1… are the row's values of the given SQL expressions, h is the row's hash, n is the number of
// rows with this hash that stay, and i numbers all rows with this hash. A row is surplus if i is greater than n.
//
// A child row refers to its record by a link, which consists of the record's hash and its number in the pass. So two
// equal records from different passes may have the same link, and each of their child rows then exists twice. The
// column twin tells the records apart: it is 1 in the child rows of one record, and 2 in those of the other.
func rankedSQL(t *target, values []string) string {
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
	return fmt.Sprintf("SELECT %s, h, n, %s AS i FROM (SELECT %s, s.h, s.n, %s FROM %s AS t JOIN %s AS s ON s.h = t.%s WHERE %s%s%s) AS t",
		strings.Join(columns, ", "), rank, strings.Join(selected, ", "), order, t.place(), t.in.Temp(missing), schemas.ColHash, all, t.own("t."), t.open("t."))
}
