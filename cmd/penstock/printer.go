package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock-data/penstock/schemas"
)

// form is the format of a result.
type form int

// The formats of a result.
const (
	formTable form = iota
	formJSON
	formCSV
	formParquet
	formList // one name and value per line, in full; for few rows
)

// maxRows limits the rows that a table shows. The other formats have all rows.
const maxRows = 1000

// printer writes a result, batch by batch. If only w is set, it prints a table.
type printer struct {
	w     io.Writer
	form  form
	exact bool // CSV: do not escape formulas

	grid    *grid
	csv     *csv.Writer
	parquet *pqarrow.FileWriter
	rows    int64
}

// batch prints one batch of the result. The first batch also prints the header.
func (p *printer) batch(b arrow.RecordBatch) error {
	switch p.form {
	case formJSON:
		return p.jsonRows(b)
	case formCSV:
		return p.csvRows(b)
	case formParquet:
		return p.parquetRows(b)
	case formList:
		return p.list(b)
	}
	if p.grid == nil {
		p.grid = newGrid(header(b.Schema())...)
	}
	for i := range int(b.NumRows()) {
		if p.rows++; p.rows > maxRows {
			continue
		}
		cells := make([]any, b.NumCols())
		for c := range cells {
			cells[c] = strings.Clone(cell(b.Column(c), i)) // must outlive the batch
		}
		p.grid.add(cells...)
	}
	return nil
}

// list prints one name and value per line.
func (p *printer) list(b arrow.RecordBatch) error {
	for i := range int(b.NumRows()) {
		for c, f := range b.Schema().Fields() {
			name := printable(f.Name, false)
			for line := range strings.SplitSeq(cell(b.Column(c), i), "\n") {
				if _, err := fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf("%-12s %s", name, printable(line, false)), " ")); err != nil {
					return err
				}
				name = ""
			}
		}
	}
	return nil
}

// close finishes the output.
func (p *printer) close() error {
	switch {
	case p.csv != nil:
		p.csv.Flush()
		return p.csv.Error()
	case p.parquet != nil:
		return p.parquet.Close()
	case p.grid != nil:
		p.grid.render(p.w)
		switch {
		case p.rows > maxRows:
			fmt.Fprintf(p.w, "%s rows, the first %s shown; --json has all\n", grouped(p.rows), grouped(maxRows))
		case p.rows != 1:
			fmt.Fprintf(p.w, "%s rows\n", grouped(p.rows))
		}
	}
	return nil
}

func header(s *arrow.Schema) []string {
	names := make([]string, s.NumFields())
	for i, f := range s.Fields() {
		names[i] = f.Name
		if isNumber(f.Type) {
			names[i] = "#" + f.Name
		}
	}
	return names
}

func isNumber(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID())
}

// cell returns one value as text; "" for null.
func cell(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return ""
	}
	switch a := a.(type) {
	case *array.Timestamp:
		t := a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit).UTC()
		return t.Format("2006-01-02 15:04:05.999999Z07:00")
	case *array.Date32:
		return a.Value(i).ToTime().Format(time.DateOnly)
	case *array.Decimal128: // ValueStr would drop trailing zeros
		return a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)
	}
	if arrow.IsNested(a.DataType().ID()) {
		text, err := json.Marshal(a.GetOneForMarshal(i))
		if err == nil {
			return string(text)
		}
	}
	return a.ValueStr(i)
}

// jsonRows writes one object per line, with members in column order. Decimals are strings, because many
// readers would round JSON numbers.
func (p *printer) jsonRows(b arrow.RecordBatch) error {
	for i := range int(b.NumRows()) {
		var line strings.Builder
		line.WriteByte('{')
		for c, f := range b.Schema().Fields() {
			if c > 0 {
				line.WriteByte(',')
			}
			if err := p.member(&line, f.Name, jsonValue(f, b.Column(c), i)); err != nil {
				return fmt.Errorf("print column %s: %w", f.Name, err)
			}
		}
		line.WriteString("}\n")
		if _, err := io.WriteString(p.w, line.String()); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) member(line *strings.Builder, name string, v any) error {
	for i, part := range []any{name, v} {
		var text strings.Builder
		if err := lineWriter(&text).Encode(part); err != nil {
			return err
		}
		line.WriteString(strings.TrimSuffix(text.String(), "\n"))
		if i == 0 {
			line.WriteByte(':')
		}
	}
	return nil
}

// jsonValue returns a cell for JSON. JSON documents are embedded as they are.
func jsonValue(f arrow.Field, a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.String:
		if text := a.Value(i); schemas.SameType(schemas.TypeOf(f), schemas.JSON) && json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
	case *array.Timestamp:
		return a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit).UTC().Format(time.RFC3339Nano)
	case *array.Date32:
		return cell(a, i)
	}
	if arrow.IsDecimal(a.DataType().ID()) {
		return cell(a, i)
	}
	return a.GetOneForMarshal(i)
}

func (p *printer) csvRows(b arrow.RecordBatch) error {
	if p.csv == nil {
		p.csv = csv.NewWriter(p.w)
		var names []string
		for _, f := range b.Schema().Fields() {
			names = append(names, p.guard(f.Name))
		}
		if err := p.csv.Write(names); err != nil {
			return err
		}
	}
	row := make([]string, b.NumCols())
	for i := range int(b.NumRows()) {
		for c := range row {
			row[c] = cell(b.Column(c), i)
			if !isNumber(b.Column(c).DataType()) {
				row[c] = p.guard(row[c])
			}
		}
		if err := p.csv.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// guard adds a ' to a text that a spreadsheet would run as a formula.
func (p *printer) guard(s string) string {
	if !p.exact && s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// A row group of Parquet stays in memory until it has this number of rows or bytes. // Invariant 6
const (
	groupRows  = 128 << 10
	groupBytes = 32 << 20
)

// parquetRows adds a batch to the file.
func (p *printer) parquetRows(b arrow.RecordBatch) error {
	if p.parquet == nil {
		props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
			parquet.WithMaxRowGroupLength(groupRows))
		w, err := pqarrow.NewFileWriter(b.Schema(), keepOpen{p.w}, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
		if err != nil {
			return fmt.Errorf("write parquet: %w", err)
		}
		p.parquet = w
	}
	if p.parquet.RowGroupTotalBytesWritten() > groupBytes {
		if err := p.parquet.NewBufferedRowGroupChecked(); err != nil {
			return fmt.Errorf("write parquet: %w", err)
		}
	}
	return p.parquet.WriteBuffered(b)
}

// keepOpen hides the Close method of a writer: the code that opened the writer closes it.
type keepOpen struct{ io.Writer }
