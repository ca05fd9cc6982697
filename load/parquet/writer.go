package parquet

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

const (
	rowGroupRows  = 128 << 10
	rowGroupBytes = 64 << 20
	pageBytes     = 256 << 10 // size of an uncompressed page; while a row group is written, one page per column is in memory

	// A column is dictionary-encoded if its first sampleRows rows have at most sampleDistinct different values. A
	// dictionary that becomes too large costs half as much time again, and makes the file larger.
	sampleRows     = 2048
	sampleDistinct = sampleRows / 4
)

type writer struct {
	t      *table
	schema *arrow.Schema // the table's schema without metadata that readers do not need
	f      output
	out    *bufio.Writer
	sum    *xxh3.Hasher
	pq     *pqarrow.FileWriter // nil before the first batch
	file   *file
	bounds bounds

	kept  *sync.Pool
	whole bool // the file was written by an encoder
}

func newWriter(t *table, f *file, out output, kept *sync.Pool) *writer {
	w := &writer{t: t, schema: t.fileSchema(), f: out, sum: xxh3.New(), file: f, kept: kept}
	w.out = bufio.NewWriterSize(w, 64<<10)
	w.bounds = newBounds(t)
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

func described(s *arrow.Schema) bool {
	return load.TableDescription(s) != "" || slices.ContainsFunc(s.Fields(), func(f arrow.Field) bool { return schemas.DescriptionOf(f) != "" })
}

// Write writes encoded bytes to the file.
func (w *writer) Write(b []byte) (int, error) {
	_, _ = w.sum.Write(b)
	return w.f.Write(b)
}

func (w *writer) begin(columns []arrow.Array) (err error) {
	props := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		parquet.WithDictionaryDefault(false), parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithMaxRowGroupLength(rowGroupRows), parquet.WithDataPageSize(pageBytes), parquet.WithCreatedBy("penstock"),
	}
	for i, f := range w.schema.Fields() {
		if i < len(columns) && repeats(columns[i]) {
			props = append(props, parquet.WithDictionaryPath(pathOf(f), true))
		}
	}
	var arrowProps []pqarrow.WriterOption
	if described(w.schema) {
		arrowProps = append(arrowProps, pqarrow.WithStoreSchema())
	}
	w.pq, err = pqarrow.NewFileWriter(w.schema, fileWriter{w.out}, parquet.NewWriterProperties(props...), pqarrow.NewArrowWriterProperties(arrowProps...))
	return err
}

// fileWriter hides the file's Close method from the encoder, because the file must be synced before it is closed.
type fileWriter struct{ *bufio.Writer }

func repeats(a arrow.Array) bool {
	if l, ok := a.(*array.List); ok {
		from, to := int64(0), int64(0)
		if l.Len() > 0 {
			from, _ = l.ValueOffsets(0)
			_, to = l.ValueOffsets(l.Len() - 1)
		}
		values := array.NewSlice(l.ListValues(), from, to)
		defer values.Release()
		return values.Len() > 0 && repeats(values)
	}
	n := min(a.Len(), sampleRows)
	limit := max(1, n*sampleDistinct/sampleRows)
	switch a := a.(type) {
	case *array.String:
		return few(a, n, limit, a.Value)
	case *array.Int64:
		return few(a, n, limit, a.Value)
	case *array.Timestamp:
		return few(a, n, limit, a.Value)
	case *array.Date32:
		return few(a, n, limit, a.Value)
	case *array.Decimal128:
		return few(a, n, limit, a.Value)
	case *array.Float64:
		return few(a, n, limit, a.Value)
	}
	return false
}

func few[T comparable](a arrow.Array, n, limit int, value func(int) T) bool {
	seen := make(map[T]struct{}, limit+1)
	for i := range n {
		if a.IsValid(i) {
			if seen[value(i)] = struct{}{}; len(seen) > limit {
				return false
			}
		}
	}
	return true
}

func (w *writer) add(columns []arrow.Array, rows int) error {
	if rows == 0 {
		return nil
	}
	if w.pq == nil {
		if err := w.begin(columns); err != nil {
			return err
		}
	}
	columns, free := w.withSource(columns, rows)
	defer free()
	b := array.NewRecordBatch(w.schema, columns, int64(rows))
	defer b.Release()
	if err := w.pq.WriteBuffered(b); err != nil {
		return err
	}
	w.file.Rows += int64(rows)
	w.bounds.add(columns[:len(w.t.Columns)], rows)
	if w.pq.RowGroupTotalBytesWritten() > rowGroupBytes {
		return w.pq.NewBufferedRowGroupChecked()
	}
	return nil
}

// addAll writes one row group, column by column. It needs all rows in memory.
func (w *writer) addAll(batches [][]arrow.Array, rows []int) error {
	if !encodable(w.schema) {
		for i, b := range batches {
			if err := w.add(b, rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	total := 0
	all := make([][]arrow.Array, len(batches))
	for i, n := range rows {
		total += n
		w.bounds.add(batches[i], n)
		columns, free := w.withSource(batches[i], n)
		defer free()
		all[i] = columns
	}
	e, err := newEncoder(w.schema, w.out, w.kept)
	if err != nil {
		return err
	}
	parts := make([]arrow.Array, len(all))
	for c := range w.schema.Fields() {
		for i, b := range all {
			parts[i] = b[c]
		}
		if err := e.column(c, parts, repeats(parts[0])); err != nil {
			return fmt.Errorf("encode column %s: %w", w.schema.Field(c).Name, err)
		}
	}
	w.file.Rows, w.whole = int64(total), true
	return e.finish(total)
}

func (w *writer) finish(ctx context.Context) (*file, error) {
	if w.pq == nil && !w.whole {
		if err := w.begin(nil); err != nil {
			w.abandon()
			return nil, err
		}
	}
	var err error
	if w.pq != nil {
		err = w.pq.Close()
	}
	if err == nil {
		err = w.out.Flush()
	}
	if err != nil {
		w.abandon()
		return nil, err
	}
	w.bounds.into(w.file)
	w.file.Sum = fmt.Sprintf("%016x", w.sum.Sum64())
	if err := w.f.finish(ctx, w.file); err != nil {
		return nil, err
	}
	return w.file, nil
}

func (w *writer) abandon() { w.f.abandon() }
