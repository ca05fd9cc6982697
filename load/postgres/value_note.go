package postgres

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// maxRaw is how many bytes of a value a reject keeps.
const maxRaw = 64 << 10

// rejectValue records a value that could not be stored unchanged. // Invariant 11
func (m *merge) rejectValue(t *target, b arrow.RecordBatch, column string, row int, raw, reason string) {
	if load.IsInternal(t.Name) {
		return
	}
	if len(raw) > maxRaw {
		raw = strings.ToValidUTF8(raw[:maxRaw], "")
	}
	f := t.Columns.Field(t.Columns.FieldIndices(column)[0])
	run, pass, _ := strings.Cut(m.of.Run, "#")
	n, err := strconv.ParseInt(pass, 10, 64)
	if err != nil {
		n = 1
	}
	pointer := schemas.Source(f)
	if pointer == "" {
		pointer = "/" + f.Name
	}
	m.rejects = append(m.rejects, []any{
		run, m.key.Pipeline, m.key.Stream, n, cellInt(b, schemas.ColOrdinal, row), schemas.Indexed(elementOf(t, b, row) + pointer), m.of.Time(),
		nil, schemas.TypeName(schemas.TypeOf(f)), raw, reason, false, nil,
		schemas.Indexed(recordID(t, b, row)), "load", nil,
	})
}

// recordID identifies the record of a row within the stream, by its key as JSON or by the hash of the record.
func recordID(t *target, b arrow.RecordBatch, row int) string {
	key := slices.DeleteFunc(slices.Clone(t.Key), func(name string) bool { return name == schemas.ColSource })
	if load.Child(t.Columns) {
		key = []string{schemas.ColParent}
		if t.has(schemas.ColRoot) {
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

// elementOf returns the JSON pointer from the record to the element of a child row.
func elementOf(t *target, b arrow.RecordBatch, row int) string {
	if !load.Child(t.Columns) {
		return ""
	}
	place := load.SourcePointer(t.Columns)
	if place == "" {
		_, name, _ := strings.Cut(t.Name, "__")
		place = "/" + strings.ReplaceAll(name, "__", "/")
	}
	parent := ""
	if t.has(schemas.ColRoot) {
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

// writeRejects writes the rejects of values that could not be stored unchanged.
func (m *merge) writeRejects() error {
	if len(m.rejects) == 0 {
		return nil
	}
	b, err := load.Rows(load.Rejects, m.rejects...)
	if err != nil {
		return err
	}
	defer b.Release()
	m.rejects = nil
	stamped := load.WithSource(load.Rejects, b, m.key.Source)
	defer stamped.Release()
	rejects := ownTable(load.Rejects, m.key.Source)
	t := &target{Table: rejects, staged: &load.Staged{Table: rejects}, types: map[string]string{}}
	for _, f := range rejects.Columns.Fields() {
		t.types[f.Name] = m.db.sqlType(schemas.TypeOf(f))
	}
	defer t.staged.Release()
	if err := t.staged.Add(stamped); err != nil {
		return err
	}
	return m.writeOwn(t)
}
