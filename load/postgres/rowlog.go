package postgres

import (
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Actions in the rows of [load.RowChanges].
const (
	actionInsert = "insert"
	actionUpdate = "update"
	actionDelete = "delete"
	actionRevive = "revive"
)

// beforeRows is a temporary table with the previous rows of changed records: the ordinal o of the record, and d, the
// row as JSON.
const beforeRows = "pg_temp.penstock_before"

// before stores the current rows of the records that are about to change, if [load.Pass].Log is set.
func (m *merge) before(t *target) error {
	if !m.of.Log {
		return nil
	}
	return m.s.run(m.ctx, temporary(beforeRows, "ON COMMIT DROP AS SELECT s.o, "+document(t)+" AS d FROM "+status+" AS s JOIN "+
		m.db.place(t.Name)+" AS t ON t.ctid = s.tid WHERE s.st = "+isChanged))
}

// after logs the records that were written. It also logs the rows that before has stored.
func (m *merge) after(t *target) error {
	if !m.of.Log {
		return nil
	}
	action := fmt.Sprintf("CASE WHEN s.st = %s THEN '%s' WHEN s.live THEN '%s' ELSE '%s' END", isNew, actionInsert, actionUpdate, actionRevive)
	live := ""
	if t.Mode == schemas.History {
		live = " AND t." + t.ended() + " IS NULL"
	}
	written := "LATERAL (SELECT * FROM " + m.db.place(t.Name) + " AS t WHERE " + on("s", t.Key) + m.ownRowsSQL(t) + live + " AND t." + ident(schemas.ColHash) + " = s.h ORDER BY t." +
		ident(schemas.ColRun) + ` COLLATE "C" DESC, t.` + ident(schemas.ColSyncedAt) + " DESC LIMIT 1) AS t"
	return m.logRows(t, "s.y", action, keyDocument(t, "t."), "b.d", document(t),
		status+" AS s JOIN "+written+" ON true LEFT JOIN "+beforeRows+" AS b ON b.o = s.o WHERE s.st < "+isUnchanged+" ORDER BY s.o")
}

// logKeyless logs the rows that were added to a table without a key. For each, it logs a stored row with the same
// hash. It does not matter which one, because such rows are equal.
func (m *merge) logKeyless(t *target) error {
	if !m.of.Log {
		return nil
	}
	some := "LATERAL (SELECT * FROM " + m.db.place(t.Name) + " AS t WHERE t." + ident(schemas.ColHash) + " = s.h" + m.ownRowsSQL(t) + " LIMIT 1) AS t"
	return m.logRows(t, "s.y", "'"+actionInsert+"'", "s.h", "NULL", document(t), status+" AS s JOIN "+some+" ON true WHERE s.st = "+isNew+" ORDER BY s.o")
}

// logMissing logs the rows that are about to be deleted.
func (m *merge) logMissing(t *target) error {
	if !m.of.Log {
		return nil
	}
	return m.logRows(t, timestamp(m.commitTime), "'"+actionDelete+"'", keyDocument(t, "t."), document(t), "NULL",
		missingRows+" AS s JOIN "+m.db.place(t.Name)+" AS t ON t.ctid = s.tid")
}

// logTrimmed logs the rows that are about to be deleted from a table without a key.
func (m *merge) logTrimmed(t *target) error {
	if !m.of.Log {
		return nil
	}
	return m.logRows(t, timestamp(m.commitTime), "'"+actionDelete+"'", "t."+ident(schemas.ColHash), document(t), "NULL",
		m.db.place(t.Name)+" AS t WHERE "+m.isSurplus(t))
}

func (m *merge) logRows(t *target, at, action, key, before, after, from string) error {
	if err := m.db.step("log"); err != nil {
		return err
	}
	column, owner := "", ""
	if m.key.Source != "" {
		column, owner = ident(schemas.ColSource)+", ", literal(m.key.Source)+", "
	}
	return m.s.run(m.ctx, fmt.Sprintf(`INSERT INTO %s (%srun, pipeline, stream, "table", at, action, key, before, after) SELECT %s%s, %s, %s, %s, %s, %s, %s, CAST(%s AS json), CAST(%s AS json) FROM %s`,
		m.db.place(load.RowChanges.Name), column, owner, literal(m.of.Run), literal(m.key.Pipeline), literal(m.key.Stream), literal(t.Name), at, action, key, before, after, from))
}

// document returns an expression for a row t as a JSON object, without whitespace. Its members are in the order of
// the columns, without penstock's own columns.
func document(t *target) string {
	parts := []string{"'{'"}
	for _, f := range t.Columns.Fields() {
		if strings.HasPrefix(f.Name, load.Prefix) {
			continue
		}
		name := string(load.AppendQuoted(nil, f.Name)) + ":"
		if len(parts) > 1 {
			name = "," + name
		}
		parts = append(parts, literal(name), "coalesce("+jsonOf("t."+ident(f.Name), schemas.TypeOf(f))+", 'null')")
	}
	return strings.Join(append(parts, "'}'"), " || ")
}

// keyDocument returns an expression for the key of a row as a JSON array. prefix is written before the names of
// columns.
func keyDocument(t *target, prefix string) string {
	values := make([]string, len(t.Key))
	for i, k := range t.Key {
		values[i] = jsonOf(prefix+ident(k), load.TypeOf(t.Columns, k))
	}
	return "'[' || " + strings.Join(values, " || ',' || ") + " || ']'"
}
