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
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// How many bytes a reject keeps: maxRaw of a value, and maxRawRecord of a record. The limit for records is higher,
// because only a complete record can be read again.
const (
	maxRaw       = 64 << 10
	maxRawRecord = 1 << 20
)

// If a reject does not have the original record, its reason ends with one of these texts. The record then cannot be
// read again.
const (
	lost      = ", and cannot be read again"
	notMasked = "; kept without masked values" + lost
	notWhole  = "; kept in part" + lost
	notText   = `; kept with \xNN for bytes that are not UTF-8` + lost
)

// HasWholeRecord reports whether the reject of a whole record has the original record. reason is the reason of the
// reject. If the record is appended to a mapper again, it may be stored.
func HasWholeRecord(reason string) bool { return !strings.HasSuffix(reason, lost) }

// Codes that functions return in the place of a position, if they refuse a value. Mapper.record then determines whether
// the page is invalid, or whether only the record is refused.
const (
	refuseSyntax    = jsonscan.BadSyntax
	refuseEncoding  = jsonscan.BadEncoding
	refuseDuplicate = -10 - iota // a name occurs twice in an object
	refuseDepth                  // nested deeper than maxLevels
	refuseSize
	refuseKey   // no value in a key column
	refuseClash // another record has the same key and different content
	refuseNull  // null in the place of a record
	refuseLong  // a key that is too long for an index
	refuseBound // more columns, fields or child tables than the stream may have
	refuseWide  // the rows of the record take too much memory
)

var reasons = map[int]string{
	refuseDuplicate: "a name occurs twice in one object",
	refuseEncoding:  "a string is not UTF-8 or has half of a surrogate pair",
	refuseDepth:     fmt.Sprintf("nested more than %d levels deep", maxLevels),
	refuseWide:      tooWide,
	refuseSize:      fmt.Sprintf("longer than %d MiB", maxRecord>>20),
	refuseKey:       "no value in a key column",
	refuseLong:      fmt.Sprintf("the key is longer than %d bytes, which no index can hold; choose another key for the stream", schemas.MaxKeyBytes),
	refuseClash:     "another record of the same pass has the same key and different content",
	refuseSyntax:    "not readable",
	refuseNull:      "null in place of a record",
	refuseBound:     "more members than the stream may have columns",
}

func (m *Mapper) rejectRecord(begin, end, code int) {
	m.refused++
	raw, hash, note := m.shown(m.raw, begin, end)
	key := m.keyIn(m.raw[begin:end])
	id := cmp.Or(key, hash)
	switch {
	case code == refuseClash:
		id = key + " " + hash // the key is already the ID of the first record
	case len(key) > schemas.MaxKeyBytes:
		short, _ := jsontext.AppendQuote(nil, schemas.Indexed(key)) // no error, because the text is valid UTF-8
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

// indexed shortens ID and Pointer of the rejects, so that they fit into an index.
func indexed(rejects []Reject) []Reject {
	for i := range rejects {
		r := &rejects[i]
		r.ID, r.Pointer = schemas.Indexed(r.ID), schemas.Indexed(r.Pointer)
	}
	return rejects
}

// shown returns the record in the form that a reject may show, and its hash. If that form is not the original, note
// says so.
func (m *Mapper) shown(page []byte, begin, end int) (raw, hash, note string) {
	record, lossy := m.redacted(page, begin, end)
	raw = printable(record, maxRawRecord)
	hash = HashID(raw)
	switch limit := mostShown(len(record), maxRawRecord); {
	case lossy:
		note = notMasked
	case len(record) > maxRawRecord:
		note = notWhole
	case len(raw) > limit:
		raw, note = printable(record, limit), notWhole
	case raw != string(record):
		note = notText
	}
	return raw, hash, note
}

func keptValue(v []byte) string {
	limit := mostShown(len(v), maxRaw)
	s := printable(v, limit)
	if len(s) >= limit {
		s += "…"
	}
	return s
}

// mostShown returns how many bytes of text a reject keeps for n bytes of input. A byte that is not UTF-8 takes four
// bytes of text. Without this limit, a page of such bytes would take four times its size. // Invariant 6
func mostShown(n, limit int) int { return min(limit, n+n/8+64) }

func (m *Mapper) rejectValue(f *field, row int, raw []byte, reason string) {
	m.rejectAt(f, f.owner.table.pointer(row)+f.column.source, schemas.TypeName(f.column.typ), raw, reason)
}

func (m *Mapper) rejectElement(f *field, row, index int) {
	m.rejectAt(f, f.element(row, index), schemas.TypeName(f.column.elem.typ), m.scan.Raw, minusZero)
}

func (m *Mapper) rejectNull(f *field, row, index int) {
	m.rejectAt(f, f.element(row, index), "object", []byte("null"), "null in a list of objects")
}

func (f *field) element(row, index int) string {
	return f.owner.table.pointer(row) + f.column.source + "/" + strconv.Itoa(index)
}

func (m *Mapper) rejectAt(f *field, pointer, wanted string, raw []byte, reason string) {
	if f.rule != nil && f.rule.Drop {
		return // the value would not be loaded anyway
	}
	shown := masked
	if !f.rule.hides() {
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

const minusZero = "a numeric column cannot hold negative zero: 0 was stored"

func (t *table) pointer(row int) string {
	if t.parent == nil {
		return ""
	}
	return t.parent.pointer(int(t.parentRow[row])) + t.within + "/" + strconv.Itoa(int(t.position[row]))
}

// keyIn returns the key of a record that was not stored, as JSON. It returns "" if a value of the key is missing. If
// a member occurs twice, keyIn uses the first.
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

// keyValue returns the value of one part of the key. If no record has had such a value yet, it finds the member by
// its name.
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

func (m *Mapper) maskedKey(i int, v []byte) []byte {
	k := m.rules.at(m.keySource(i))
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

// keySource returns the pointer of one part of the key. If no record has had the field yet, it derives the pointer
// from the name of the column.
func (m *Mapper) keySource(i int) string {
	if c := m.key[i]; c != nil {
		return c.source
	}
	return schemas.PathPointer(m.stream.Key[i])
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

// memberIn returns the value at a pointer. It returns nil if the value is missing or null. The record may have
// duplicate names and invalid UTF-8.
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

// enter moves d to the value of the member with this name in the next object. If the next value is an array, the name
// is an index.
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

// printable returns b as text of about limit bytes, at most three more. Bytes that are not UTF-8 become \xNN.
func printable(b []byte, limit int) string {
	if len(b) <= limit && utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.Grow(min(limit, 4*len(b)))
	for len(b) > 0 && s.Len() < limit {
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
