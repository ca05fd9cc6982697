package load

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// RejectOf returns the row of [Rejects] for a value that the destination could not store unchanged. The parameter `raw`
// is the value, which comes from the given row and column of b. The batch b has rows of the table t. // Invariant 11
func RejectOf(k state.Key, p Pass, t schemas.Table, b arrow.RecordBatch, column string, row int, raw, reason string) []any {
	if len(raw) > maxRaw {
		raw = strings.ToValidUTF8(raw[:maxRaw], "")
	}
	f := t.Columns.Field(t.Columns.FieldIndices(column)[0])
	run, pass, _ := strings.Cut(p.Run, "#")
	n, err := strconv.ParseInt(pass, 10, 64)
	if err != nil {
		n = 1
	}
	pointer := schemas.Source(f)
	if pointer == "" {
		pointer = "/" + f.Name
	}
	return []any{
		run, k.Pipeline, k.Stream, n, cellInt(b, schemas.ColOrdinal, row), schemas.Indexed(elementOf(t, b, row) + pointer), p.Time(),
		nil, schemas.TypeName(schemas.TypeOf(f)), raw, reason, false, nil,
		schemas.Indexed(recordID(t, b, row)), "load", nil,
	}
}

// maxRaw is how many bytes of a value a reject keeps.
const maxRaw = 64 << 10

// recordID returns the record's key as JSON, or the record's hash if it has no key. This text identifies the record of
// the row within the stream.
func recordID(t schemas.Table, b arrow.RecordBatch, row int) string {
	key := slices.DeleteFunc(slices.Clone(t.Key), func(name string) bool { return name == schemas.ColSource })
	if Child(t.Columns) {
		key = []string{schemas.ColParent}
		if t.Columns.HasField(schemas.ColRoot) {
			key = []string{schemas.ColRoot}
		}
	}
	var parts []string
	for _, name := range key {
		i := b.Schema().FieldIndices(name)
		if len(i) == 0 || b.Column(i[0]).IsNull(row) {
			return "#" + cellText(b, schemas.ColHash, row)
		}
		text := b.Column(i[0]).ValueStr(row)
		if b.Column(i[0]).DataType().ID() == arrow.STRING && !strings.HasPrefix(text, "[") {
			quoted, _ := json.Marshal(text) // marshaling a string never fails
			text = string(quoted)
		}
		parts = append(parts, text)
	}
	switch len(parts) {
	case 0:
		return "#" + cellText(b, schemas.ColHash, row)
	case 1:
		return parts[0]
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// elementOf returns the JSON pointer from the record to the list entry from which a child row was made.
func elementOf(t schemas.Table, b arrow.RecordBatch, row int) string {
	if !Child(t.Columns) {
		return ""
	}
	place := SourcePointer(t.Columns)
	if place == "" {
		_, name, _ := strings.Cut(t.Name, "__")
		place = "/" + strings.ReplaceAll(name, "__", "/")
	}
	parent := ""
	if t.Columns.HasField(schemas.ColRoot) {
		parent = strings.TrimPrefix(cellText(b, schemas.ColParent, row), cellText(b, schemas.ColRoot, row))
	}
	return place + parent + "/" + strconv.FormatInt(cellInt(b, schemas.ColIndex, row), 10)
}

func cellInt(b arrow.RecordBatch, column string, row int) int64 {
	if i := b.Schema().FieldIndices(column); len(i) > 0 {
		if a, ok := b.Column(i[0]).(*array.Int64); ok && !a.IsNull(row) {
			return a.Value(row)
		}
	}
	return 0
}

func cellText(b arrow.RecordBatch, column string, row int) string {
	if i := b.Schema().FieldIndices(column); len(i) > 0 && !b.Column(i[0]).IsNull(row) {
		return b.Column(i[0]).ValueStr(row)
	}
	return ""
}

// ClampTimes replaces each time in the batch b that is later than the parameter `last` by the value of `last`. The
// batch has rows of the table t. ClampTimes also returns a reject for each replaced time, or nil if there is none. The
// caller releases both results.
// Invariant 11
func ClampTimes(k state.Key, p Pass, t schemas.Table, b arrow.RecordBatch, last arrow.Timestamp) (out, rejects arrow.RecordBatch, err error) {
	columns := slices.Clone(b.Columns())
	var rows [][]any
	for c, a := range columns {
		times, ok := a.(*array.Timestamp)
		if !ok || IsInternal(t.Name) {
			continue
		}
		late := map[int]bool{}
		for row := range times.Len() {
			if !times.IsNull(row) && times.Value(row) > last {
				late[row] = true
				rows = append(rows, RejectOf(k, p, t, b, b.ColumnName(c), row, a.ValueStr(row), "the database has no times after "+last.ToTime(arrow.Microsecond).Format(time.DateOnly)))
			}
		}
		if len(late) == 0 {
			continue
		}
		clamped := array.NewTimestampBuilder(memory.DefaultAllocator, times.DataType().(*arrow.TimestampType))
		defer clamped.Release()
		for row := range times.Len() {
			switch {
			case times.IsNull(row):
				clamped.AppendNull()
			case late[row]:
				clamped.Append(last)
			default:
				clamped.Append(times.Value(row))
			}
		}
		columns[c] = clamped.NewArray()
		defer columns[c].Release()
	}
	if rows == nil {
		b.Retain()
		return b, nil, nil
	}
	if rejects, err = Rows(Rejects, rows...); err != nil {
		return nil, nil, err
	}
	return array.NewRecordBatch(b.Schema(), columns, b.NumRows()), rejects, nil
}
