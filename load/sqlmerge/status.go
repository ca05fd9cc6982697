package sqlmerge

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// status is a temporary table with one row for each record of a merge. The columns k0, k1… are the record's key, and h
// is its hash; a record of a table without a key has only the hash. The column o is the ordinal of the row that is
// kept, and st is one of the constants below. In History, f is the start of the row's validity.
const status = "_penstock_status"

// Values of st.
const (
	isNew       = "0"
	isChanged   = "1" // replaces the previous row
	isNext      = "2" // follows the previous version
	isUnchanged = "3"
)

// keyColumns returns the names of the status table's key columns k0, k1…, each after the prefix.
func keyColumns(prefix string, key []string) []string {
	out := make([]string, len(key))
	for i := range key {
		out[i] = fmt.Sprintf("%sk%d", prefix, i)
	}
	return out
}

// asKeys returns SQL that selects the columns of a key as k0, k1…. The prefix is put before the column names.
func asKeys(prefix string, key []string) string {
	out := make([]string, len(key))
	for i, k := range key {
		out[i] = fmt.Sprintf("%s%s AS k%d", prefix, Ident(k), i)
	}
	return strings.Join(out, ", ")
}

// on returns the condition that a row of alias and a row of t have the same key. In alias, the key columns are k0, k1…;
// in t, they have the names in key.
func on(alias string, key []string) string {
	and := make([]string, len(key))
	for i, k := range key {
		and[i] = fmt.Sprintf("%s.k%d = t.%s", alias, i, Ident(k))
	}
	return strings.Join(and, " AND ")
}

// equal returns the condition that rows of a and b have the same key. Both tables have the key columns k0, k1….
func equal(a, b string, key []string) string {
	and := make([]string, len(key))
	for i := range key {
		and[i] = fmt.Sprintf("%s.k%d = %s.k%d", a, i, b, i)
	}
	return strings.Join(and, " AND ")
}

// stagedColumns returns the staged columns that winnersSQL reads.
func stagedColumns(t *target) []string {
	columns := append([]string{}, t.Key...)
	columns = append(columns, schemas.ColOrdinal)
	if t.has(schemas.ColHash) {
		columns = append(columns, schemas.ColHash)
	}
	if t.Mode == schemas.History {
		columns = append(columns, schemas.ColSyncedAt)
	}
	return columns
}

// winnersSQL returns a query for the last staged row of each key.
func (m *merge) winnersSQL(t *target, from string) string {
	group := make([]string, len(t.Key))
	for i := range t.Key {
		group[i] = strconv.Itoa(i + 1) // by position: a source column may have the name of an alias
	}
	hash, synced := "NULL", ""
	if t.has(schemas.ColHash) {
		hash = m.b.Latest(schemas.ColHash, schemas.ColOrdinal)
	}
	if t.Mode == schemas.History {
		synced = ", " + m.b.Latest(schemas.ColSyncedAt, schemas.ColOrdinal) + " AS y"
	}
	return fmt.Sprintf("SELECT %s, max(%s) AS o, %s AS h, count(*) AS n%s FROM %s AS r GROUP BY %s",
		asKeys("", t.Key), schemas.ColOrdinal, hash, synced, from, strings.Join(group, ", "))
}

// statusSQL returns the query for the status table. It reads the staged rows once, and joins them with the keys and
// hashes in the table and with the carried keys. It first finds stored rows by an inner join. In DuckDB this costs a
// third less than an outer join, which would materialize the hashes of the whole table.
func (m *merge) statusSQL(t *target, from string) string {
	with := "WITH s AS MATERIALIZED (" + m.winnersSQL(t, from) + ")"
	if t.Mode == schemas.Append || t.Mode == schemas.History {
		return with + m.versionsSQL(t)
	}
	if t.empty {
		return with + " SELECT *, " + isNew + " AS st, false AS revived, false AS again FROM s"
	}
	st, revived, again := isChanged, "false", "false"
	if t.has(schemas.ColHash) {
		st = fmt.Sprintf("CASE WHEN t.%s = s.h AND t.%s IS NULL THEN %s ELSE %s END",
			schemas.ColHash, schemas.ColDeletedAt, isUnchanged, isChanged)
		revived = "t." + schemas.ColDeletedAt + " IS NOT NULL"
		again = fmt.Sprintf("coalesce(t.%s >= %s, 1 = 0)", schemas.ColRun, m.b.Literal(m.of.Run))
	}
	with += fmt.Sprintf(", m AS (SELECT s.o, %s AS st, %s AS revived, %s AS again FROM %s AS t JOIN s ON %s)",
		st, revived, again, m.b.Place(t.Name), on("s", t.Key)+m.ownRowsSQL(t, "t."))
	again, carried := "coalesce(m.again, false)", ""
	if m.carried != nil && t.has(schemas.ColHash) { // not one of penstock's own tables
		carried = " LEFT JOIN " + m.carried.table + " AS c ON " + equal("c", "s", t.Key)
		again += " OR c.carried IS NOT NULL"
	}
	return fmt.Sprintf("%s SELECT s.*, coalesce(m.st, %s) AS st, coalesce(m.revived, false) AS revived, %s AS again "+
		"FROM s LEFT JOIN m ON m.o = s.o%s", with, isNew, again, carried)
}

// versionsSQL is the rest of statusSQL for a table with several rows per record. In the query, m is a record's last
// row.
func (m *merge) versionsSQL(t *target) string {
	run := m.b.Literal(m.of.Run)
	last := fmt.Sprintf("%s AS c, t.%s AS r, t.%s AS y, t.%s AS h", t.currentSQL("t."), schemas.ColRun, schemas.ColSyncedAt, schemas.ColHash)
	order, from := "r DESC, y DESC", ""
	if t.Mode == schemas.History {
		last += ", t." + schemas.ColValidFrom + " AS a, t." + schemas.ColValidTo + " AS z"
		order = "c DESC, " + order
		from = ", CASE WHEN m.c AND m.r >= " + run + " THEN m.a ELSE " + m.b.Greatest("s.y", "m.a", "m.z") + " END AS f"
	}
	again, carried := "coalesce(m.r >= "+run+", false)", ""
	if m.carried != nil {
		carried = " LEFT JOIN " + m.carried.table + " AS c ON " + equal("c", "s", t.Key)
		again += " OR c.carried IS NOT NULL"
	}
	return fmt.Sprintf(", v AS (SELECT s.o, %s FROM %s AS t JOIN s ON %s)", last, m.b.Place(t.Name), on("s", t.Key)+m.ownRowsSQL(t, "t.")) +
		fmt.Sprintf(", m AS (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY o ORDER BY %s) AS i FROM v) AS v WHERE i = 1)", order) +
		" SELECT s.*, CASE WHEN m.i IS NULL THEN " + isNew + " WHEN m.c AND m.h = s.h THEN " + isUnchanged +
		" WHEN m.c AND m.r >= " + run + " THEN " + isChanged + " ELSE " + isNext + " END AS st, " +
		"coalesce(NOT m.c, false) AS revived, " + again + " AS again" + from +
		" FROM s LEFT JOIN m ON m.o = s.o" + carried
}

// counts counts the records of a status table.
type counts struct {
	staged, fresh, changed, next, unchanged int64
}

// written returns the number of records that get a new row.
func (n counts) written() int64 { return n.fresh + n.changed + n.next }

// countIf returns an expression for the number of rows for which a condition holds.
func countIf(condition string) string { return "count(CASE WHEN " + condition + " THEN 1 END)" }

func (m *merge) count(t *target) (counts, error) {
	var n counts
	var records, again, revived, unchangedAgain int64
	err := numbers(m.ctx, m.s, "SELECT coalesce(sum(n), 0), count(*), "+strings.Join([]string{
		countIf("st = " + isNew), countIf("st = " + isChanged), countIf("st = " + isNext), countIf("st = " + isUnchanged),
		countIf("again"), countIf("revived AND st < " + isUnchanged + " AND NOT again"), countIf("st = " + isUnchanged + " AND again"),
	}, ", ")+" FROM "+m.b.Temp(status), &n.staged, &records, &n.fresh, &n.changed, &n.next, &n.unchanged, &again, &revived, &unchangedAgain)
	if err != nil || load.IsInternal(t.Name) {
		return n, err
	}
	o := m.out
	o.Deduplicated += n.staged - records + again
	o.Inserted += n.fresh
	o.Written += n.written() - (again - unchangedAgain)
	o.Unchanged += n.unchanged - unchangedAgain
	o.Revived += revived
	return n, nil
}
