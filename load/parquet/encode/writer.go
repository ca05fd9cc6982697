// Package encode writes Arrow columns as Parquet files. If all rows of a file are in memory, this package writes the
// file faster than arrow-go does.
package encode

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock-data/penstock/schemas"
)

// RowGroupRows is the maximum number of rows of a row group.
const RowGroupRows = 128 << 10

const (
	rowGroupBytes = 64 << 20
	pageBytes     = 256 << 10 // size of an uncompressed page; while a row group is written, one page per column is in memory

	// A column is dictionary-encoded if its first sampleRows rows have at most sampleDistinct different values. If a
	// dictionary becomes too large, encoding takes 1.5 times as long, and the file is larger.
	sampleRows     = 2048
	sampleDistinct = sampleRows / 4
)

// Writer writes one file. It is not safe for concurrent use.
type Writer struct {
	schema *arrow.Schema
	out    *bufio.Writer
	pool   *Pool
	pq     *pqarrow.FileWriter // nil before the first batch
	whole  bool                // AddAll has written the file
	texts  map[int]*textRange  // ranges of the columns whose bounds are not in the footer, by column
}

// New returns a Writer for a file with this schema. The descriptions of the schema are stored in the file.
func New(s *arrow.Schema, out io.Writer, pool *Pool) *Writer {
	return &Writer{schema: s, out: bufio.NewWriterSize(out, 64<<10), pool: pool}
}

func described(s *arrow.Schema) bool {
	return s.Metadata().Len() > 0 || slices.ContainsFunc(s.Fields(), func(f arrow.Field) bool { return schemas.DescriptionOf(f) != "" })
}

func (w *Writer) begin(columns []arrow.Array) (err error) {
	props := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		parquet.WithDictionaryDefault(false), parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithMaxRowGroupLength(RowGroupRows), parquet.WithDataPageSize(pageBytes), parquet.WithCreatedBy("penstock"),
	}
	for i, f := range w.schema.Fields() {
		if i < len(columns) && repeats(columns[i]) {
			props = append(props, parquet.WithDictionaryPath(pathOf(f), true))
		}
		if !boundsAreRight(f.Type) {
			props = append(props, parquet.WithStatsPath(pathOf(f), false))
		}
	}
	var arrowProps []pqarrow.WriterOption
	if described(w.schema) {
		arrowProps = append(arrowProps, pqarrow.WithStoreSchema())
	}
	w.pq, err = pqarrow.NewFileWriter(w.schema, fileWriter{w.out}, parquet.NewWriterProperties(props...), pqarrow.NewArrowWriterProperties(arrowProps...))
	return err
}

// boundsAreRight reports whether arrow-go writes correct bounds for a column. The bounds that arrow-go computes leave
// out the values of lists, and pages whose lowest text is "". With wrong bounds, engines would skip rows that match a
// filter. Without bounds, engines read these rows.
func boundsAreRight(t arrow.DataType) bool { return t.ID() != arrow.STRING && t.ID() != arrow.LIST }

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

// Add appends rows. It does not keep the columns.
func (w *Writer) Add(columns []arrow.Array, rows int) error {
	if w.pq == nil {
		if err := w.begin(columns); err != nil {
			return err
		}
	}
	w.countTexts(columns)
	b := array.NewRecordBatch(w.schema, columns, int64(rows))
	defer b.Release()
	if err := w.pq.WriteBuffered(b); err != nil {
		return err
	}
	if w.pq.RowGroupTotalBytesWritten() > rowGroupBytes {
		return w.pq.NewBufferedRowGroupChecked()
	}
	return nil
}

// AddAll writes all rows of the file. The number of rows must not exceed [RowGroupRows].
func (w *Writer) AddAll(batches [][]arrow.Array, rows []int) error {
	if !encodable(w.schema) {
		for i, b := range batches {
			if err := w.Add(b, rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	e, err := newEncoder(w.schema, w.out, w.pool)
	if err != nil {
		return err
	}
	w.whole = true
	parts := make([]arrow.Array, len(batches))
	for c := range w.schema.Fields() {
		for i, b := range batches {
			parts[i] = b[c]
		}
		if err := e.column(c, parts, repeats(parts[0])); err != nil {
			return fmt.Errorf("encode column %s: %w", w.schema.Field(c).Name, err)
		}
	}
	total := 0
	for _, n := range rows {
		total += n
	}
	return e.finish(total)
}

// Finish writes the end of the file. It does not close the output.
func (w *Writer) Finish() error {
	if w.whole {
		return w.out.Flush()
	}
	if w.pq == nil {
		if err := w.begin(nil); err != nil {
			return err
		}
	}
	if err := w.pq.Close(); err != nil {
		return err
	}
	return w.out.Flush()
}
