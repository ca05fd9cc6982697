package sqlmerge

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// StagedRows are the staged rows that a statement inserts.
type StagedRows struct {
	Names []string // names of the columns to insert

	batches   []arrow.RecordBatch
	columns   *arrow.Schema          // columns of the table
	stamp     string                 // the layout of times, as in [time.Time.Format]
	chosen    map[int64]driver.Value // the rows to insert, by ordinal; nil: all rows
	validFrom int                    // index of [schemas.ColValidFrom] in Names, or -1
}

// Rows returns the staged rows that an insertion appends. If i.Chosen is a query, Rows runs it to find the ordinals of
// these rows.
func (i Insertion) Rows(ctx context.Context, r Reader, stamp string) (StagedRows, error) {
	s := StagedColumns(i.Staged, i.Table.Columns, load.Names(i.Table.Columns), stamp)
	if i.Table.Mode == schemas.History {
		s.validFrom = slices.Index(s.Names, schemas.ColValidFrom)
	}
	if i.Chosen == "" {
		return s, nil
	}
	s.chosen = map[int64]driver.Value{}
	err := r.Query(ctx, i.Chosen, func(v []driver.Value) error {
		ordinal, _ := v[0].(int64)
		s.chosen[ordinal] = nil
		if i.Valid {
			s.chosen[ordinal] = v[1]
		}
		return nil
	})
	return s, err
}

// StagedColumns returns the named columns of all staged rows.
func StagedColumns(staged *load.Staged, columns *arrow.Schema, names []string, stamp string) StagedRows {
	return StagedRows{Names: names, batches: staged.Batches, columns: columns, stamp: stamp, validFrom: -1}
}

// RowSession is a [Session] that inserts rows with INSERT statements.
type RowSession interface {
	Session
	// InsertRows inserts rows into a table.
	InsertRows(ctx context.Context, table string, rows StagedRows) error
}

// StageRows implements [Session].Stage: it inserts rows into a temporary table. In the definition of that table, the
// text in options follows the columns.
func StageRows(ctx context.Context, s RowSession, d Dialect, rows StagedRows, options string, use func(from string) error) error {
	const table = "_penstock_rows"
	defs := make([]string, len(rows.Names))
	for i, name := range rows.Names {
		defs[i] = Definition(d, name, load.TypeOf(rows.columns, name))
	}
	if err := s.CreateTemp(ctx, table, "("+strings.Join(defs, ", ")+")"+options); err != nil {
		return err
	}
	place := d.Temp(table)
	if err := s.InsertRows(ctx, place, rows); err != nil {
		return err
	}
	if err := use(place); err != nil {
		return err
	}
	return s.Exec(ctx, "DROP TABLE "+place)
}

// Each passes the values of each row to the function row(), in the order of the names. A value is nil, bool, int64,
// float64 or string. The function must not keep its argument.
func (s StagedRows) Each(ctx context.Context, row func(values []any) error) error {
	values := make([]any, len(s.Names))
	for _, b := range s.batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		cells, err := s.encoders(b)
		if err != nil {
			return err
		}
		ordinals := b.Column(b.Schema().FieldIndices(schemas.ColOrdinal)[0]).(*array.Int64)
		for r := range int(b.NumRows()) {
			begin, ok := s.chosen[ordinals.Value(r)]
			if s.chosen != nil && !ok {
				continue
			}
			for c, cell := range cells {
				values[c] = cell(r)
			}
			if s.validFrom >= 0 && begin != nil {
				values[s.validFrom] = begin
			}
			if err := row(values); err != nil {
				return err
			}
		}
	}
	return nil
}

// encoders returns an encoder for each named column of a batch.
func (s StagedRows) encoders(b arrow.RecordBatch) ([]func(row int) any, error) {
	cells := make([]func(row int) any, len(s.Names))
	for i, name := range s.Names {
		to := load.TypeOf(s.columns, name)
		if i == s.validFrom {
			name = schemas.ColSyncedAt
		}
		at := b.Schema().FieldIndices(name)
		if len(at) == 0 {
			cells[i] = func(int) any { return nil }
			continue
		}
		var err error
		if cells[i], err = encoder(b.Column(at[0]), schemas.TypeOf(b.Schema().Field(at[0])), to, s.stamp); err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
	}
	return cells, nil
}

// encoder returns a function for a column. The function returns the value to store for the given row. It converts the
// value from the type of the column to the wider type of the stored value. The parameter `stamp` is the layout of
// times.
func encoder(a arrow.Array, from, to arrow.DataType, stamp string) (func(row int) any, error) {
	if !schemas.SameType(from, to) {
		return func(row int) any {
			if a.IsNull(row) {
				return nil
			}
			return stored(WidenDocument(document(a, from, row), from, to), to)
		}, nil
	}
	var value func(row int) any
	switch a := a.(type) {
	case *array.Boolean:
		value = func(row int) any { return a.Value(row) }
	case *array.Int64:
		value = func(row int) any { return a.Value(row) }
	case *array.Float64:
		value = func(row int) any { return a.Value(row) }
	case *array.String:
		value = func(row int) any { return a.Value(row) }
	case *array.Decimal128:
		scale := to.(*arrow.Decimal128Type).Scale
		value = func(row int) any { return a.Value(row).ToString(scale) }
	case *array.Date32:
		value = func(row int) any { return a.Value(row).ToTime().Format(time.DateOnly) }
	case *array.Timestamp:
		value = func(row int) any { return time.UnixMicro(int64(a.Value(row))).UTC().Format(stamp) }
	case *array.List:
		value = func(row int) any { return document(a, from, row) }
	default:
		return nil, fmt.Errorf("cannot store %s", a.DataType())
	}
	return func(row int) any {
		if a.IsNull(row) {
			return nil
		}
		return value(row)
	}, nil
}

// document returns a value of type t as JSON.
func document(a arrow.Array, t arrow.DataType, row int) string {
	if a.IsNull(row) {
		return "null"
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.FormatBool(a.Value(row))
	case *array.Int64:
		return strconv.FormatInt(a.Value(row), 10)
	case *array.Float64:
		return strconv.FormatFloat(a.Value(row), 'g', -1, 64)
	case *array.Decimal128:
		return a.Value(row).ToString(t.(*arrow.Decimal128Type).Scale)
	case *array.Date32:
		return `"` + a.Value(row).ToTime().Format(time.DateOnly) + `"`
	case *array.Timestamp:
		text := time.UnixMicro(int64(a.Value(row))).UTC().Format("2006-01-02T15:04:05.000000Z")
		return `"` + strings.Replace(text, ".000000Z", "Z", 1) + `"`
	case *array.List:
		from, to := a.ValueOffsets(row)
		items := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			items = append(items, document(a.ListValues(), t.(*arrow.ListType).Elem(), int(i)))
		}
		return "[" + strings.Join(items, ",") + "]"
	case *array.String:
		if schemas.SameType(t, schemas.JSON) {
			return a.Value(row)
		}
		return string(load.AppendQuoted(nil, a.Value(row)))
	}
	return "null"
}

// WidenDocument converts the JSON of a value to the JSON of the same value in a wider type.
func WidenDocument(document string, from, to arrow.DataType) string {
	if document == "null" {
		return document
	}
	switch to := to.(type) {
	case *arrow.Decimal128Type:
		whole, fraction, _ := strings.Cut(document, ".")
		if to.Scale == 0 {
			return whole
		}
		return whole + "." + fraction + strings.Repeat("0", int(to.Scale)-len(fraction))
	case *arrow.StringType:
		if document[0] != '"' {
			return string(load.AppendQuoted(nil, document))
		}
	case *arrow.ListType:
		var items []json.RawMessage
		if json.Unmarshal([]byte(document), &items) != nil {
			return document
		}
		out := make([]string, len(items))
		for i, item := range items {
			out[i] = WidenDocument(string(item), from.(*arrow.ListType).Elem(), to.Elem())
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	return document
}

// The function stored() converts the JSON of a widened value to the value to store.
func stored(document string, t arrow.DataType) any {
	if document == "null" && !schemas.SameType(t, schemas.JSON) {
		return nil
	}
	switch t.(type) {
	case *schemas.JSONType, *arrow.Decimal128Type, *arrow.ListType:
		return document
	case *arrow.StringType:
		var text string
		if json.Unmarshal([]byte(document), &text) == nil {
			return text
		}
	}
	return nil // the value is [], and the column had only empty lists before
}

// WidenLists converts the items of the lists in a column, for databases whose functions for JSON would change numbers.
// The column id identifies a row.
func WidenLists(ctx context.Context, s Session, d Dialect, table, id string, w load.Widening, to *arrow.ListType) error {
	column, place := Ident(w.Column.Name), d.Place(table)
	for last := int64(-1 << 63); ; {
		found := map[int64]string{}
		query := fmt.Sprintf("SELECT %s, %s FROM %s WHERE %[1]s > %[4]d AND %[2]s IS NOT NULL ORDER BY 1 LIMIT %[5]d", id, column, place, last, batchRows)
		err := s.Query(ctx, query, func(v []driver.Value) error {
			last, _ = v[0].(int64)
			found[last], _ = v[1].(string)
			return nil
		})
		if err != nil || len(found) == 0 {
			return err
		}
		for row, text := range found {
			wide := d.Literal(WidenDocument(text, w.From, to))
			if err := s.Exec(ctx, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s = %d", place, column, wide, id, row)); err != nil {
				return err
			}
		}
	}
}
