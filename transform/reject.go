package transform

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// How much a reject keeps of a value, and of a record, which should be whole so
// that it can be read again.
const (
	maxRaw       = 64 << 10
	maxRawRecord = 1 << 20
)

// What the reason of a reject ends with if its record is not there as it came,
// and reading it again would give another one.
const (
	lost      = ", and cannot be read again"
	notMasked = "; kept without what is masked" + lost
	notWhole  = "; kept in part" + lost
	notText   = `; kept with \xNN for what is no text` + lost
)

// Whole reports whether a record-level reject with this reason keeps the record
// byte for byte, so that appending it to a mapper again can repair it.
func Whole(reason string) bool { return !strings.HasSuffix(reason, lost) }

// reasons of refusals, for people.
var reasons = map[int]string{
	refuseDuplicate: "a name occurs twice in one object",
	refuseEncoding:  "a string is not UTF-8 or has half of a surrogate pair",
	refuseDepth:     fmt.Sprintf("nested more than %d levels deep", maxLevels),
	refuseWide:      tooWide,
	refuseSize:      fmt.Sprintf("longer than %d MiB", maxRecord>>20),
	refuseKey:       "no value in a key column",
	refuseLong:      fmt.Sprintf("the key is longer than %d bytes, which no index can hold; choose another key for the stream", schemas.MaxKeyBytes),
	refuseClash:     "another record of the same reading has the same key and other content",
	refuseSyntax:    "not understood",
	refuseNull:      "null in place of a record",
	refuseBound:     "more members than the stream may have columns",
}

// rejectRecord notes that the record at begin was left out.
func (m *Mapper) rejectRecord(begin, end, code int) {
	m.refused++
	raw, hash, note := m.shown(m.raw, begin, end)
	key := m.keyIn(m.raw[begin:end])
	id := cmp.Or(key, hash)
	switch {
	case code == refuseClash:
		id = key + " " + hash // the key is that of another record
	case len(key) > schemas.MaxKeyBytes:
		short, _ := jsontext.AppendQuote(nil, schemas.Indexed(key)) // valid UTF-8
		key = string(short)
	}
	m.rejects = append(m.rejects, Reject{
		Stream:  m.stream.Name,
		Stage:   StageTransform,
		ID:      id,
		Ordinal: m.fetched,
		Key:     key,
		Wanted:  "record",
		Raw:     raw,
		Reason:  reasons[code] + note,
		Record:  true,
	})
}

// indexed returns rejects whose identities an index can hold.
func indexed(rejects []Reject) []Reject {
	for i := range rejects {
		r := &rejects[i]
		r.ID, r.Pointer = schemas.Indexed(r.ID), schemas.Indexed(r.Pointer)
	}
	return rejects
}

// shown is the record page[begin:end] as a reject keeps it, what tells it apart from
// others, and what to say where that is not what came.
func (m *Mapper) shown(page []byte, begin, end int) (raw, hash, note string) {
	record, lossy := m.redacted(page, begin, end)
	raw = printable(record, maxRawRecord)
	hash = HashID(raw)
	switch most := mostShown(len(record), maxRawRecord); {
	case lossy:
		note = notMasked
	case len(record) > maxRawRecord:
		note = notWhole
	case len(raw) > most:
		raw, note = printable(record, most), notWhole
	case raw != string(record):
		note = notText
	}
	return raw, hash, note
}

// keptValue is a value as a reject keeps it.
func keptValue(v []byte) string {
	most := mostShown(len(v), maxRaw)
	s := printable(v, most)
	if len(s) >= most {
		s += "…"
	}
	return s
}

// mostShown is how many bytes a reject keeps of n bytes, most at most. Bytes that are no
// text take four bytes each: an answer of these would take four times its size.
// // Invariant 6
func mostShown(n, most int) int { return min(most, n+n/8+64) }

// rejectValue notes that the value of f in row could not be stored as it came.
func (m *Mapper) rejectValue(f *field, row int, raw []byte, reason string) {
	m.rejectAt(f, f.owner.table.pointer(row)+f.column.source, schemas.TypeName(f.column.typ), raw, reason)
}

// rejectElement does so for the element of a list that is in m.tok.
func (m *Mapper) rejectElement(f *field, row, index int) {
	m.rejectAt(f, f.element(row, index), schemas.TypeName(f.column.elem.typ), m.tok.raw, minusZero)
}

// rejectNull does so for a null among the objects of a list.
func (m *Mapper) rejectNull(f *field, row, index int) {
	m.rejectAt(f, f.element(row, index), "object", []byte("null"), "null in a list of objects")
}

// element is the pointer from the record to an element of the value of f in row.
func (f *field) element(row, index int) string {
	return f.owner.table.pointer(row) + f.column.source + "/" + strconv.Itoa(index)
}

func (m *Mapper) rejectAt(f *field, pointer, wanted string, raw []byte, reason string) {
	if f.ruling != nil && f.ruling.Drop {
		return // it would not be stored anyway
	}
	shown := masked
	if !f.ruling.hides() {
		shown = keptValue(raw)
	}
	m.rejects = append(m.rejects, Reject{
		Stream:  m.stream.Name,
		Stage:   StageTransform,
		Ordinal: m.fetched,
		Pointer: pointer,
		Wanted:  wanted,
		Raw:     shown,
		Reason:  reason,
	})
}

const minusZero = "a column of numbers has no negative zero: 0 was stored"

// pointer is the JSON pointer from the record to what row of t was made of.
func (t *table) pointer(row int) string {
	if t.parent == nil {
		return ""
	}
	return t.parent.pointer(int(t.parentRow[row])) + t.within + "/" + strconv.Itoa(int(t.position[row]))
}

// keyIn is the key of a record that was not stored, as JSON, as far as it can
// be found: the first value of each member.
func (m *Mapper) keyIn(record []byte) string {
	var values []string
	for i := range m.stream.Key {
		v := m.keyValue(record, i)
		if v == nil {
			return ""
		}
		values = append(values, printable(m.maskedKey(i, v), maxRaw))
	}
	return joinKey(values)
}

// keyValue is what a record has for the i-th key column; nil for nothing. As long
// as no record had one, its place is found by the names of the members.
func (m *Mapper) keyValue(record []byte, i int) []byte {
	if m.key[i] != nil {
		return memberIn(record, m.key[i].source)
	}
	if v := memberIn(record, m.keySource(i)); v != nil {
		return v
	}
	for _, name := range namesOf(record) {
		if pointer := "/" + escapePointer(name); schemas.Column(pointer) == m.stream.Key[i] {
			return memberIn(record, pointer)
		}
	}
	return nil
}

// maskedKey is the value v of the i-th key column, as JSON, as it may be shown.
func (m *Mapper) maskedKey(i int, v []byte) []byte {
	k := m.rulings.at(m.keySource(i))
	if !k.hides() {
		return v
	}
	if k.text == nil {
		return []byte(`"` + masked + `"`)
	}
	text := v
	if v[0] == '"' {
		text, _ = jsontext.AppendUnquote(nil, v)
	}
	out, _ := jsontext.AppendQuote(nil, k.text.append(nil, text))
	return out
}

// keySource is the pointer of the i-th key column, as far as it is known.
func (m *Mapper) keySource(i int) string {
	if c := m.key[i]; c != nil {
		return c.source
	}
	return schemas.PathPointer(m.stream.Key[i])
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

// memberIn is the first value at a pointer into a record, which the
// grammar allows; nil where there is none. The record need not be fit for
// anything else.
func memberIn(record []byte, pointer string) []byte {
	names := namesIn(pointer)
	d := jsontext.NewDecoder(bytes.NewBuffer(record),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for len(names) > 0 {
		if !enter(d, names[0]) {
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

// namesOf are the names of a record's members, as far as they can be read.
func namesOf(record []byte) []string {
	d := jsontext.NewDecoder(bytes.NewBuffer(record),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	var names []string
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			break
		}
		names = append(names, t.String())
		if d.SkipValue() != nil {
			break
		}
	}
	return names
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// namesIn are the steps of a pointer.
func namesIn(pointer string) []string {
	if pointer == "" {
		return nil
	}
	names := strings.Split(pointer[1:], "/")
	for i, name := range names {
		names[i] = unescapePointer.Replace(name)
	}
	return names
}

// enter goes into the object d stands before, up to the value of a member, or
// into the array, up to an element.
func enter(d *jsontext.Decoder, name string) bool {
	if d.PeekKind() == '[' {
		return enterArray(d, name)
	}
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

func enterArray(d *jsontext.Decoder, name string) bool {
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	index, err := strconv.Atoi(name)
	for ; err == nil && index > 0 && d.PeekKind() != ']'; index-- {
		err = d.SkipValue()
	}
	return err == nil && d.PeekKind() != ']'
}

// printable is b as text: bytes that are not UTF-8 as \xNN, cut at most bytes.
func printable(b []byte, most int) string {
	if len(b) <= most && utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.Grow(min(most, 4*len(b)))
	for len(b) > 0 && s.Len() < most {
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
