package browse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Limits limit the result of a query. // Invariant 6
type Limits struct {
	Rows  int
	Bytes int // bytes of the rows, as JSON
}

// Limits of a result that a caller may ask for.
const (
	DefaultRows = 200
	MaxRows     = 1000
)

// Column is a column of a query's result.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Numeric reports whether the column has numbers.
func (c Column) Numeric() bool { return kind(c.Type) == kindNumber }

// Text returns a value of a result as text. The text of null is empty.
func Text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// Result is the result of a query.
type Result struct {
	Columns  []Column `json:"columns"`
	Rows     [][]any  `json:"rows" jsonschema:"values in the order of columns; decimals and integers beyond 2^53 are texts, so that no digit is lost"`
	Complete bool     `json:"complete" jsonschema:"false if rows were left out"`
	Cut      string   `json:"cut,omitempty" jsonschema:"why rows were left out"`
	Tables   []Proof  `json:"tables" jsonschema:"how fresh and how complete the tables are that the statement names"`
	Note     string   `json:"note,omitempty"`
}

// errEnough ends a query whose result has more rows than the limits allow.
var errEnough = errors.New("enough rows")

// collector collects the rows of a query, up to the limits.
type collector struct {
	limits  Limits
	Columns []Column
	Rows    [][]any
	Cut     string
	bytes   int
}

// ask runs a statement and collects its rows.
func (r *collector) ask(ctx context.Context, d *open.Reader, sql string) error {
	err := d.Ask(ctx, func(q load.Querier) error { return q.Query(ctx, sql, r.add) })
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// add adds a batch. If it has more rows than the limits allow, add returns errEnough, and the query ends.
// Invariant 6
func (r *collector) add(b arrow.RecordBatch) error {
	if r.Columns == nil {
		r.Columns, r.Rows = []Column{}, [][]any{}
		for _, f := range b.Schema().Fields() {
			r.Columns = append(r.Columns, Column{f.Name, schemas.TypeName(schemas.TypeOf(f))})
		}
	}
	for i := range int(b.NumRows()) {
		if len(r.Rows) == r.limits.Rows {
			r.Cut = fmt.Sprintf("only the first %d rows are returned; aggregate in SQL, or set limit, at most %d", r.limits.Rows, MaxRows)
			return errEnough
		}
		row, size, err := cells(b, i, r.limits.Bytes-r.bytes)
		if err != nil {
			return fmt.Errorf("row %d: %w", len(r.Rows)+1, err)
		}
		if r.bytes += size; r.bytes > r.limits.Bytes {
			r.Cut = fmt.Sprintf("only the first %d rows are returned, because the result has more than %d bytes; select fewer columns, or shorten long texts with left(column, 200)", len(r.Rows), r.limits.Bytes)
			return errEnough
		}
		r.Rows = append(r.Rows, row)
	}
	return nil
}

// cells returns a row, and its size as JSON. If the row is larger than most, cells returns no row: it measures the row before
// it copies anything.
func cells(b arrow.RecordBatch, i, most int) (row []any, size int, err error) {
	for _, column := range b.Columns() {
		if size += sizeOf(column, i, most-size); size > most { // Invariant 6
			return nil, size, nil
		}
	}
	for _, column := range b.Columns() {
		row = append(row, cell(column, i))
	}
	text, err := json.Marshal(row)
	return row, len(text), err
}

// sizeOf returns a lower bound of a value's size as JSON. If that is more than most, sizeOf may return less, but more than most.
func sizeOf(a arrow.Array, i, most int) (n int) {
	if a.IsNull(i) {
		return 0
	}
	switch a := a.(type) {
	case interface{ ValueLen(int) int }: // texts and bytes
		return a.ValueLen(i)
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		for at := from; at < to && n <= most; at++ {
			n += 1 + sizeOf(a.ListValues(), int(at), most-n)
		}
	case *array.Struct:
		for f := range a.NumField() {
			n += sizeOf(a.Field(f), i, most-n)
		}
	}
	return n
}

// exact is the largest integer up to which JSON readers keep every digit.
const exact = 1 << 53

// cell returns a value for JSON. Numbers that a reader of JSON might round are texts.
func cell(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Int64:
		if v := a.Value(i); v >= -exact && v <= exact {
			return v
		}
	case *array.Int32:
		return a.Value(i)
	case *array.Int16:
		return a.Value(i)
	case *array.Int8:
		return a.Value(i)
	case *array.Float64:
		if v := a.Value(i); !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	return strings.Clone(strings.ToValidUTF8(render.Cell(a, i), "�")) // must outlive the batch
}
