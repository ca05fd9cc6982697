package sqlmerge

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
	var values []string
	if m.key.Source != "" {
		values = append(values, m.b.Literal(m.key.Source))
	}
	values = append(values, m.b.Literal(m.of.Run), m.b.Literal(m.key.Pipeline), m.b.Literal(m.key.Stream), m.b.Literal(t.Name),
		c.at, c.action, c.key, c.before, c.after)
	err := m.s.Exec(m.ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", m.b.Place(load.RowChanges.Name),
		Idents(load.Names(m.ownTable(load.RowChanges).Columns)), strings.Join(values, ", "), c.from))
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
	return m.s.Stage(m.ctx, t.staged, t.Columns, scanned, func(from string) error {
		c := change{
			at: "r." + schemas.ColSyncedAt, action: "'insert'", key: "r." + schemas.ColHash, before: "NULL", after: m.document("r.", t),
			from: fmt.Sprintf("%s AS s JOIN %s AS r ON r.%s = s.o WHERE s.st < %s", m.b.Temp(status), from, schemas.ColOrdinal, isUnchanged),
		}
		if len(t.Key) > 0 {
			c.action = "CASE WHEN s.st = " + isNew + " THEN 'insert' WHEN s.revived THEN 'revive' ELSE 'update' END"
			c.key = m.keyDocument("r.", t)
			c.before = "CASE WHEN s.st <> " + isNew + " THEN " + m.document("t.", t) + " END"
			c.from = fmt.Sprintf("%s AS s JOIN %s AS r ON r.%s = s.o LEFT JOIN %s AS t ON %s WHERE s.st < %s",
				m.b.Temp(status), from, schemas.ColOrdinal, m.b.Place(t.Name), on("s", t.Key)+m.ownRowsSQL(t, "t.")+m.isLast(t), isUnchanged)
		}
		return m.logRow(t, c)
	})
}

// isLast returns " AND" and the condition that a row t is the last version of a record in the status table.
func (m *merge) isLast(t *target) string {
	if t.Mode != schemas.Append && t.Mode != schemas.History {
		return ""
	}
	order := ""
	if t.Mode == schemas.History {
		order = t.currentSQL("t.") + " DESC, "
	}
	key := make([]string, len(t.Key))
	for i, k := range t.Key {
		key[i] = "t." + Ident(k)
	}
	return fmt.Sprintf(" AND t.%s IN (SELECT id FROM (SELECT t.%[1]s AS id, row_number() OVER (PARTITION BY %[2]s ORDER BY %[3]st.%[4]s DESC, t.%[5]s DESC) AS i FROM %[6]s AND %[7]s) AS v WHERE i = 1)",
		m.b.RowID(), strings.Join(key, ", "), order, schemas.ColRun, schemas.ColSyncedAt, m.ownRows(t), m.keyIn(t, m.b.Temp(status)))
}

// logMissing logs the rows that a sweep is about to delete.
func (m *merge) logMissing(t *target) error {
	if !m.of.Log {
		return nil
	}
	return m.logRow(t, change{
		at: m.b.Timestamp(m.when), action: "'delete'", key: m.keyDocument("t.", t), before: m.document("t.", t), after: "NULL",
		from: fmt.Sprintf("%s AND %s AND %s", m.ownRows(t), m.keyIn(t, m.b.Temp(missing)), t.currentSQL("t.")),
	})
}

// logSurplus logs the surplus rows of a table without a key, which are about to be deleted.
func (m *merge) logSurplus(t *target) error {
	if !m.of.Log || load.Child(t.Columns) {
		return nil
	}
	return m.logRow(t, change{
		at: m.b.Timestamp(m.when), action: "'delete'", key: "t." + schemas.ColHash, before: m.document("t.", t), after: "NULL",
		from: m.b.Place(t.Name) + " AS t WHERE " + m.isSurplus(),
	})
}

// document returns an expression for a row as a JSON object, without penstock's own columns. The prefix is put before
// the column names.
func (m *merge) document(prefix string, t *target) string {
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
		value := m.b.Cast(prefix+Ident(f.Name), schemas.TypeOf(f), schemas.JSON)
		if schemas.SameType(schemas.TypeOf(f), schemas.JSON) { // the stored text may be invalid JSON
			value = "CASE WHEN json_valid(" + value + ") THEN " + value + " ELSE " + m.b.Cast(value, schemas.Text, schemas.JSON) + " END"
		}
		parts = append(parts, m.b.Literal(text), "coalesce("+value+", 'null')")
	}
	return concat(append(parts, "'}'"))
}

// keyDocument returns an expression for the values of a row's key as a JSON array. The prefix is put before the column
// names.
func (m *merge) keyDocument(prefix string, t *target) string {
	parts := []string{"'['"}
	for i, k := range t.Key {
		if i > 0 {
			parts = append(parts, "','")
		}
		parts = append(parts, m.b.Cast(prefix+Ident(k), load.TypeOf(t.Columns, k), schemas.JSON))
	}
	return concat(append(parts, "']'"))
}
