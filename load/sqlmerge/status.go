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
	r := KeyedRows{From: from, Key: t.Key, Columns: []Column{{"NULL", "h"}}}
	if t.has(schemas.ColHash) {
		r.Columns[0].Value = schemas.ColHash
	}
	if t.Mode == schemas.History {
		r.Columns = append(r.Columns, Column{schemas.ColSyncedAt, "y"})
	}
	return m.b.LastRows(r)
}

// KeyedRows describes a query for the last row of each key. The last row has the highest [schemas.ColOrdinal].
type KeyedRows struct {
	From    string // a FROM item
	Key     []string
	Columns []Column // other columns of the result
}

// Column is a column of a query.
type Column struct {
	Value string // name of a column, or NULL
	Name  string
}

// LastRows returns a query for the last row of each key. The columns of the query are the key (k0, k1…), the ordinal o,
// and the other columns. The function latest returns an expression for a column's value in the row of a group that has
// the greatest ordinal.
func LastRows(r KeyedRows, latest func(column string) string) string {
	group := make([]string, len(r.Key))
	for i := range r.Key {
		group[i] = strconv.Itoa(i + 1) // by position: a source column may have the name of an alias
	}
	others := ""
	for _, c := range r.Columns {
		value := c.Value
		if value != "NULL" {
			value = latest(value)
		}
		others += ", " + value + " AS " + c.Name
	}
	return fmt.Sprintf("SELECT %s, max(%s) AS o%s FROM %s AS r GROUP BY %s", asKeys("", r.Key), schemas.ColOrdinal, others, r.From, strings.Join(group, ", "))
}

// NumberedRows returns the same query as LastRows, without groups: it numbers the rows of each key.
func NumberedRows(r KeyedRows) string {
	names, columns := append(keyColumns("", r.Key), "o"), asKeys("", r.Key)+", "+schemas.ColOrdinal+" AS o"
	for _, c := range r.Columns {
		names, columns = append(names, c.Name), columns+", "+c.Value+" AS "+c.Name
	}
	return fmt.Sprintf("SELECT %s FROM (SELECT %s, row_number() OVER (PARTITION BY %s ORDER BY %s DESC) AS i FROM %s AS r) AS r WHERE i = 1",
		strings.Join(names, ", "), columns, Idents(r.Key), schemas.ColOrdinal, r.From)
}

// statusSQL returns the query for the status table. It reads the staged rows once, and joins them with the keys and
// hashes in the table and with the carried keys.
func (m *merge) statusSQL(t *target, from string) string {
	switch {
	case t.empty && t.Mode != schemas.Append && t.Mode != schemas.History:
		return "SELECT s.*, " + isNew + " AS st, false AS revived, false AS again FROM (" + m.winnersSQL(t, from) + ") AS s"
	case t.Mode == schemas.Append || t.Mode == schemas.History:
		return m.versionsSQL(t, from)
	}
	columns, st, revived, again, carried := "", isChanged, "false", "false", ""
	if t.has(schemas.ColHash) {
		columns = fmt.Sprintf(", t.%s AS lh, t.%s AS ld, %s AS lr", schemas.ColHash, schemas.ColDeletedAt, m.db.traits.bytewise("t."+schemas.ColRun))
		st = "CASE WHEN lh = s.h AND ld IS NULL THEN " + isUnchanged + " ELSE " + isChanged + " END"
		revived = "ld IS NOT NULL"
		again, carried = m.againSQL(t)
	}
	with, item := m.storedSQL(t, from, columns, "")
	return fmt.Sprintf("%sSELECT %s, CASE WHEN lk IS NULL THEN %s ELSE %s END AS st, %s AS revived, %s AS again FROM %s%s",
		with, strings.Join(winnersColumns(t), ", "), isNew, st, revived, again, item, carried)
}

// versionsSQL is statusSQL for a table with several rows per record.
func (m *merge) versionsSQL(t *target, from string) string {
	columns := fmt.Sprintf(", t.%s AS lh, %s AS lr, t.%s AS ly, %s AS lc", schemas.ColHash, m.db.traits.bytewise("t."+schemas.ColRun), schemas.ColSyncedAt, t.currentSQL("t."))
	order, begin := fmt.Sprintf("%s DESC, t.%s DESC", m.db.traits.bytewise("t."+schemas.ColRun), schemas.ColSyncedAt), ""
	run := m.b.Literal(m.of.Run)
	if t.Mode == schemas.History {
		columns += ", t." + schemas.ColValidFrom + " AS la, t." + schemas.ColValidTo + " AS lz"
		order = t.currentSQL("t.") + " DESC, " + order
		begin = ", CASE WHEN lc AND lr >= " + run + " THEN la ELSE " + m.b.Greatest("s.y", "la", "lz") + " END AS f"
	}
	again, carried := m.againSQL(t)
	with, item := m.storedSQL(t, from, columns, order)
	return fmt.Sprintf("%sSELECT %s, CASE WHEN lk IS NULL THEN %s WHEN lc AND lh = s.h THEN %s WHEN lc AND lr >= %s THEN %s ELSE %s END AS st, "+
		"coalesce(NOT lc, false) AS revived, %s AS again%s FROM %s%s",
		with, strings.Join(winnersColumns(t), ", "), isNew, isUnchanged, run, isChanged, isNext, again, begin, item, carried)
}

// winnersColumns returns the columns of winnersSQL, each after "s.".
func winnersColumns(t *target) []string {
	columns := append(keyColumns("s.", t.Key), "s.o", "s.h")
	if t.Mode == schemas.History {
		columns = append(columns, "s.y")
	}
	return columns
}

// againSQL returns the condition that the pass has already written a record s, or found it unchanged. The column lr is
// the run of its stored row. The condition needs the join in carried.
func (m *merge) againSQL(t *target) (condition, carried string) {
	condition = "coalesce(lr >= " + m.b.Literal(m.of.Run) + ", 1 = 0)"
	if m.carried == nil {
		return condition, ""
	}
	return condition + " OR c.k0 IS NOT NULL", " LEFT JOIN " + m.carried.table + " AS c ON " + equal("c", "s", t.Key)
}

// storedSQL returns a WITH clause, which may be empty, and a FROM item with the staged records s, each joined with its
// stored row. The item has the column lk, which is null if there is no such row, and the given columns of the row t. If
// a record can have several rows, the join takes the first of them in the given order.
//
// Most databases read few rows of a large table by an outer join. DuckDB would materialize the hashes of the whole table
// in it. An inner join before it saves a third of the work there.
func (m *merge) storedSQL(t *target, from, columns, order string) (with, item string) {
	stored := m.b.Place(t.Name) + " AS t"
	match := on("s", t.Key) + m.ownRowsSQL(t, "t.")
	columns = "t." + Ident(t.Key[0]) + " AS lk" + columns
	if order != "" {
		columns += ", row_number() OVER (PARTITION BY s.o ORDER BY " + order + ") AS i"
	}
	if m.db.traits.InnerFirst {
		item = "SELECT s.o AS lo, " + columns + " FROM " + stored + " JOIN s ON " + match
		if order != "" {
			item = "SELECT * FROM (" + item + ") AS t WHERE i = 1"
		}
		return "WITH s AS MATERIALIZED (" + m.winnersSQL(t, from) + ") ", "s LEFT JOIN (" + item + ") AS t ON t.lo = s.o"
	}
	item = "(SELECT s.*, " + columns + " FROM (" + m.winnersSQL(t, from) + ") AS s LEFT JOIN " + stored + " ON " + match + ") AS s"
	if order != "" {
		item = "(SELECT * FROM " + item + " WHERE i = 1) AS s"
	}
	return "", item
}

// writtenSQL returns the condition that the pass has written a row. The prefix is put before the column's name.
func (m *merge) writtenSQL(prefix string) string {
	return fmt.Sprintf("coalesce(%s >= %s, 1 = 0)", m.db.traits.bytewise(prefix+schemas.ColRun), m.b.Literal(m.of.Run))
}

// counts counts the records of a status table.
type counts struct {
	fresh, changed, next int64
	unchanged            int64 // found for the first time in this pass
	shifted              int64 // new versions that do not begin at their synced_at
}

// written returns the number of records that get a new row.
func (n counts) written() int64 { return n.fresh + n.changed + n.next }

// countIf returns an expression for the number of rows for which a condition holds.
func countIf(condition string) string { return "count(CASE WHEN " + condition + " THEN 1 END)" }

// compare fills the status table with the status of each staged row, and counts the rows of each status.
func (m *merge) compare(t *target, staged *load.Staged) (counts, error) {
	err := m.s.Stage(m.ctx, staged, t.Columns, stagedColumns(t), func(from string) error {
		return m.s.CreateTemp(m.ctx, status, "AS "+m.statusSQL(t, from))
	})
	if err != nil {
		return counts{}, err
	}
	return m.count(t, staged.Rows)
}

// count counts the records of the status table. The parameter staged is the number of rows that were compared.
func (m *merge) count(t *target, staged int64) (counts, error) {
	var n counts
	var records, again, revived, unchangedAgain int64
	shifted := "1 = 0"
	if t.Mode == schemas.History {
		shifted = "st < " + isUnchanged + " AND f <> y"
	}
	err := numbers(m.ctx, m.s, "SELECT count(*), "+strings.Join([]string{
		countIf("st = " + isNew), countIf("st = " + isChanged), countIf("st = " + isNext), countIf("st = " + isUnchanged + " AND NOT again"),
		countIf("again"), countIf("revived AND st < " + isUnchanged + " AND NOT again"), countIf("st = " + isUnchanged + " AND again"), countIf(shifted),
	}, ", ")+" FROM "+m.b.Temp(status), &records, &n.fresh, &n.changed, &n.next, &n.unchanged, &again, &revived, &unchangedAgain, &n.shifted)
	if err != nil || load.IsInternal(t.Name) {
		return n, err
	}
	o := m.out
	o.Deduplicated += staged - records + again
	o.Inserted += n.fresh
	o.Written += n.written() - (again - unchangedAgain)
	o.Unchanged += n.unchanged
	o.Revived += revived
	return n, nil
}
