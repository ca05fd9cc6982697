package sqlmerge

import (
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// rowLog writes a row to [load.RowChanges] for each row that a pass inserts, changes or deletes. A nil rowLog writes
// nothing.
type rowLog struct {
	sql *statements
	key state.Key
}

// change holds the expressions for a row of [load.RowChanges], and the FROM clause that they refer to.
type change struct {
	at, action, key, before, after string
	from                           string
}

func (l *rowLog) add(t *target, c change) error {
	values := []string{
		t.in.Literal(t.in.run), t.in.Literal(l.key.Pipeline), t.in.Literal(l.key.Stream), t.in.Literal(t.Name),
		c.at, c.action, c.key, t.in.traits.asJSON(c.before), t.in.traits.asJSON(c.after),
	}
	if l.key.Source != "" {
		values = append([]string{t.in.Literal(l.key.Source)}, values...)
	}
	err := l.sql.exec(fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", t.in.Place(load.RowChanges.Name),
		Idents(load.Names(t.in.ownTable(load.RowChanges).Columns)), strings.Join(values, ", "), c.from))
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

// The method deleted() logs rows that are about to be deleted. The parameter `from` is a FROM clause. The parameters
// `key` and `before` are expressions over the rows of this clause: the key, and the row as it was before.
func (l *rowLog) deleted(t *target, key, before, from string) error {
	if l == nil {
		return nil
	}
	return l.add(t, change{at: t.in.Timestamp(t.in.when), action: "'delete'", key: key, before: before, after: "NULL", from: from})
}

// The method written() logs the records that are about to be written, with their previous rows.
func (l *rowLog) written(t *target, n counts) error {
	if l == nil || load.IsInternal(t.Name) || n.written() == 0 {
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
	rows, err := l.staged(t, n)
	if err != nil {
		return err
	}
	defer rows.Release()
	return l.sql.Stage(l.sql.ctx, rows, t.Columns, scanned, func(from string) error {
		records := "SELECT * FROM " + t.in.Temp(status) + " WHERE " + isWritten
		c := change{at: "r." + schemas.ColSyncedAt, action: "'insert'", key: "r." + schemas.ColHash, before: "NULL", after: t.document("r.")}
		if len(t.Key) > 0 {
			with, item := storedSQL(t, records, ", "+t.document("t.")+" AS d")
			records = with + "SELECT s.o, s.st, s.revived, CASE WHEN lk IS NOT NULL THEN d END AS d FROM " + item
			c.action = "CASE WHEN s.st = " + isNew + " THEN 'insert' WHEN s.revived THEN 'revive' ELSE 'update' END"
			c.key, c.before = t.keyDocument("r."), "s.d"
		}
		c.from = fmt.Sprintf("(%s) AS s JOIN %s AS r ON r.%s = s.o", records, from, schemas.ColOrdinal)
		return l.add(t, c)
	})
}

// The method staged() returns the staged rows of the records that get a new row. If many of the staged rows belong to
// such records, it returns all staged rows. The caller releases the result.
func (l *rowLog) staged(t *target, n counts) (*load.Staged, error) {
	few := n.written() <= max(4, t.staged.Rows/16)
	chosen := map[int64]bool{}
	if few {
		err := l.sql.Query(l.sql.ctx, "SELECT o FROM "+t.in.Temp(status)+" WHERE "+isWritten, func(v []driver.Value) error {
			ordinal, _ := v[0].(int64)
			chosen[ordinal] = true
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
			if !chosen[ordinal] {
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
