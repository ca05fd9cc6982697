// Package history reads what a destination stores about earlier runs, in penstock's own tables: certificates, runs,
// changes of tables, and changes of rows.
package history

import (
	"context"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Row is a row of a batch, read by column name. A column that the table lacks is null. An earlier release may have
// created the table without the column.
type Row struct {
	batch arrow.RecordBatch
	at    int
}

// Value returns the value of a column, in a type that [load.Rows] accepts.
func (r Row) Value(name string) any {
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
		return strings.Clone(render.Cell(a, r.at)) // the caller may keep the text longer than the batch
	}
}

// Text returns a column of text; "" for null.
func (r Row) Text(name string) string { v, _ := r.Value(name).(string); return v }

// Number returns a column of integers; 0 for null.
func (r Row) Number(name string) int64 { v, _ := r.Value(name).(int64); return v }

// Time returns a column of times; the zero time for null.
func (r Row) Time(name string) time.Time { v, _ := r.Value(name).(time.Time); return v }

// Scan calls visit for every row of one of penstock's own tables. A table that does not exist yet has
// no rows.
func Scan(ctx context.Context, d load.Destination, t schemas.Table, visit func(Row) error) error {
	return d.Scan(ctx, t.Name, nil, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			if err := visit(Row{b, i}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Project returns the given columns of one of penstock's own tables. If keep is not nil, the result has only the rows
// for which keep() returns true.
func Project(ctx context.Context, d load.Destination, t schemas.Table, columns []string, keep func(Row) bool) (render.Answer, error) {
	out := render.Answer{Columns: render.Fields(t, columns...)}
	err := Scan(ctx, d, t, func(r Row) error {
		if keep != nil && !keep(r) {
			return nil
		}
		values := make([]any, len(columns))
		for i, c := range columns {
			values[i] = r.Value(c)
		}
		out.Rows = append(out.Rows, values)
		return nil
	})
	return out, err
}

// RunOf returns the run of a pass. In a run, the first pass over a stream has the run's name. The second pass has #2
// after that name: co6bjmfsd81u#2.
func RunOf(pass string) string {
	run, _, _ := strings.Cut(pass, "#")
	return run
}
