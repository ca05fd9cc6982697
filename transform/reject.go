package transform

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// maxRaw is how much of a value a reject keeps.
const maxRaw = 64 << 10

// reasons of refusals, for people.
var reasons = map[int]string{
	refuseDuplicate: "a name occurs twice in one object",
	refuseEncoding:  "a string is not UTF-8 or has half of a surrogate pair",
	refuseDepth:     fmt.Sprintf("nested more than %d levels deep", maxLevels),
	refuseSize:      fmt.Sprintf("longer than %d MiB", maxRecord>>20),
	refuseKey:       "no value in a key column",
	refuseSyntax:    "not understood",
	refuseNull:      "null in place of a record",
}

// rejectRecord notes that the record at begin was left out.
func (m *Mapper) rejectRecord(begin, end, code int) {
	m.refused++
	record := m.raw[begin:end]
	m.rejects = append(m.rejects, Reject{
		Stream:  m.stream.Name,
		Ordinal: m.fetched,
		Key:     m.keyIn(record),
		Wanted:  "record",
		Raw:     printable(record),
		Reason:  reasons[code],
		Record:  true,
	})
}

// rejectValue notes that the value of f in row could not be stored as it came.
func (m *Mapper) rejectValue(f *field, row int, raw []byte, reason string) {
	m.rejectAt(f.owner.table.pointer(row)+f.column.source, f.column.typ, raw, reason)
}

// rejectElement does so for the element of a list that is in m.tok.
func (m *Mapper) rejectElement(f *field, row, index int) {
	pointer := f.owner.table.pointer(row) + f.column.source + "/" + strconv.Itoa(index)
	m.rejectAt(pointer, f.column.elem.typ, m.tok.raw, minusZero)
}

func (m *Mapper) rejectAt(pointer string, wanted arrow.DataType, raw []byte, reason string) {
	m.rejects = append(m.rejects, Reject{
		Stream:  m.stream.Name,
		Ordinal: m.fetched,
		Pointer: pointer,
		Wanted:  schemas.TypeName(wanted),
		Raw:     printable(raw),
		Reason:  reason,
	})
}

const minusZero = "a column of numbers has no negative zero: 0 was stored"

// pointer is the JSON pointer from the record to what row of t was made of.
func (t *table) pointer(row int) string {
	if t.parent == nil {
		return ""
	}
	return t.parent.pointer(int(t.parentRow[row])) + t.within + "/" + strconv.Itoa(t.index(row))
}

// keyIn is the key of a record that was not stored, as JSON, as far as it can
// be found: the first value of each member.
func (m *Mapper) keyIn(record []byte) string {
	var values []string
	for i, name := range m.stream.Key {
		source := "/" + name
		if c := m.key[i]; c != nil {
			source = c.source
		}
		v := memberIn(record, source)
		if v == nil {
			return ""
		}
		values = append(values, printable(v))
	}
	return joinKey(values)
}

// joinKey is a key of one value, or of several as a JSON array.
func joinKey(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	if len(values) == 0 {
		return ""
	}
	return "[" + strings.Join(values, ",") + "]"
}

// memberIn is the first value at a pointer of objects in a record, which the
// grammar allows; nil where there is none. The record need not be fit for
// anything else.
func memberIn(record []byte, pointer string) []byte {
	names := strings.Split(pointer, "/")[1:]
	d := jsontext.NewDecoder(bytes.NewBuffer(record),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for len(names) > 0 {
		if !enter(d, unescapePointer.Replace(names[0])) {
			return nil
		}
		names = names[1:]
	}
	v, err := d.ReadValue()
	if err != nil || v.Kind() == 'n' {
		return nil
	}
	return v
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// enter goes into the object d stands before, up to the value of a member.
func enter(d *jsontext.Decoder, name string) bool {
	if d.PeekKind() != '{' {
		return false
	}
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		if t.String() == name {
			return true
		}
		if d.SkipValue() != nil {
			return false
		}
	}
	return false
}

// printable is b as text: bytes that are not UTF-8 as \xNN, cut at maxRaw.
func printable(b []byte) string {
	var s strings.Builder
	for len(b) > 0 && s.Len() < maxRaw {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&s, `\x%02X`, b[0])
		} else {
			s.Write(b[:n])
		}
		b = b[n:]
	}
	return s.String()
}
