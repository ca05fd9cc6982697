package sqlmerge

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

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
		c.at, c.action, c.key, m.db.traits.asJSON(c.before), m.db.traits.asJSON(c.after))
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
	rows, err := m.loggedRows(t, n)
	if err != nil {
		return err
	}
	defer rows.Release()
	return m.s.Stage(m.ctx, rows, t.Columns, scanned, func(from string) error {
		c := change{
			at: "r." + schemas.ColSyncedAt, action: "'insert'", key: "r." + schemas.ColHash, before: "NULL", after: m.document("r.", t),
			from: fmt.Sprintf("%s AS s JOIN %s AS r ON r.%s = s.o WHERE s.st < %s", m.b.Temp(status), from, schemas.ColOrdinal, isUnchanged),
		}
		if len(t.Key) > 0 {
			c.action = "CASE WHEN s.st = " + isNew + " THEN 'insert' WHEN s.revived THEN 'revive' ELSE 'update' END"
			c.key = m.keyDocument("r.", t)
			c.before = "s.d"
			c.from = fmt.Sprintf("%s AS s JOIN %s AS r ON r.%s = s.o WHERE s.st < %s", m.loggedSQL(t), from, schemas.ColOrdinal, isUnchanged)
		}
		return m.logRow(t, c)
	})
}

// loggedRows returns the staged rows of the records that get a new row. It returns all rows if these records are not few.
// The caller releases the result.
func (m *merge) loggedRows(t *target, n counts) (*load.Staged, error) {
	few := n.written() <= max(4, t.staged.Rows/16)
	written := map[int64]bool{}
	if few {
		err := m.s.Query(m.ctx, "SELECT o FROM "+m.b.Temp(status)+" WHERE st < "+isUnchanged, func(v []driver.Value) error {
			ordinal, _ := v[0].(int64)
			written[ordinal] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	rows := &load.Staged{Table: schemas.Table{Name: t.Name, Key: t.Key}}
	for _, b := range t.staged.Batches {
		if !few {
			if err := rows.Add(b); err != nil {
				return rows, err
			}
			continue
		}
		for row, ordinal := range column(b, schemas.ColOrdinal).(*array.Int64).Int64Values() {
			if !written[ordinal] {
				continue
			}
			one := b.NewSlice(int64(row), int64(row)+1)
			err := rows.Add(one)
			one.Release()
			if err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

// loggedSQL returns a FROM item with the records that get a new row. The column d is the document of the previous row,
// or null. See storedSQL for the kinds of joins.
func (m *merge) loggedSQL(t *target) string {
	columns, first := m.document("t.", t)+" AS d", ""
	if t.Mode == schemas.Append || t.Mode == schemas.History {
		order := m.db.traits.bytewise("t."+schemas.ColRun) + " DESC, t." + schemas.ColSyncedAt + " DESC"
		if t.Mode == schemas.History {
			order = t.currentSQL("t.") + " DESC, " + order
		}
		columns += ", row_number() OVER (PARTITION BY s.o ORDER BY " + order + ") AS i"
		first = " WHERE i = 1"
	}
	stored := m.b.Place(t.Name) + " AS t ON " + on("s", t.Key) + m.ownRowsSQL(t, "t.")
	replaces := fmt.Sprintf("s.st IN (%s, %s)", isChanged, isNext)
	if m.db.traits.InnerFirst {
		previous := fmt.Sprintf("SELECT s.o, %s FROM %s AS s JOIN %s WHERE %s", columns, m.b.Temp(status), stored, replaces)
		return fmt.Sprintf("(SELECT s.o, s.st, s.revived, p.d FROM %s AS s LEFT JOIN (SELECT o, d FROM (%s) AS p%s) AS p ON p.o = s.o)", m.b.Temp(status), previous, first)
	}
	return fmt.Sprintf("(SELECT o, st, revived, CASE WHEN %s THEN d END AS d FROM (SELECT s.o, s.st, s.revived, %s FROM %s AS s LEFT JOIN %s WHERE s.st < %s) AS s%s)",
		replaces, columns, m.b.Temp(status), stored, isUnchanged, first)
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

// logSurplus logs the surplus rows of a table without a key, which are about to be deleted. The parameter document is
// the document of a row t in the table of counted rows.
func (m *merge) logSurplus(t *target, document string) error {
	return m.logRow(t, change{
		at: m.b.Timestamp(m.when), action: "'delete'", key: "t.h", before: document, after: "NULL",
		from: m.b.Temp(counted) + " AS t WHERE t.i > t.n",
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
		value := m.b.JSONText(prefix+Ident(f.Name), schemas.TypeOf(f))
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
		parts = append(parts, m.b.JSONText(prefix+Ident(k), load.TypeOf(t.Columns, k)))
	}
	return concat(append(parts, "']'"))
}
