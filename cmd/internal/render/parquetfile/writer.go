// Package parquetfile writes a result as a Parquet file. The package render does not import the library for Parquet,
// because the library makes a program 20 MB larger, and most packages that print need only text.
package parquetfile

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// A row group stays in memory until it has this number of rows or bytes. // Invariant 6
const (
	groupRows  = 128 << 10
	groupBytes = 32 << 20
)

// Writer writes a Parquet file to W. It does not close W.
type Writer struct {
	W io.Writer

	file *pqarrow.FileWriter
}

// Batch adds a batch to the file. The first batch decides the columns.
func (w *Writer) Batch(b arrow.RecordBatch) error {
	if w.file == nil {
		props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
			parquet.WithMaxRowGroupLength(groupRows))
		f, err := pqarrow.NewFileWriter(b.Schema(), keepOpen{w.W}, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
		if err != nil {
			return fmt.Errorf("write parquet: %w", err)
		}
		w.file = f
	}
	if w.file.RowGroupTotalBytesWritten() > groupBytes {
		if err := w.file.NewBufferedRowGroupChecked(); err != nil {
			return fmt.Errorf("write parquet: %w", err)
		}
	}
	return w.file.WriteBuffered(b)
}

// Close writes the end of the file. Without a batch, there is no file.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// keepOpen hides the Close method of a writer: the code that opened the writer closes it.
type keepOpen struct{ io.Writer }
