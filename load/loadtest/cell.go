package loadtest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// Row is a row of a table: the canonical text of each value, by column. A null has no entry. A number is written in
// decimal digits with the scale of its column, a date as 2006-01-02, and a list as a JSON array. A time is written as
// 2006-01-02T15:04:05Z. If it has a fraction of a second, six digits of the fraction follow the seconds.
type Row map[string]string

// RowsOf returns the rows of a batch.
func RowsOf(b arrow.RecordBatch) []Row {
	rows := make([]Row, b.NumRows())
	for i := range rows {
		rows[i] = Row{}
		for c, f := range b.Schema().Fields() {
			if text, ok := cell(b.Column(c), schemas.TypeOf(f), i); ok {
				rows[i][f.Name] = text
			}
		}
	}
	return rows
}

func batchOf(s *arrow.Schema, rows []Row) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	for _, r := range rows {
		for i, f := range s.Fields() {
			text, ok := r[f.Name]
			if !ok {
				b.Field(i).AppendNull()
				continue
			}
			if err := appendCell(b.Field(i), text); err != nil {
				return nil, fmt.Errorf("column %s: %w", f.Name, err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

func appendCell(b array.Builder, text string) error {
	switch b := b.(type) {
	case *array.TimestampBuilder:
		return appendInstant(b, text)
	case *array.ListBuilder:
		var items []json.RawMessage
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return err
		}
		b.Append(true)
		for _, item := range items {
			if err := appendItem(b.ValueBuilder(), item); err != nil {
				return err
			}
		}
		return nil
	}
	return b.AppendValueFromString(text)
}

func appendItem(b array.Builder, item json.RawMessage) error {
	plain := string(item)
	if plain == "null" {
		b.AppendNull()
		return nil
	}
	if plain[0] == '"' {
		if err := json.Unmarshal(item, &plain); err != nil {
			return err
		}
	}
	return appendCell(b, plain)
}

// appendInstant accepts years that time.Parse does not accept: a time zone can move a time from year 9999 to year
// 10000.
func appendInstant(b *array.TimestampBuilder, text string) error {
	whole, fraction, _ := strings.Cut(strings.TrimSuffix(text, "Z"), ".")
	var year, month, day, hour, minute, second int
	if _, err := fmt.Sscanf(whole, "%d-%d-%dT%d:%d:%d", &year, &month, &day, &hour, &minute, &second); err != nil {
		return fmt.Errorf("read time %q: %w", text, err)
	}
	micros, _ := strconv.Atoi((fraction + "000000")[:6])
	at := time.Date(year, time.Month(month), day, hour, minute, second, 1000*micros, time.UTC)
	b.Append(arrow.Timestamp(at.UnixMicro()))
	return nil
}

func cell(a arrow.Array, t arrow.DataType, i int) (text string, ok bool) {
	if a.IsNull(i) {
		return "", false
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.FormatBool(a.Value(i)), true
	case *array.Int64:
		return strconv.FormatInt(a.Value(i), 10), true
	case *array.Decimal128:
		return a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale), true
	case *array.Float64:
		return strconv.FormatFloat(a.Value(i), 'g', -1, 64), true
	case *array.Date32:
		return a.Value(i).ToTime().Format(time.DateOnly), true
	case *array.Timestamp:
		return instant(a.Value(i).ToTime(arrow.Microsecond)), true
	case *array.String:
		return strings.Clone(a.Value(i)), true
	case *array.List:
		return listCell(a, t, i), true
	case *array.Null:
		return "", false
	}
	return a.ValueStr(i), true
}

func instant(t time.Time) string {
	if t.Nanosecond() == 0 {
		return t.UTC().Format("2006-01-02T15:04:05Z")
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

func listCell(a *array.List, t arrow.DataType, i int) string {
	elem := a.DataType().(*arrow.ListType).Elem()
	if l, ok := t.(*arrow.ListType); ok {
		elem = l.Elem()
	}
	from, to := a.ValueOffsets(i)
	items := make([]string, 0, to-from)
	for j := int(from); j < int(to); j++ {
		text, ok := cell(a.ListValues(), elem, j)
		items = append(items, jsonOf(text, elem, ok))
	}
	return "[" + strings.Join(items, ",") + "]"
}

func jsonOf(text string, t arrow.DataType, ok bool) string {
	if !ok {
		return "null"
	}
	switch t.ID() {
	case arrow.STRING, arrow.DATE32, arrow.TIMESTAMP:
		if _, raw := t.(*schemas.JSONType); raw {
			return text
		}
		return quote(text)
	}
	return text
}

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func recast(text string, from, to arrow.DataType) string {
	if _, ok := to.(*schemas.JSONType); ok {
		return jsonOf(text, from, true)
	}
	switch to := to.(type) {
	case *arrow.Decimal128Type:
		whole, fraction, _ := strings.Cut(text, ".")
		if to.Scale == 0 {
			return whole
		}
		return whole + "." + fraction + strings.Repeat("0", int(to.Scale)-len(fraction))
	case *arrow.ListType:
		if l, ok := from.(*arrow.ListType); ok {
			return recastList(text, l.Elem(), to.Elem())
		}
	}
	return text
}

func recastList(text string, from, to arrow.DataType) string {
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		panic(err)
	}
	out := make([]string, len(items))
	for i, item := range items {
		plain := string(item)
		if from.ID() == arrow.STRING || strings.HasPrefix(plain, `"`) {
			_ = json.Unmarshal(item, &plain)
		}
		out[i] = jsonOf(recast(plain, from, to), to, string(item) != "null")
	}
	return "[" + strings.Join(out, ",") + "]"
}
