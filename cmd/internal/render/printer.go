package render

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// Form is the format of a result.
type Form int

// The formats of a result.
const (
	FormTable Form = iota
	FormJSON
	FormCSV
	FormList // one name and value per line, in full; for few rows
)

// MaxRows limits the rows that a table shows. The other formats have all rows.
const MaxRows = 1000

// Writer writes a result, batch by batch.
type Writer interface {
	Batch(arrow.RecordBatch) error
	Close() error // finishes the output
}

// Printer writes a result as text. If only W is set, it prints a table.
type Printer struct {
	W     io.Writer
	Form  Form
	Exact bool // CSV: do not escape formulas

	toned []string // columns of states or verdicts
	grid  *Table
	csv   *csv.Writer
	rows  int64
}

// Batch prints one batch of the result. The first batch also prints the header.
func (p *Printer) Batch(b arrow.RecordBatch) error {
	switch p.Form {
	case FormJSON:
		return p.jsonRows(b)
	case FormCSV:
		return p.csvRows(b)
	case FormList:
		return p.list(b)
	}
	if p.grid == nil {
		p.grid = NewTable(header(b.Schema())...).Toned(p.toned...)
	}
	for i := range int(b.NumRows()) {
		if p.rows++; p.rows > MaxRows {
			continue
		}
		cells := make([]any, b.NumCols())
		for c := range cells {
			cells[c] = strings.Clone(Cell(b.Column(c), i)) // must outlive the batch
		}
		p.grid.Add(cells...)
	}
	return nil
}

// list prints one name and value per line.
func (p *Printer) list(b arrow.RecordBatch) error {
	for i := range int(b.NumRows()) {
		for c, f := range b.Schema().Fields() {
			name := Printable(f.Name, false)
			for line := range strings.SplitSeq(Cell(b.Column(c), i), "\n") {
				if _, err := fmt.Fprintln(p.W, strings.TrimRight(fmt.Sprintf("%-12s %s", name, Printable(line, false)), " ")); err != nil {
					return err
				}
				name = ""
			}
		}
	}
	return nil
}

// Close finishes the output.
func (p *Printer) Close() error {
	switch {
	case p.csv != nil:
		p.csv.Flush()
		return p.csv.Error()
	case p.grid != nil:
		p.grid.Render(p.W)
		switch {
		case p.rows > MaxRows:
			fmt.Fprintf(p.W, "%s rows, the first %s shown; --json has all\n", Grouped(p.rows), Grouped(MaxRows))
		case p.rows != 1:
			fmt.Fprintf(p.W, "%s rows\n", Grouped(p.rows))
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

// Cell returns one value as text; "" for null.
func Cell(a arrow.Array, i int) string {
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
func (p *Printer) jsonRows(b arrow.RecordBatch) error {
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
		if _, err := io.WriteString(p.W, line.String()); err != nil {
			return err
		}
	}
	return nil
}

func (p *Printer) member(line *strings.Builder, name string, v any) error {
	for i, part := range []any{name, v} {
		var text strings.Builder
		if err := NewEncoder(&text).Encode(part); err != nil {
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
		return Cell(a, i)
	}
	if arrow.IsDecimal(a.DataType().ID()) {
		return Cell(a, i)
	}
	return a.GetOneForMarshal(i)
}

func (p *Printer) csvRows(b arrow.RecordBatch) error {
	if p.csv == nil {
		p.csv = csv.NewWriter(p.W)
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
			row[c] = Cell(b.Column(c), i)
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

// guard puts a ' before a text that a spreadsheet would run as a formula.
func (p *Printer) guard(s string) string {
	if !p.Exact && s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
