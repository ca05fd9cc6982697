package parquet

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load/parquet/values"
	"github.com/penstock-data/penstock/schemas"
)

// forget clears the hashes of the records that have a value in the column, in their own row or in a child row. So the
// next pass writes these records again.
func (x *builder) forget(ctx context.Context, t *table, column string) error {
	root := x.next.table(x.next.rootOf(t))
	if !root.has(schemas.ColHash) || !t.has(schemas.ColHash) {
		return nil
	}
	return x.each(ctx, t, func(ctx context.Context, s *segment) (*segment, error) {
		marks, err := marksOf(ctx, t, s.Files[t.Name], column)
		if err != nil || len(marks) == 0 {
			return s, err
		}
		return x.forgetIn(ctx, root, s, marks)
	})
}

// forgetIn clears the hashes of the records whose marks (see [markOf]) are in the parameter `marks`. If this parameter
// is nil, it clears the hashes of all records. In a table without a key, child rows are found by the hash, so their
// hashes are cleared too.
func (x *builder) forgetIn(ctx context.Context, root *table, s *segment, marks map[uint64]bool) (*segment, error) {
	tables := []*table{root}
	if len(root.Key) == 0 {
		tables = append(tables, x.next.children(root.Name)...)
	}
	for _, c := range tables {
		f := s.Files[c.Name]
		if f == nil {
			continue
		}
		part := ""
		if c == root {
			part = s.Part
		}
		f, err := x.clear(ctx, c, f, part, marks)
		if err != nil {
			return nil, err
		}
		s = s.with(c.Name, f)
	}
	return s, nil
}

func marksOf(ctx context.Context, t *table, f *file, column string) (map[uint64]bool, error) {
	out := map[uint64]bool{}
	columns := []string{schemas.ColHash, t.ended(), column}
	err := f.read(ctx, t, columns, func(_ int64, b []arrow.Array, rows int) error {
		for i := range rows {
			if !t.versioned(b[1], i) && b[2].IsValid(i) {
				out[markAt(b[:1], i)] = true
			}
		}
		return nil
	})
	return out, err
}

// The method versioned() reports whether row i is an ended version. The hash of such a row is kept, because the hash
// identifies the row's child rows.
func (t *table) versioned(ended arrow.Array, i int) bool {
	return t.Mode == schemas.History && ended.IsValid(i)
}

func (x *builder) clear(ctx context.Context, t *table, f *file, part string, marks map[uint64]bool) (*file, error) {
	hash, ended := t.column(schemas.ColHash), t.column(t.ended())
	return x.file(ctx, t, part, func(w *writer) error {
		return f.read(ctx, t, nil, func(_ int64, columns []arrow.Array, rows int) error {
			cleared := values.Render(columns[hash], func(dst []byte, i int) []byte {
				if (marks == nil || marks[markAt(columns[hash:hash+1], i)]) && !t.versioned(columns[ended], i) {
					return dst
				}
				return append(dst, columns[hash].(*array.String).Value(i)...)
			})
			defer cleared.Release()
			out := append([]arrow.Array{}, columns...)
			out[hash] = cleared
			return w.add(out, rows)
		})
	})
}
