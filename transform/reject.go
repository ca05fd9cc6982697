package transform

import (
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

// HasWholeRecord reports whether a reject stores the complete bytes of its record. The argument is the reason of the
// reject. The reason says if the bytes are incomplete, for example because the record is long. A complete record can be
// read again later. At that time, the table may have other columns, so that it can store the record.
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
	refuseBound:     "the record needs more columns, fields or child tables than the stream may have",
}

// rejects collects the rejects of a batch.
type rejects struct {
	stream string
	rules  *fieldRules
	list   []Reject
}

// record adds a reject for a record that cannot be stored. The record is page[begin:end].
func (x *rejects) record(page []byte, begin, end, code int, ordinal int64, in *recordKey) {
	raw, hash, note := x.rules.shown(page, begin, end)
	key := in.in(page[begin:end])
	id := cmp.Or(key, hash)
	switch {
	case code == refuseClash:
		id = key + " " + hash // the key is already the ID of the first record
	case len(key) > schemas.MaxKeyBytes:
		short, _ := jsontext.AppendQuote(nil, schemas.Indexed(key)) // no error, because the text is valid UTF-8
		key = string(short)
	}
	x.list = append(x.list, Reject{
		Stream:  x.stream,
		Stage:   StageTransform,
		ID:      id,
		Ordinal: ordinal,
		Key:     key,
		Wanted:  "record",
		Raw:     raw,
		Reason:  reasons[code] + note,
		Record:  true,
	})
}

// value adds a reject for a value that the column of f cannot hold.
func (x *rejects) value(f *field, row int, raw []byte, reason string) {
	x.at(f, f.owner.table.pointer(row)+f.column.source, schemas.TypeName(f.column.typ), raw, reason)
}

// element adds a reject for one element of a list, because the column of f cannot hold the element.
func (x *rejects) element(f *field, row, index int, raw []byte) {
	x.at(f, f.element(row, index), schemas.TypeName(f.column.elem.typ), raw, minusZero)
}

// The method null() adds a reject for a null among the objects of an array.
func (x *rejects) null(f *field, row, index int) {
	x.at(f, f.element(row, index), "object", []byte("null"), "null in a list of objects")
}

func (x *rejects) at(f *field, pointer, wanted string, raw []byte, reason string) {
	if f.rule != nil && f.rule.Drop {
		return // the rules drop the value, so it needs no reject
	}
	shown := masked
	if !f.rule.hides() {
		shown = keptValue(raw)
	}
	x.add(pointer, wanted, shown, reason)
}

// add adds a reject for a value. If the record of the value is stored, belong() completes the reject.
func (x *rejects) add(pointer, wanted, raw, reason string) {
	x.list = append(x.list, Reject{
		Stream: x.stream, Stage: StageTransform, Pointer: pointer, Wanted: wanted, Raw: raw, Reason: reason,
	})
}

// belong adds the ordinal, key and ID of the record to the rejects from the given index on.
func (x *rejects) belong(first int, ordinal int64, key, id string) {
	for i := range x.list[first:] {
		r := &x.list[first+i]
		r.Ordinal, r.Key, r.ID = ordinal, key, id
	}
}

// bytes returns the approximate size of the rejects.
func (x *rejects) bytes() (n int64) {
	for i := range x.list {
		n += int64(len(x.list[i].Raw)) + rejectBytes
	}
	return n
}

const rejectBytes = 256

// indexed shortens ID and Pointer of the rejects, so that they fit into an index.
func indexed(rejects []Reject) []Reject {
	for i := range rejects {
		r := &rejects[i]
		r.ID, r.Pointer = schemas.Indexed(r.ID), schemas.Indexed(r.Pointer)
	}
	return rejects
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

func (f *field) element(row, index int) string {
	return f.owner.table.pointer(row) + f.column.source + "/" + strconv.Itoa(index)
}

const minusZero = "a numeric column cannot hold negative zero: 0 was stored"

func (t *table) pointer(row int) string {
	if t.parent == nil {
		return ""
	}
	return t.parent.pointer(int(t.parentRow[row])) + t.within + "/" + strconv.Itoa(int(t.position[row]))
}

// The function printable() returns the beginning of b as text. The text is at most three bytes longer than limit. Bytes
// that are not UTF-8 become \xNN.
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
