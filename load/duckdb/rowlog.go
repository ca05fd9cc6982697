//go:build cgo && duckdb_arrow

package duckdb

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// change holds the expressions for a row of [load.RowChanges], and the FROM clause that they refer to.
type change struct {
	at, action, key, before, after string
	from                           string
}

func (m *merge) logRow(t *target, c change) error {
	text := func(s string) string { return "CAST(" + s + " AS VARCHAR)" }
	var values []string
	if m.key.Source != "" {
		values = append(values, literal(m.key.Source))
	}
	values = append(values,
		literal(m.of.Run), literal(m.key.Pipeline), literal(m.key.Stream), literal(t.Name),
		c.at, c.action, text(c.key), text(c.before), text(c.after),
	)
	err := m.s.exec(m.ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", place(load.RowChanges.Name),
		idents(load.Names(m.ownTable(load.RowChanges).Columns)), strings.Join(values, ", "), c.from))
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

// logWritten logs the records that are about to be written, with their previous rows.
func (m *merge) logWritten(t *target, n counts) error {
	if !m.of.Log || load.IsInternal(t.Name) || n.written() == 0 {
		return nil
	}
	scanned := []string{schemas.ColOrdinal, schemas.ColSyncedAt}
	for _, name := range load.Names(t.Columns) {
		if !load.IsInternal(name) {
			scanned = append(scanned, name)
		}
	}
	if len(t.Key) == 0 {
		scanned = append(scanned, schemas.ColHash)
	}
	return m.scan(t.staged, t.Columns, scanned, func(from string) error {
		c := change{
			at: "r." + schemas.ColSyncedAt, action: "'insert'", key: "r." + schemas.ColHash, before: "NULL", after: document("r.", t),
			from: fmt.Sprintf("%s AS s JOIN %s AS r ON r.%s = s.o WHERE s.st < %s", status, from, schemas.ColOrdinal, isUnchanged),
		}
		if len(t.Key) > 0 {
			c.action = "CASE WHEN s.st = " + isNew + " THEN 'insert' WHEN s.revived THEN 'revive' ELSE 'update' END"
			c.key = keyDocument("r.", t)
			c.before = "CASE WHEN s.st <> " + isNew + " THEN " + document("t.", t) + " END"
			c.from = fmt.Sprintf("%s AS s JOIN %s AS r ON r.%s = s.o LEFT JOIN (%s) AS t ON %s WHERE s.st < %s",
				status, from, schemas.ColOrdinal, m.lastRows(t), on("s", t.Key), isUnchanged)
		}
		return m.logRow(t, c)
	})
}

// lastRows returns a query for the last version of each record in the status table.
func (m *merge) lastRows(t *target) string {
	q := fmt.Sprintf("SELECT t.* FROM %s AS t SEMI JOIN %s AS s ON %s", m.ownRelation(t), status, on("s", t.Key))
	if t.Mode != schemas.Append && t.Mode != schemas.History {
		return q
	}
	order := ""
	if t.Mode == schemas.History {
		order = t.currentSQL("t.") + " DESC, "
	}
	key := make([]string, len(t.Key))
	for i, k := range t.Key {
		key[i] = "t." + ident(k)
	}
	return fmt.Sprintf("%s QUALIFY row_number() OVER (PARTITION BY %s ORDER BY %st.%s DESC, t.%s DESC) = 1",
		q, strings.Join(key, ", "), order, schemas.ColRun, schemas.ColSyncedAt)
}

// logMissing logs the rows that a sweep is about to delete.
func (m *merge) logMissing(t *target) error {
	if !m.of.Log {
		return nil
	}
	return m.logRow(t, change{
		at: timestamp(m.when), action: "'delete'", key: keyDocument("t.", t), before: document("t.", t), after: "NULL",
		from: fmt.Sprintf("%s AS t SEMI JOIN %s AS s ON %s WHERE %s", m.ownRelation(t), missingKeys, on("s", t.Key), t.currentSQL("t.")),
	})
}

// logSurplus logs the surplus rows of a table without a key, which are about to be deleted.
func (m *merge) logSurplus(t *target) error {
	if !m.of.Log || load.Child(t.Columns) {
		return nil
	}
	return m.logRow(t, change{
		at: timestamp(m.when), action: "'delete'", key: "t." + schemas.ColHash, before: document("t.", t), after: "NULL",
		from: surplusRows + " AS t WHERE t._penstock_rank > t._penstock_n",
	})
}

// document returns an expression for a row as a JSON object, without penstock's own columns. The prefix is put before
// the column names.
func document(prefix string, t *target) string {
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
		value := cast(prefix+ident(f.Name), schemas.TypeOf(f), schemas.JSON)
		if schemas.SameType(schemas.TypeOf(f), schemas.JSON) { // the stored text may be invalid JSON
			value = "CASE WHEN json_valid(" + value + ") THEN " + value + " ELSE " + jsonOf(value, schemas.Text) + " END"
		}
		parts = append(parts, literal(text), "coalesce("+value+", 'null')")
	}
	return "concat(" + strings.Join(append(parts, "'}'"), ", ") + ")"
}

// keyDocument returns an expression for the values of a row's key as a JSON array. The prefix is put before the column
// names.
func keyDocument(prefix string, t *target) string {
	values := make([]string, len(t.Key))
	for i, k := range t.Key {
		values[i] = cast(prefix+ident(k), load.TypeOf(t.Columns, k), schemas.JSON)
	}
	return "concat('[', " + strings.Join(values, ", ',', ") + ", ']')"
}
