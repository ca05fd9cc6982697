package parquet

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load/parquet/encode"
)

func (x *builder) compose(ctx context.Context, t *table, part string, s *staged, refs []ref) (*file, error) {
	return x.file(ctx, t, part, func(w *writer) error {
		if len(refs) <= encode.RowGroupRows {
			return s.composeAtOnce(ctx, w, refs)
		}
		return s.pieces(ctx, refs, w.add)
	})
}

func (s *staged) composeAtOnce(ctx context.Context, w *writer, refs []ref) error {
	var batches [][]arrow.Array
	var rows []int
	defer func() {
		for _, b := range batches {
			release(b)
		}
	}()
	err := s.pieces(ctx, refs, func(columns []arrow.Array, n int) error {
		for _, c := range columns {
			c.Retain()
		}
		batches, rows = append(batches, columns), append(rows, n)
		return nil
	})
	if err != nil || len(batches) == 0 {
		return err
	}
	return w.addAll(batches, rows)
}

func (s *staged) pieces(ctx context.Context, refs []ref, visit func([]arrow.Array, int) error) error {
	for len(refs) > 0 {
		n := 1
		for n < len(refs) && refs[n].batch == refs[0].batch {
			n++
		}
		columns, err := gather(ctx, s.columns[refs[0].batch], refs[:n])
		if err != nil {
			return err
		}
		err = visit(columns, n)
		release(columns)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}

// gather returns the given rows of the columns. It copies the rows only if they are not consecutive. The caller
// releases the result.
func gather(ctx context.Context, columns []arrow.Array, refs []ref) ([]arrow.Array, error) {
	out := make([]arrow.Array, len(columns))
	first, n := refs[0].row, int32(len(refs))
	if consecutive(refs) {
		for i, c := range columns {
			out[i] = array.NewSlice(c, int64(first), int64(first+n))
		}
		return out, nil
	}
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(len(refs))
	for _, r := range refs {
		b.UnsafeAppend(r.row)
	}
	rows := b.NewArray()
	defer rows.Release()
	return take(ctx, columns, rows, out)
}

func consecutive(refs []ref) bool {
	for i, r := range refs {
		if r.row != refs[0].row+int32(i) {
			return false
		}
	}
	return true
}

func take(ctx context.Context, columns []arrow.Array, rows arrow.Array, out []arrow.Array) ([]arrow.Array, error) {
	for i, c := range columns {
		a, err := compute.TakeArray(ctx, c, rows)
		if err != nil {
			release(out[:i])
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}
