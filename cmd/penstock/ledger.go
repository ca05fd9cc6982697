package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// row is a row of a batch, read by column name. A column that the table lacks is null. An earlier release may have
// created the table without the column.
type row struct {
	batch arrow.RecordBatch
	at    int
}

// value returns the value of a column, in a type that [load.Rows] accepts.
func (r row) value(name string) any {
	i := r.batch.Schema().FieldIndices(name)
	if len(i) == 0 || r.batch.Column(i[0]).IsNull(r.at) {
		return nil
	}
	switch a := r.batch.Column(i[0]).(type) {
	case *array.Int64:
		return a.Value(r.at)
	case *array.Boolean:
		return a.Value(r.at)
	case *array.Timestamp:
		return a.Value(r.at).ToTime(a.DataType().(*arrow.TimestampType).Unit).UTC()
	default:
		return strings.Clone(cell(a, r.at)) // the caller may keep the text longer than the batch
	}
}

func (r row) text(name string) string    { v, _ := r.value(name).(string); return v }
func (r row) number(name string) int64   { v, _ := r.value(name).(int64); return v }
func (r row) time(name string) time.Time { v, _ := r.value(name).(time.Time); return v }

// scan calls visit for every row of one of penstock's own tables. A table that does not exist yet has
// no rows.
func scan(ctx context.Context, d load.Destination, t schemas.Table, visit func(row) error) error {
	return d.Scan(ctx, t.Name, nil, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			if err := visit(row{b, i}); err != nil {
				return err
			}
		}
		return nil
	})
}

// answer is a table that a verb prints. Its rows do not come directly from a query.
type answer struct {
	columns []arrow.Field
	rows    [][]any
}

// project returns the given columns of one of penstock's own tables. It returns the rows for which keep returns true, or
// all rows if keep is nil.
func project(ctx context.Context, d load.Destination, t schemas.Table, columns []string, keep func(row) bool) (answer, error) {
	out := answer{columns: fields(t, columns...)}
	err := scan(ctx, d, t, func(r row) error {
		if keep != nil && !keep(r) {
			return nil
		}
		values := make([]any, len(columns))
		for i, c := range columns {
			values[i] = r.value(c)
		}
		out.rows = append(out.rows, values)
		return nil
	})
	return out, err
}

// fields returns the fields of the given columns. Table t must have them.
func fields(t schemas.Table, columns ...string) []arrow.Field {
	out := make([]arrow.Field, len(columns))
	for i, c := range columns {
		out[i] = t.Columns.Field(t.Columns.FieldIndices(c)[0])
	}
	return out
}

// sort sorts the rows by the named columns. It ignores columns that the answer lacks. The prefix - means descending.
func (t answer) sort(columns ...string) answer {
	slices.SortStableFunc(t.rows, func(a, b []any) int {
		for _, c := range columns {
			name, down := strings.CutPrefix(c, "-")
			i := slices.IndexFunc(t.columns, func(f arrow.Field) bool { return f.Name == name })
			if i < 0 {
				continue
			}
			n := compare(a[i], b[i])
			if down {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return 0
	})
	return t
}

// compare compares two values of one column. Null is less than any value.
func compare(a, b any) int {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b)
		}
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	case time.Time:
		if b, ok := b.(time.Time); ok {
			return a.Compare(b)
		}
	}
	return cmp.Compare(btoi(a != nil), btoi(b != nil))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// print prints an answer with p.
func (a *app) print(p printer, t answer) error {
	b, err := load.Rows(schemas.Table{Name: "answer", Columns: arrow.NewSchema(t.columns, nil)}, t.rows...)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	defer b.Release()
	p.w = a.out
	if err := p.batch(b); err != nil {
		return err
	}
	return p.close()
}

// only returns the answer with only the named columns. It ignores columns that the answer lacks.
func (t answer) only(columns ...string) answer {
	var out answer
	var from []int
	for _, c := range columns {
		i := slices.IndexFunc(t.columns, func(f arrow.Field) bool { return f.Name == c })
		if i < 0 {
			continue
		}
		from, out.columns = append(from, i), append(out.columns, t.columns[i])
	}
	for _, r := range t.rows {
		values := make([]any, len(from))
		for i, c := range from {
			values[i] = r[c]
		}
		out.rows = append(out.rows, values)
	}
	return out
}
