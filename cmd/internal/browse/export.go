package browse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/render/parquetfile"
	"github.com/penstock-data/penstock/load"
)

// maxExport limits the size of an exported file in bytes. // Invariant 6
const maxExport = 32 << 20

// Formats are the formats of exported files.
func Formats() map[string]func(io.Writer) render.Writer {
	return map[string]func(io.Writer) render.Writer{
		"csv":     func(w io.Writer) render.Writer { return &render.Printer{W: w, Form: render.FormCSV} },
		"parquet": func(w io.Writer) render.Writer { return &parquetfile.Writer{W: w} },
	}
}

// Export runs one read-only statement and returns its whole result as a file. A result that is too large is an error,
// because a file with a part of the rows would look complete.
func (b *Browser) Export(ctx context.Context, d *open.Reader, sql string, format func(io.Writer) render.Writer) ([]byte, error) {
	if err := statement(d, sql); err != nil {
		return nil, err
	}
	var file bounded
	p := format(&file)
	err := d.Ask(ctx, func(q load.Querier) error { return q.Query(ctx, sql, p.Batch) })
	if err == nil {
		err = p.Close()
	}
	if errors.Is(err, errLarge) {
		return nil, failure.Hinted(fmt.Errorf("the file would have more than %d MB", maxExport>>20), "select fewer rows, or use `penstock query --format csv -o FILE`, which has no limit")
	}
	return file.buffer.Bytes(), err
}

var errLarge = errors.New("the file is too large")

// bounded is a buffer that refuses to grow beyond maxExport.
type bounded struct{ buffer bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > maxExport {
		return 0, errLarge
	}
	return b.buffer.Write(p)
}
