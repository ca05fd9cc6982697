package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// QueryInput are the arguments of the tool query.
type QueryInput struct {
	SQL         string `json:"sql" jsonschema:"one SELECT, WITH or EXPLAIN statement"`
	Limit       int    `json:"limit,omitempty" jsonschema:"most rows to return, 1 to 1000; default 200"`
	Destination string `json:"destination,omitempty" jsonschema:"name of the destination, if there are several"`
}

// Column is a column of a query's result.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// QueryOutput is the result of the tool query.
type QueryOutput struct {
	Columns  []Column `json:"columns"`
	Rows     [][]any  `json:"rows" jsonschema:"values in the order of columns; decimals and integers beyond 2^53 are texts, so that no digit is lost"`
	Complete bool     `json:"complete" jsonschema:"false if rows were left out"`
	Cut      string   `json:"cut,omitempty" jsonschema:"why rows were left out"`
	Tables   []Proof  `json:"tables" jsonschema:"how fresh and how complete the tables are that the statement names"`
	Note     string   `json:"note,omitempty"`
}

// queryFor returns the tool query for a caller.
func (a *Assistant) queryFor(c caller) func(context.Context, QueryInput) (QueryOutput, error) {
	return func(ctx context.Context, in QueryInput) (out QueryOutput, err error) {
		switch {
		case c.noRows != nil:
			return out, c.noRows
		case len(in.SQL) > maxStatement:
			return out, failure.Hinted(fmt.Errorf("the statement has %d bytes; at most %d are allowed", len(in.SQL), maxStatement), "write a shorter statement")
		case in.Limit < 0 || in.Limit > maxRows:
			return out, failure.Hinted(fmt.Errorf("limit %d: want 1 to %d", in.Limit, maxRows), "aggregate in SQL instead of reading many rows")
		case in.Limit == 0:
			in.Limit = defaultRows
		}
		err = a.read(ctx, in.Destination, func(d *open.Reader) error {
			out, err = a.query(ctx, d, in)
			return err
		})
		return out, err
	}
}

// query runs a statement. It reads the proofs before the rows. So the rows are at least as fresh as the proofs say.
func (a *Assistant) query(ctx context.Context, d *open.Reader, in QueryInput) (out QueryOutput, err error) {
	if err := d.Together(fmt.Sprintf("put WHERE %s = '%s' into the query", schemas.ColSource, d.Source)); err != nil {
		return out, err
	}
	if out.Tables, err = a.proofsFor(ctx, d, in.SQL); err != nil {
		return out, err
	}
	if len(out.Tables) == 0 {
		out.Tables, out.Note = []Proof{}, "the statement names no loaded table, so it is not known how fresh the result is"
	}
	r := result{limit: in.Limit}
	err = d.Ask(ctx, func(q load.Querier) error { return q.Query(ctx, in.SQL, r.add) })
	if err != nil && !errors.Is(err, errEnough) {
		if _, hinted := errors.AsType[*failure.Error](err); !hinted && !errors.Is(err, load.ErrTooLarge) {
			err = failure.Hinted(err, "list_tables lists the tables, and describe_table their columns")
		}
		return out, err
	}
	out.Columns, out.Rows, out.Cut, out.Complete = r.columns, r.rows, r.cut, r.cut == ""
	return out, nil
}

// proofsFor returns the proofs of the tables that a statement names.
func (a *Assistant) proofsFor(ctx context.Context, d *open.Reader, sql string) (all []Proof, err error) {
	tables, err := knowledge.Tables(ctx, d)
	if err != nil {
		return nil, err
	}
	found, err := named(sql, tables)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	proofs, err := a.readProofs(ctx, d)
	for _, t := range found {
		all = append(all, ofTable(proofs, t))
	}
	return all, err
}

// errEnough ends a query whose result has more rows than the assistant gets.
var errEnough = errors.New("enough rows")

// result collects the rows of a query, up to the limits.
type result struct {
	limit   int
	columns []Column
	rows    [][]any
	bytes   int
	cut     string
}

// add adds a batch. If it has more rows than the limits allow, add returns errEnough, and the query ends.
// Invariant 6
func (r *result) add(b arrow.RecordBatch) error {
	if r.columns == nil {
		r.columns, r.rows = []Column{}, [][]any{}
		for _, f := range b.Schema().Fields() {
			r.columns = append(r.columns, Column{f.Name, schemas.TypeName(schemas.TypeOf(f))})
		}
	}
	for i := range int(b.NumRows()) {
		if len(r.rows) == r.limit {
			r.cut = fmt.Sprintf("only the first %d rows are returned; aggregate in SQL, or set limit, at most %d", r.limit, maxRows)
			return errEnough
		}
		row, size, err := cells(b, i, maxBytes-r.bytes)
		if err != nil {
			return fmt.Errorf("row %d: %w", len(r.rows)+1, err)
		}
		if r.bytes += size; r.bytes > maxBytes {
			r.cut = fmt.Sprintf("only the first %d rows are returned, because the result has more than %d bytes; select fewer columns, or shorten long texts with left(column, 200)", len(r.rows), maxBytes)
			return errEnough
		}
		r.rows = append(r.rows, row)
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
