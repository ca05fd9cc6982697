package sqlmerge

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// scope is what all statements of a transaction have in common.
type scope struct {
	Dialect
	traits Traits
	source string    // the source whose rows the transaction may use; "": all rows
	run    string    // run of the pass
	when   time.Time // time of the commit, set when the database's transaction has begun
}

// synced returns the assignment that gives a changed row the commit's time.
func (in *scope) synced() string { return schemas.ColSyncedAt + " = " + in.Timestamp(in.when) }

// ownTable returns one of penstock's own tables, with a source column if the transaction has a source.
func (in *scope) ownTable(t schemas.Table) schemas.Table {
	if in.source == "" {
		return t
	}
	return load.ShareTable(t)
}

// The method until() returns an expression for the end of a row t of a table in mode History. The end is the time in
// the parameter `at`, or the start of the row if the start is later.
func (in *scope) until(at string) string { return in.Greatest(at, "t."+schemas.ColValidFrom) }

// target is a table of the destination. Its columns fit the staged rows. The methods of a target return SQL. They put
// the parameter `prefix`, such as "t.", before the names of columns.
type target struct {
	schemas.Table
	in          *scope
	staged      *load.Staged // nil if nothing was staged
	empty       bool
	userColumns []string // columns that penstock did not make
	lacksKey    bool     // the primary key must be added; see [LateKey]
}

// OneRowPerKey reports whether a table has at most one row per key.
func OneRowPerKey(t schemas.Table) bool {
	return len(t.Key) > 0 && t.Mode != schemas.Append && t.Mode != schemas.History
}

// The method has() reports whether the table has the given bookkeeping column.
func (t *target) has(column string) bool { return t.Columns.HasField(column) }

// place returns the qualified name of the table.
func (t *target) place() string { return t.in.Place(t.Name) }

// rows returns a FROM item for the rows t that belong to the transaction's source, and a WHERE clause that the caller
// can extend.
func (t *target) rows() string { return rowsSQL(t.in, t.Table, t.in.source) }

// The method own() returns " AND" and the condition that a row belongs to the transaction's source. For a table that is
// not shared it returns "".
func (t *target) own(prefix string) string {
	if t.in.source == "" || !load.Shared(t.Columns) {
		return ""
	}
	return " AND " + prefix + schemas.ColSource + " = " + t.in.Literal(t.in.source)
}

// The method current() returns the condition that a row is current: in History it has not ended, and in other modes it
// is not a tombstone.
func (t *target) current(prefix string) string {
	if t.Mode == schemas.History {
		return prefix + schemas.ColValidTo + " IS NULL"
	}
	return prefix + schemas.ColDeletedAt + " IS NULL"
}

// The method open() returns " AND" and the condition that a row has not ended. In modes other than History, it returns
// "".
func (t *target) open(prefix string) string {
	if t.Mode != schemas.History {
		return ""
	}
	return " AND " + t.current(prefix)
}

// run returns an expression for the run of a row. The expression compares texts by their bytes.
func (t *target) run(prefix string) string { return prefix + schemas.ColRun + t.in.traits.Bytewise }

// The method written() returns the condition that the pass has written a row.
func (t *target) written(prefix string) string {
	return fmt.Sprintf("coalesce(%s >= %s, 1 = 0)", t.run(prefix), t.in.Literal(t.in.run))
}

// The method untouched() returns the condition that a row t is current, and that the pass has not written it.
func (t *target) untouched() string { return t.current("t.") + " AND NOT " + t.written("t.") }

// The method replaced() returns " AND" and the condition that a row of the table, or of its root table, belongs to a
// version that is replaced in place. It returns "" if the record's rows always belong to such a version.
func (t *target) replaced(prefix string) string {
	if t.Mode == schemas.Append {
		return t.own(prefix) + " AND " + t.written(prefix)
	}
	return t.own(prefix) + t.open(prefix)
}

// The method latest() returns the ORDER BY list that sorts the rows of one record (alias t), the last version first. It
// returns "" if a record has only one row.
func (t *target) latest() string {
	order := t.run("t.") + " DESC, t." + schemas.ColSyncedAt + " DESC"
	switch t.Mode {
	case schemas.Append:
		return order
	case schemas.History:
		return t.current("t.") + " DESC, " + order
	}
	return ""
}

// keyIn returns the condition that the key of a row t is one of the keys in a FROM item.
func (t *target) keyIn(records string) string {
	key := make([]string, len(t.Key))
	for i, k := range t.Key {
		key[i] = "t." + Ident(k)
	}
	return fmt.Sprintf("(%s) IN (SELECT %s FROM %s)", strings.Join(key, ", "), strings.Join(keyColumns("", t.Key), ", "), records)
}

// deletion returns the beginning of the statement that deletes rows in the way that the table's mode requires. In the
// statement, t is a row of the table. The beginning ends with WHERE, and the caller adds the condition.
func (t *target) deletion() string {
	at := t.in.Timestamp(t.in.when)
	switch t.Mode {
	case schemas.Replace:
		return "DELETE FROM " + t.place() + " AS t WHERE "
	case schemas.History:
		at = t.in.until(at)
		return fmt.Sprintf("UPDATE %s AS t SET %s, %s = %s, %s = %[4]s WHERE ", t.place(), t.in.synced(), schemas.ColValidTo, at, schemas.ColDeletedAt)
	}
	return fmt.Sprintf("UPDATE %s AS t SET %s, %s = %s WHERE ", t.place(), t.in.synced(), schemas.ColDeletedAt, at)
}

// document returns an expression for a row as a JSON object, without penstock's own columns.
func (t *target) document(prefix string) string {
	parts := []string{"'{'"}
	for _, f := range t.Columns.Fields() {
		if strings.HasPrefix(f.Name, load.Prefix) {
			continue
		}
		name, _ := json.Marshal(f.Name)
		text := string(name) + ":"
		if len(parts) > 1 {
			text = "," + text
		}
		value := t.in.JSONText(prefix+Ident(f.Name), schemas.TypeOf(f))
		parts = append(parts, t.in.Literal(text), "coalesce("+value+", 'null')")
	}
	return concat(append(parts, "'}'"))
}

// keyDocument returns an expression for the values of a row's key as a JSON array.
func (t *target) keyDocument(prefix string) string {
	parts := []string{"'['"}
	for i, k := range t.Key {
		if i > 0 {
			parts = append(parts, "','")
		}
		parts = append(parts, t.in.JSONText(prefix+Ident(k), load.TypeOf(t.Columns, k)))
	}
	return concat(append(parts, "']'"))
}
