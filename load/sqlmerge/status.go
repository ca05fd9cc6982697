package sqlmerge

import (
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// The constant status names a temporary table with one row for each record of a merge. The columns k0, k1… are the
// record's key, and h is its hash; a record of a table without a key has only the hash. The column o is the ordinal of
// the row that is kept, and st is one of the constants below. In History, f is the start of the row's validity.
const status = "_penstock_status"

// Values of st.
const (
	isNew       = "0"
	isChanged   = "1" // the new row replaces the previous row
	isNext      = "2" // the new row follows the previous version
	isUnchanged = "3"
)

// isWritten is the condition that a record of the status table gets a new row.
const isWritten = "st < " + isUnchanged

// counts has the numbers of records in a status table.
type counts struct {
	fresh, changed, next int64
	unchanged            int64 // records that have not changed, counted only when this pass finds them for the first time
	shifted              int64 // new versions whose valid_from differs from their synced_at
}

// The method written() returns the number of records that get a new row.
func (n counts) written() int64 { return n.fresh + n.changed + n.next }

// records returns a FROM item with the records of the status table whose st has the given value.
func (in *scope) records(st string) string { return in.Temp(status) + " WHERE st = " + st }

// The method chosen() returns the insertion of those staged rows that must be written. All staged rows were compared
// before.
func (t *target) chosen(n counts) Insertion {
	i := Insertion{Table: t.Table, Staged: t.staged, Valid: n.shifted > 0}
	switch {
	case i.Valid:
		i.Chosen = "SELECT o, f FROM " + t.in.Temp(status) + " WHERE " + isWritten
	case n.written() < t.staged.Rows:
		i.Chosen = "SELECT o FROM " + t.in.Temp(status) + " WHERE " + isWritten
	}
	return i
}

// stagedColumns returns the staged columns that a comparison reads.
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
func winnersSQL(t *target, from string) string {
	r := KeyedRows{From: from, Key: t.Key, Columns: []Column{{"NULL", "h"}}}
	if t.has(schemas.ColHash) {
		r.Columns[0].Value = schemas.ColHash
	}
	if t.Mode == schemas.History {
		r.Columns = append(r.Columns, Column{schemas.ColSyncedAt, "y"})
	}
	return t.in.LastRows(r)
}

// statusSQL returns the query for the status table. It reads the staged rows once, and joins them with the keys and
// hashes in the table and with the carried keys. Its last two arguments are the results of [seen.again].
func statusSQL(t *target, from, again, carried string) string {
	columns := append(keyColumns("s.", t.Key), "s.o", "s.h")
	if t.Mode == schemas.History {
		columns = append(columns, "s.y")
	}
	selected := strings.Join(columns, ", ")
	oneRow := OneRowPerKey(t.Table)
	if oneRow && t.empty {
		return "SELECT " + selected + ", " + isNew + " AS st, false AS revived, false AS again FROM (" + winnersSQL(t, from) + ") AS s"
	}
	var stored, st, revived, begin string
	switch {
	case !oneRow:
		stored, st, revived, begin = versionColumns(t)
	case t.has(schemas.ColHash):
		stored = fmt.Sprintf(", t.%s AS lh, t.%s AS ld, %s AS lr", schemas.ColHash, schemas.ColDeletedAt, t.run("t."))
		st, revived = "WHEN lh = s.h AND ld IS NULL THEN "+isUnchanged+" ELSE "+isChanged, "ld IS NOT NULL"
	default: // one of penstock's own tables
		st, revived, again, carried = "ELSE "+isChanged, "false", "false", ""
	}
	with, item := storedSQL(t, winnersSQL(t, from), stored)
	return fmt.Sprintf("%sSELECT %s, CASE WHEN lk IS NULL THEN %s %s END AS st, %s AS revived, %s AS again%s FROM %s%s",
		with, selected, isNew, st, revived, again, begin, item, carried)
}

// versionColumns returns four parts of the SQL of statusSQL, for a table that may have several rows of a record. The
// first part lists the columns of the stored row to select. The second part has the CASE branches for a record that has
// a stored row. The third part is the value of the column revived. The last part selects the column f, the start of the
// new row's validity; it is "" if the mode is not History.
func versionColumns(t *target) (stored, st, revived, begin string) {
	stored = fmt.Sprintf(", t.%s AS lh, %s AS lr, t.%s AS ly, %s AS lc", schemas.ColHash, t.run("t."), schemas.ColSyncedAt, t.current("t."))
	ours := "lc AND lr >= " + t.in.Literal(t.in.run)
	st = "WHEN lc AND lh = s.h THEN " + isUnchanged + " WHEN " + ours + " THEN " + isChanged + " ELSE " + isNext
	if t.Mode == schemas.History {
		stored += ", t." + schemas.ColValidFrom + " AS la, t." + schemas.ColValidTo + " AS lz"
		begin = ", CASE WHEN " + ours + " THEN la ELSE " + t.in.Greatest("s.y", "la", "lz") + " END AS f"
	}
	return stored, st, "coalesce(NOT lc, false)", begin
}

// storedSQL returns a FROM item that joins each record (alias s) with its stored row. The first result is a WITH clause
// that this item needs, or "". The parameter `records` is a query for the records. Its columns k0, k1… are the key, and
// its column o is the ordinal. The parameter `columns` lists columns of the stored row (alias t), such as
// ", t.name AS n". The item has these columns, and the column lk with the first column of the stored row's key. If a
// record has no stored row, lk is null. If a record has several stored rows, the join takes the last of them.
//
// With an outer join, most databases read only those rows of a large table that they need. DuckDB would materialize the
// hashes of the whole table. In DuckDB, an inner join before the outer join saves a third of the work.
func storedSQL(t *target, records, columns string) (with, item string) {
	match := t.place() + " AS t ON " + on("s", t.Key) + t.own("t.")
	columns = "t." + Ident(t.Key[0]) + " AS lk" + columns
	last := func(query string) string { return query }
	if order := t.latest(); order != "" {
		columns += ", row_number() OVER (PARTITION BY s.o ORDER BY " + order + ") AS i"
		last = func(query string) string { return "SELECT * FROM (" + query + ") AS t WHERE i = 1" }
	}
	if t.in.traits.InnerFirst {
		item = last("SELECT s.o AS lo, " + columns + " FROM s JOIN " + match)
		return "WITH s AS MATERIALIZED (" + records + ") ", "s LEFT JOIN (" + item + ") AS t ON t.lo = s.o"
	}
	return "", "(" + last("SELECT s.*, "+columns+" FROM ("+records+") AS s LEFT JOIN "+match) + ") AS s"
}
