package parquet

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/schemas"
)

type writer struct {
	t      *table
	f      output
	sum    *xxh3.Hasher
	enc    *encode.Writer
	file   *file
	bounds bounds
}

func newWriter(t *table, f *file, out output, pool *encode.Pool) *writer {
	w := &writer{t: t, f: out, sum: xxh3.New(), file: f, bounds: newBounds(t)}
	w.enc = encode.New(t.fileSchema(), w, pool)
	return w
}

func withoutMetadata(s *arrow.Schema) *arrow.Schema {
	fields := make([]arrow.Field, s.NumFields())
	for i, f := range s.Fields() {
		fields[i] = schemas.WithDescription(arrow.Field{Name: f.Name, Type: f.Type, Nullable: true}, schemas.DescriptionOf(f))
	}
	if about := load.TableDescription(s); about != "" {
		md := arrow.MetadataFrom(map[string]string{schemas.DescriptionKey: about})
		return arrow.NewSchema(fields, &md)
	}
	return arrow.NewSchema(fields, nil)
}

// Write writes encoded bytes to the file.
func (w *writer) Write(b []byte) (int, error) {
	_, _ = w.sum.Write(b)
	return w.f.Write(b)
}

func (w *writer) add(columns []arrow.Array, rows int) error {
	if rows == 0 {
		return nil
	}
	all, free := w.withSource(columns, rows)
	defer free()
	w.file.Rows += int64(rows)
	w.bounds.add(columns, rows)
	return w.enc.Add(all, rows)
}

// addAll writes one row group, column by column. It needs all rows in memory.
func (w *writer) addAll(batches [][]arrow.Array, rows []int) error {
	all := make([][]arrow.Array, len(batches))
	for i, n := range rows {
		w.file.Rows += int64(n)
		w.bounds.add(batches[i], n)
		columns, free := w.withSource(batches[i], n)
		defer free()
		all[i] = columns
	}
	return w.enc.AddAll(all, rows)
}

func (w *writer) finish(ctx context.Context) (*file, error) {
	if err := w.enc.Finish(); err != nil {
		w.abandon()
		return nil, err
	}
	w.bounds.into(w.file)
	w.file.texts = w.enc.Texts()
	w.file.Sum = fmt.Sprintf("%016x", w.sum.Sum64())
	if err := w.f.finish(ctx, w.file); err != nil {
		return nil, err
	}
	return w.file, nil
}

func (w *writer) abandon() { w.f.abandon() }

func (w *writer) withSource(columns []arrow.Array, rows int) (all []arrow.Array, free func()) {
	if w.t.owner == "" {
		return columns, func() {}
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(rows)
	b.ReserveData(rows * len(w.t.owner))
	for range rows {
		b.Append(w.t.owner)
	}
	names := b.NewArray()
	return append(columns[:len(columns):len(columns)], names), names.Release
}
