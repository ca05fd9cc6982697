package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Answer is a table that a command prints. Its rows do not come directly from a query.
type Answer struct {
	Columns []arrow.Field
	Rows    [][]any
}

// Sort sorts the rows by the named columns. It ignores columns that the answer lacks. A name with the prefix - means
// descending order.
func (t Answer) Sort(columns ...string) Answer {
	slices.SortStableFunc(t.Rows, func(a, b []any) int {
		for _, c := range columns {
			name, down := strings.CutPrefix(c, "-")
			i := slices.IndexFunc(t.Columns, func(f arrow.Field) bool { return f.Name == name })
			if i < 0 {
				continue
			}
			n := Compare(a[i], b[i])
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

// Compare compares two values of one column. Null is less than any value.
func Compare(a, b any) int {
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

// Print writes the answer to w.
func (t Answer) Print(w io.Writer, form Form) error {
	b, err := load.Rows(schemas.Table{Name: "answer", Columns: arrow.NewSchema(t.Columns, nil)}, t.Rows...)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	defer b.Release()
	p := Printer{W: w, Form: form, toned: []string{"status", "state", "verdict"}}
	if err := p.Batch(b); err != nil {
		return err
	}
	return p.Close()
}

// Only returns a copy of the answer that has only the named columns. It ignores columns that the answer lacks.
func (t Answer) Only(columns ...string) Answer {
	var out Answer
	var from []int
	for _, c := range columns {
		i := slices.IndexFunc(t.Columns, func(f arrow.Field) bool { return f.Name == c })
		if i < 0 {
			continue
		}
		from, out.Columns = append(from, i), append(out.Columns, t.Columns[i])
	}
	for _, r := range t.Rows {
		values := make([]any, len(from))
		for i, c := range from {
			values[i] = r[c]
		}
		out.Rows = append(out.Rows, values)
	}
	return out
}

// Fields returns the fields of the given columns. Table t must have them.
func Fields(t schemas.Table, columns ...string) []arrow.Field {
	out := make([]arrow.Field, len(columns))
	for i, c := range columns {
		out[i] = t.Columns.Field(t.Columns.FieldIndices(c)[0])
	}
	return out
}
