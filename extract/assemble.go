package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// contextKey is the member of a record that says where the record was found.
const contextKey = "_context"

// assembler turns the places of a body into one JSON array.
type assembler struct {
	stream schemas.Stream
	params []byte // members that every record's context gets, as JSON without braces
	apart  bool   // never take a list as it stands: it will be joined with others
	deep   bool   // take note of the records' content beside their keys
	seed   maphash.Seed

	members []string // of a record: those that the key's columns are made of, as far as they are known
}

// batch is what one answer, or several, hold of records.
type batch struct {
	records []byte // elements separated by commas, without the brackets, unless whole
	whole   bool   // records is a list as the body had it
	n       int
	keys    []uint64 // hashes of the records' keys, or of the records where they have none
	content []uint64 // hashes of the records without their keys' help; only where the assembler is deep
	first   value    // the first record, in the body it came with
	last    value    // the last record
	cuts    cuts
}

// json is the batch as one JSON array.
func (b *batch) json() []byte {
	if b.whole {
		return b.records
	}
	if len(b.records) == 0 {
		return []byte("[]")
	}
	b.records = append(b.records, ']')
	return b.records
}

// assemble appends the records of what was found to b. One plain list that
// needs no context is taken as it stands in the body.
func (a *assembler) assemble(d *doc, f found, b *batch) error {
	if !a.apart && len(f.places) == 1 && f.places[0].form == formList && !a.needsContext(f.places[0]) {
		p := f.places[0]
		b.records, b.whole = d.raw(p.value), true
		b.keys = slices.Grow(b.keys, d.count(p.value))
		for r := range d.elements(p.value) {
			b.cuts.note(r.start-p.value.start, b.n)
			a.note(d, r, nil, nil, b)
		}
		return d.err
	}
	for _, p := range f.places {
		a.place(d, p, b)
	}
	return d.err
}

func (a *assembler) needsContext(p place) bool {
	return len(a.params) > 0 || a.stream.Context != "" && p.in.ok()
}

// place appends the records of one place.
func (a *assembler) place(d *doc, p place, b *batch) {
	var context []byte
	if a.needsContext(p) {
		context = a.context(d, p)
	}
	switch p.form {
	case formOne:
		a.add(d, p.value, nil, context, b)
	case formValues:
		positions := d.get(p.value, "0").ok() // of a list that has lost elements; else the names are ids
		for name, r := range d.members(p.value) {
			if positions {
				name = nil
			}
			a.add(d, r, a.identity(d, r, name), context, b)
		}
	default:
		for r := range d.elements(p.value) {
			a.add(d, r, nil, context, b)
		}
	}
}

// context is the member to append to each record of p:
// "_context":{"stage":{"id":4,"name":"New"},"pipeline_id":1}.
func (a *assembler) context(d *doc, p place) []byte {
	out := append([]byte(nil), `"`+contextKey+`":{`...)
	if a.stream.Context != "" && p.in.ok() {
		name, _ := json.Marshal(a.stream.Context)
		out = append(append(out, name...), ':')
		if p.in.key != nil {
			out = append(out, p.in.key...)
		} else {
			out = append(out, d.scalars(p.in.object)...)
		}
		if len(a.params) > 0 {
			out = append(out, ',')
		}
	}
	return append(append(out, a.params...), '}')
}

// identity is the member to append to the record r of a dictionary, which has the
// record's id as its name, where r does not have its key by itself:
// {"17":{"name":"Ann"}} is a record {"name":"Ann","id":17}. It is nil where r
// needs none.
func (a *assembler) identity(d *doc, r value, name []byte) []byte {
	if name == nil || len(a.stream.Key) != 1 || strings.HasPrefix(a.stream.Key[0], contextKey) || !d.isObject(r) || a.member(d, r, 0).ok() {
		return nil
	}
	member, _ := json.Marshal(a.stream.Key[0]) // a string always marshals
	return append(append(member, ':'), nameValue(name)...)
}

// nameValue is the value that a name of a dictionary stands for: a number, as
// references to the record are, or a text.
func nameValue(name []byte) []byte {
	if isNumber(name) {
		return name
	}
	return append(append([]byte{'"'}, name...), '"')
}

// add appends one record, the identity that it lacks, and its context.
func (a *assembler) add(d *doc, r value, identity, context []byte, b *batch) {
	if len(b.records) == 0 {
		b.records = append(b.records, '[')
	} else {
		b.records = append(b.records, ',')
	}
	b.cuts.note(len(b.records), b.n)
	a.note(d, r, identity, context, b)
	raw := d.raw(r)
	if identity == nil && context == nil || !d.isObject(r) {
		b.records = append(b.records, raw...)
		return
	}
	body := bytes.TrimRight(raw[:len(raw)-1], " \t\r\n")
	b.records = append(b.records, body...)
	for _, member := range [][]byte{identity, context} {
		if member == nil {
			continue
		}
		if b.records[len(b.records)-1] != '{' {
			b.records = append(b.records, ',')
		}
		b.records = append(b.records, member...)
	}
	b.records = append(b.records, '}')
}

// note counts one record and remembers which it was.
func (a *assembler) note(d *doc, r value, identity, context []byte, b *batch) {
	if b.n++; b.n > maxNodes { // Invariant 6
		d.fail(r.start, fmt.Sprintf("more than %d records in one answer", maxNodes))
		return
	}
	if b.last = r; !b.first.ok() {
		b.first = r
	}
	h, ok := a.key(d, r)
	switch {
	case ok:
	case identity != nil:
		h = maphash.Bytes(a.seed, identity)
	default:
		h = a.content(d, r)
	}
	if context != nil {
		h ^= maphash.Bytes(a.seed, context)
	}
	b.keys = append(b.keys, h)
	if a.deep {
		b.content = append(b.content, a.content(d, r))
	}
}

// key is the hash of a record's key; ok is false where the record does not have
// one by itself.
func (a *assembler) key(d *doc, r value) (h uint64, ok bool) {
	for i, column := range a.stream.Key {
		if strings.HasPrefix(column, contextKey) {
			continue
		}
		v := a.member(d, r, i)
		if !v.ok() || v.node >= 0 {
			return 0, false
		}
		h += maphash.Bytes(a.seed, d.raw(v)) * uint64(2*i+1)
		ok = true
	}
	return h, ok
}

// member is the value in r for the i-th column of the key. The source may spell
// its name in another way than the column: ID, objectId.
func (a *assembler) member(d *doc, r value, i int) value {
	if len(a.members) != len(a.stream.Key) {
		a.members = slices.Clone(a.stream.Key)
	}
	v := d.get(r, a.members[i])
	if v.ok() {
		return v
	}
	name, v := d.ofColumn(r, a.stream.Key[i])
	if v.ok() {
		a.members[i] = name
	}
	return v
}

// keyText is the key of a record as JSON, for people: a list where it has several
// parts, "" where it has none by itself.
func (a *assembler) keyText(d *doc, r value) string {
	var parts []string
	for i := range a.stream.Key {
		v := a.member(d, r, i)
		if !v.ok() || v.node >= 0 {
			return ""
		}
		parts = append(parts, excerpt(string(d.raw(v))))
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// content is the hash of a whole record without its context and what changes by
// being read,
// independent of the order of its members.
func (a *assembler) content(d *doc, r value) uint64 {
	if !d.isObject(r) {
		return maphash.Bytes(a.seed, d.raw(r))
	}
	var h uint64
	for name, v := range d.members(r) {
		if string(name) != contextKey && !slices.Contains(a.stream.Volatile, string(name)) {
			h += maphash.Bytes(a.seed, name) * (maphash.Bytes(a.seed, d.raw(v)) | 1)
		}
	}
	return h
}
