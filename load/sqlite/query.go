package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/penstock-data/penstock/schemas"
)

// ErrNotReadOnly is returned by Query for a statement that does more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES or EXPLAIN is allowed; for anything else, use another SQLite program while no sync is running")

// readOnly matches the start of the statements that Query runs. Comments may be before the first word.
var readOnly = regexp.MustCompile(`(?is)^(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:SELECT|WITH|VALUES|EXPLAIN)\b`)

// noise matches what can hold a semicolon that does not end a statement: texts, quoted names and comments.
var noise = regexp.MustCompile(`(?s)'(?:[^']|'')*'|"(?:[^"]|"")*"|` + "`[^`]*`" + `|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|$)`)

// Query implements [load.Querier]. The connection can only read the file, and can open no other.
func (d *DB) Query(ctx context.Context, query string, visit func(arrow.RecordBatch) error) error {
	if err := d.b.query(ctx, query, visit); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

func (b *backend) query(ctx context.Context, query string, visit func(arrow.RecordBatch) error) (err error) {
	if _, err := os.Stat(b.o.Path); err != nil {
		return err
	}
	statements := strings.TrimRight(noise.ReplaceAllString(query, " "), "; \t\r\n")
	if !readOnly.MatchString(query) || strings.Contains(statements, ";") {
		return ErrNotReadOnly
	}
	pool, err := connect(b.o.Path, readTimeout, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_ATTACHED, 0); err != nil {
		return err
	}
	rows, err := conn.QueryContext(ctx, query)
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_READONLY {
		return ErrNotReadOnly
	}
	if err != nil {
		return classify(err)
	}
	return results(rows, visit)
}

// results calls visit with batches of a result. Columns of tables have the types that they are declared with. The type
// of any other column is that of its values in the first batch.
func results(rows *sql.Rows, visit func(arrow.RecordBatch) error) error {
	declared, err := rows.ColumnTypes()
	if err != nil {
		return errors.Join(err, rows.Close())
	}
	var head [][]driver.Value
	var w *batcher
	begin := func() error {
		w = newBatcher(columnsOf(declared, head), visit)
		for _, v := range head {
			if err := w.add(v); err != nil {
				return err
			}
		}
		return nil
	}
	err = each(rows, func(v []driver.Value) error {
		if w != nil {
			return w.add(v)
		}
		if head = append(head, append([]driver.Value(nil), v...)); len(head) < batchRows {
			return nil
		}
		return begin()
	})
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_READONLY {
		return ErrNotReadOnly
	}
	if err == nil && w == nil {
		err = begin()
	}
	if w == nil {
		return err
	}
	defer w.builder.Release()
	if err != nil {
		return err
	}
	if len(head) == 0 {
		b := w.builder.NewRecordBatch()
		defer b.Release()
		return visit(b)
	}
	return w.flush()
}

func columnsOf(declared []*sql.ColumnType, head [][]driver.Value) *arrow.Schema {
	fields := make([]arrow.Field, len(declared))
	for i, c := range declared {
		t, ok := typeOf(c.DatabaseTypeName())
		if !ok {
			t = typeOfValues(head, i)
		}
		fields[i] = schemas.Field(c.Name(), t, "")
	}
	return arrow.NewSchema(fields, nil)
}

// typeOfValues returns a type for the values of a column.
func typeOfValues(head [][]driver.Value, column int) arrow.DataType {
	t := schemas.Null
	for _, row := range head {
		of := schemas.Text
		switch row[column].(type) {
		case nil:
			continue
		case int64:
			of = schemas.Int64
		case float64:
			of = schemas.Float64
		case bool:
			of = schemas.Bool
		case []byte:
			return arrow.BinaryTypes.Binary
		}
		if t.ID() == arrow.INT64 && of.ID() == arrow.FLOAT64 || t.ID() == arrow.FLOAT64 && of.ID() == arrow.INT64 {
			t = schemas.Float64
			continue
		}
		t = schemas.Join(t, of)
	}
	if t.ID() == arrow.NULL {
		return schemas.Text
	}
	return t
}
