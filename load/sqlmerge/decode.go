package sqlmerge

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// EachRow passes each row of a result to the function row().
func EachRow(rows *sql.Rows, row func([]driver.Value) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	cells, into, values := make([]any, len(names)), make([]any, len(names)), make([]driver.Value, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, cell := range cells {
			values[i] = cell
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// A batch of a result ends when it has batchRows rows, or when its texts and bytes have batchBytes bytes. // Invariant 6
const (
	batchRows  = 4096
	batchBytes = 4 << 20
)

// sizeOf returns how many bytes the texts and bytes of a row have.
func sizeOf(v []driver.Value) (n int) {
	for _, cell := range v {
		switch cell := cell.(type) {
		case string:
			n += len(cell)
		case []byte:
			n += len(cell)
		}
	}
	return n
}

// StreamRows implements [Reader].Stream: it passes batches of a result to the function visit. The batches have the
// given columns.
func StreamRows(rows *sql.Rows, columns *arrow.Schema, visit func(arrow.RecordBatch) error) error {
	w := newBatches(columns, visit)
	defer w.release()
	if err := EachRow(rows, w.add); err != nil {
		return err
	}
	return w.flush()
}

// batches collects rows of a result into batches.
type batches struct {
	columns *arrow.Schema
	builder *array.RecordBuilder
	rows    int
	bytes   int
	visit   func(arrow.RecordBatch) error
}

func newBatches(columns *arrow.Schema, visit func(arrow.RecordBatch) error) *batches {
	return &batches{columns: columns, builder: array.NewRecordBuilder(memory.DefaultAllocator, columns), visit: visit}
}

// add adds a row.
func (w *batches) add(v []driver.Value) error {
	for i, f := range w.columns.Fields() {
		if err := appendValue(w.builder.Field(i), schemas.TypeOf(f), v[i]); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	w.rows, w.bytes = w.rows+1, w.bytes+sizeOf(v)
	if w.rows < batchRows && w.bytes < batchBytes {
		return nil
	}
	return w.flush()
}

// release releases the memory.
func (w *batches) release() { w.builder.Release() }

// flush passes the collected rows to visit().
func (w *batches) flush() error {
	if w.rows == 0 {
		return nil
	}
	return w.pass()
}

func (w *batches) pass() error {
	w.rows, w.bytes = 0, 0
	b := w.builder.NewRecordBatch()
	defer b.Release()
	return w.visit(b)
}

// Results passes batches of the result of a user's query to the function visit. The function typeOf returns the type
// of a column. If it returns false, the values in the first rows determine the type. A row may have at most [load.MostRow]
// bytes.
func Results(rows *sql.Rows, typeOf func(*sql.ColumnType) (arrow.DataType, bool), visit func(arrow.RecordBatch) error) error {
	declared, err := rows.ColumnTypes()
	if err != nil {
		return errors.Join(err, rows.Close())
	}
	var head [][]driver.Value
	held := 0
	var w *batches
	begin := func() error {
		w = newBatches(columnsOf(declared, typeOf, head), visit)
		for _, v := range head {
			if err := w.add(v); err != nil {
				return err
			}
		}
		return nil
	}
	err = EachRow(rows, func(v []driver.Value) error {
		size := sizeOf(v)
		if size > load.MostRow { // Invariant 6
			return load.ErrTooLarge
		}
		if w != nil {
			return w.add(v)
		}
		held += size
		if head = append(head, append([]driver.Value(nil), v...)); len(head) < batchRows && held < load.MostRow {
			return nil
		}
		return begin()
	})
	if err == nil && w == nil {
		err = begin()
	}
	if w == nil {
		return err
	}
	defer w.release()
	if err != nil {
		return err
	}
	if len(head) == 0 {
		return w.pass()
	}
	return w.flush()
}

func columnsOf(declared []*sql.ColumnType, typeOf func(*sql.ColumnType) (arrow.DataType, bool), head [][]driver.Value) *arrow.Schema {
	fields := make([]arrow.Field, len(declared))
	for i, c := range declared {
		t, ok := typeOf(c)
		if !ok {
			t = typeOfValues(head, i)
		}
		fields[i] = schemas.Field(c.Name(), t, "")
	}
	return arrow.NewSchema(fields, nil)
}

// typeOfValues returns a type that fits the values of a column.
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

// appendValue appends a stored value of type t to a batch.
func appendValue(b array.Builder, t arrow.DataType, v driver.Value) error {
	if v == nil {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		switch v := v.(type) {
		case bool:
			b.Append(v)
			return nil
		case int64:
			b.Append(v != 0)
			return nil
		}
	case *array.Int64Builder:
		if v, ok := v.(int64); ok {
			b.Append(v)
			return nil
		}
	case *array.Float64Builder:
		switch v := v.(type) {
		case float64:
			b.Append(v)
			return nil
		case int64:
			b.Append(float64(v))
			return nil
		}
	case *array.BinaryBuilder:
		if v, ok := v.([]byte); ok {
			b.Append(v)
			return nil
		}
	}
	switch v := v.(type) {
	case string:
		return appendText(b, t, v)
	case []byte:
		return appendText(b, t, string(v))
	}
	if b, ok := b.(*array.StringBuilder); ok {
		b.Append(fmt.Sprint(v))
		return nil
	}
	return fmt.Errorf("the value %v is not of type %s; write CAST(column AS TEXT) to read it", v, schemas.TypeName(t))
}

// appendText appends a value that is stored as text.
func appendText(b array.Builder, t arrow.DataType, text string) (err error) {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(text)
	case *array.Decimal128Builder:
		d := t.(*arrow.Decimal128Type)
		var n decimal128.Num
		if n, err = decimal128.FromString(text, d.Precision, d.Scale); err == nil {
			b.Append(n)
		}
	case *array.Date32Builder:
		var day time.Time
		if day, err = time.Parse(time.DateOnly, text); err == nil {
			b.Append(arrow.Date32FromTime(day))
		}
	case *array.TimestampBuilder:
		var at time.Time
		if at, err = parseTime(text); err == nil {
			b.Append(arrow.Timestamp(at.UnixMicro()))
		}
	case *array.ListBuilder:
		err = appendList(b, t.(*arrow.ListType).Elem(), text)
	case *array.BooleanBuilder:
		var v bool
		if v, err = strconv.ParseBool(text); err == nil {
			b.Append(v)
		}
	case *array.Int64Builder:
		if whole, fraction, ok := strings.Cut(text, "."); ok && strings.Trim(fraction, "0") == "" { // an integer in a decimal column, such as 7.00
			text = whole
		}
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err == nil {
			b.Append(n)
		}
	case *array.Float64Builder:
		var n float64
		if n, err = strconv.ParseFloat(text, 64); err == nil {
			b.Append(n)
		}
	default:
		err = fmt.Errorf("cannot read type %s from text", schemas.TypeName(t))
	}
	if err != nil {
		return fmt.Errorf("read %s %q: %w", schemas.TypeName(t), text, err)
	}
	return nil
}

func appendList(b *array.ListBuilder, elem arrow.DataType, text string) error {
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		return err
	}
	b.Append(true)
	for _, item := range items {
		text := string(item)
		switch {
		case text == "null":
			b.ValueBuilder().AppendNull()
			continue
		case text[0] == '"' && !schemas.SameType(elem, schemas.JSON):
			if err := json.Unmarshal(item, &text); err != nil {
				return err
			}
		}
		if err := appendText(b.ValueBuilder(), elem, text); err != nil {
			return err
		}
	}
	return nil
}

// parseTime parses a time with or without a fraction. Time zones can make years of five digits, which [time.Parse]
// does not accept.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateTime} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	var year, month, day, hour, minute, second, micros int
	if _, err := fmt.Sscanf(text, "%d-%d-%dT%d:%d:%d.%dZ", &year, &month, &day, &hour, &minute, &second, &micros); err != nil {
		return time.Time{}, err
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, 1000*micros, time.UTC), nil
}
