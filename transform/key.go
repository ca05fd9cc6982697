package transform

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// recordKey finds and writes the key of a record.
type recordKey struct {
	names   []string  // columns of the key, by their names in the source
	columns []*column // each is nil until a record has the field
	rules   *fieldRules
}

// The method complete() reports whether the row has a value in each column of the key.
func (k *recordKey) complete(row int) bool {
	for _, c := range k.columns {
		if c == nil || !c.has(row) {
			return false
		}
	}
	return true
}

// tooLong reports whether the key of the row is too long for an index.
func (k *recordKey) tooLong(row int) bool {
	n := 0
	for _, c := range k.columns {
		if c.kind >= kindText {
			n += len(c.cell(row))
		}
	}
	const escaped = 6 // one byte takes up to six bytes in JSON
	return n*escaped > schemas.MaxKeyBytes && len(k.of(row)) > schemas.MaxKeyBytes
}

// The method of() returns the key of a row as JSON, or "" if the stream has no key.
func (k *recordKey) of(row int) string {
	if len(k.columns) == 0 {
		return ""
	}
	var values []string
	for i, c := range k.columns {
		values = append(values, string(k.masked(i, c.appendJSON(nil, row))))
	}
	return joinKey(values)
}

// The method plain() reports whether the key is the value of one column. Any other key is written as text.
func (k *recordKey) plain() bool {
	return len(k.columns) == 1 && k.columns[0] != nil && k.columns[0].kind > kindStale
}

func (k *recordKey) typ() arrow.DataType {
	if k.plain() {
		return storage(k.columns[0].typ)
	}
	return schemas.Text
}

// column returns the keys of the rows of the root table. If the stream has no key, the column has the hash and the
// ordinal of each row.
func (k *recordKey) column(own *rootColumns, rows int) *vector {
	if k.plain() {
		return &k.columns[0].vector
	}
	c := newVector(own.hash.mem, schemas.Text)
	var parts []*vector
	for _, part := range k.columns {
		parts = append(parts, &part.vector)
	}
	var buf []byte
	for row := range rows {
		if buf = buf[:0]; len(k.columns) == 0 {
			buf = appendKeyless(buf, own.hash.cell(row), own.ordinal.ints[row])
		} else {
			buf = appendKey(buf, parts, row)
		}
		c.putBytes(row, buf)
	}
	return c
}

// positions returns the positions of the key columns in s. If no record had a value in a key column, its position is
// -1. In this case, the table has no rows.
func (k *recordKey) positions(s *arrow.Schema) (at []int) {
	for _, c := range k.columns {
		if c == nil {
			at = append(at, -1)
		} else {
			at = append(at, s.FieldIndices(c.name)[0])
		}
	}
	return at
}

// The method in() reads the key from a record that was not stored, and returns it as JSON. It returns "" if a value of
// the key is missing. If a member occurs twice, it uses the first value.
func (k *recordKey) in(record []byte) string {
	var values []string
	for i := range k.names {
		v := k.value(record, i)
		if v == nil {
			return ""
		}
		values = append(values, printable(k.masked(i, v), maxRaw))
	}
	return joinKey(values)
}

// value returns the value of one part of the key. If no record has had such a value yet, it finds the member by
// its name.
func (k *recordKey) value(record []byte, i int) []byte {
	if k.columns[i] != nil {
		return memberIn(record, k.columns[i].source)
	}
	if v := memberIn(record, k.source(i)); v != nil {
		return v
	}
	for _, name := range namesOf(record) {
		if pointer := "/" + escapePointer(name); schemas.Column(pointer) == k.names[i] {
			return memberIn(record, pointer)
		}
	}
	return nil
}

// The method masked() returns the value of one part of the key, in masked form if a rule masks the column.
func (k *recordKey) masked(i int, v []byte) []byte {
	rule := k.rules.at(k.source(i))
	if !rule.hides() {
		return v
	}
	if rule.text == nil {
		return []byte(`"` + masked + `"`)
	}
	text := v
	if v[0] == '"' {
		text, _ = jsontext.AppendUnquote(nil, v)
	}
	out, _ := jsontext.AppendQuote(nil, rule.text.append(nil, text))
	return out
}

// source returns the pointer of one part of the key. If no record has had the field yet, it derives the pointer
// from the name of the column.
func (k *recordKey) source(i int) string {
	if c := k.columns[i]; c != nil {
		return c.source
	}
	return schemas.PathPointer(k.names[i])
}

func joinKey(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	if len(values) == 0 {
		return ""
	}
	return "[" + strings.Join(values, ",") + "]"
}

func appendKeyless(dst, hash []byte, ordinal int64) []byte {
	dst = append(append(dst, hash...), '-')
	return strconv.AppendInt(dst, ordinal, 10)
}

func appendKey(dst []byte, key []*vector, row int) []byte {
	for i, c := range key {
		if i == 0 {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = c.appendJSON(dst, row)
	}
	return append(dst, ']')
}
