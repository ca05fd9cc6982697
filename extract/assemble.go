package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

type assembler struct {
	stream    schemas.Stream
	params    []byte // members of every record's context, as JSON without braces
	copyLists bool   // copy the records even if they could be used directly from the body
	deep      bool
	seed      maphash.Seed

	group   []byte // the name of a member of _context, from stream.Context, as JSON
	groupOf string
	scratch []byte
	members []string // for each key column, the member that holds it; until this is known, the name of the column
}

type batch struct {
	records []byte // a "[" and the records, separated by commas; the closing "]" is there only if whole is true
	whole   bool   // records is a complete JSON array, unchanged from the body
	paging.Hashes
	cuts cuts

	keysOnly bool // keep only the hashes: the records are not loaded, only compared with another page
}

// reserve allocates memory for n more hashes. Otherwise append would copy the slices, and need twice the memory.
// Invariant 6
func (b *batch) reserve(n int, deep bool) {
	if b.Keys = slices.Grow(b.Keys, n); deep {
		b.Content = slices.Grow(b.Content, n)
	}
}

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

// assemble adds the found records to b. If the records are one array and need no context, b refers to the body
// instead of copying it.
func (a *assembler) assemble(d *jsondoc.Doc, f records.Found, b *batch) error {
	if !a.copyLists && len(f.Places) == 1 && f.Places[0].Form == records.FormList && !a.needsContext(f.Places[0]) {
		p := f.Places[0]
		b.records, b.whole = d.Raw(p.Value), true
		b.reserve(d.Count(p.Value), a.deep)
		for r := range d.Elements(p.Value) {
			b.cuts.note(r.Start-p.Value.Start, b.N)
			a.note(d, r, nil, nil, b)
		}
		return d.Err()
	}
	if len(f.Places) == 1 && b.N == 0 {
		b.reserve(d.Count(f.Places[0].Value), a.deep)
		if !b.keysOnly {
			b.records = slices.Grow(b.records, a.size(d, f.Places[0]))
		}
	}
	for p := range f.All(d) {
		a.place(d, p, b)
	}
	return d.Err()
}

// size returns an upper bound of the bytes that the records of p take.
func (a *assembler) size(d *jsondoc.Doc, p records.Place) int {
	n := p.Value.End - p.Value.Start + len("[]")
	if len(a.params) > 0 || a.stream.Context != "" {
		n += d.Count(p.Value) * (len(a.params) + len(a.stream.Context) + len(records.ContextKey) + len(`"":{"":,},`))
	}
	return n
}

func (a *assembler) needsContext(p records.Place) bool {
	return len(a.params) > 0 || a.stream.Context != "" && p.In.OK()
}

func (a *assembler) place(d *jsondoc.Doc, p records.Place, b *batch) {
	var context []byte
	if a.needsContext(p) {
		a.scratch = a.appendContext(a.scratch[:0], d, p)
		context = a.scratch
	}
	switch p.Form {
	case records.FormOne:
		a.add(d, p.Value, nil, context, b)
	case records.FormValues:
		positions := d.Get(p.Value, "0").OK() // names like "0" are indexes, other names are ids
		for name, r := range d.Members(p.Value) {
			if positions {
				name = nil
			}
			a.add(d, r, a.identity(d, r, name), context, b)
		}
	default:
		for r := range d.Elements(p.Value) {
			a.add(d, r, nil, context, b)
		}
	}
}

// appendContext appends the member that each record of p gets, for example
//
//	"_context":{"stage":{"id":4,"name":"New"},"pipeline_id":1}
func (a *assembler) appendContext(out []byte, d *jsondoc.Doc, p records.Place) []byte {
	out = append(out, `"`+records.ContextKey+`":{`...)
	if a.stream.Context != "" && p.In.OK() {
		if a.groupOf != a.stream.Context {
			a.groupOf = a.stream.Context
			a.group, _ = json.Marshal(a.groupOf)
		}
		out = append(append(out, a.group...), ':')
		if p.In.Key != nil {
			out = append(out, p.In.Key...)
		} else {
			out = append(out, d.Scalars(p.In.Object)...)
		}
		if len(a.params) > 0 {
			out = append(out, ',')
		}
	}
	return append(append(out, a.params...), '}')
}

// identity returns the id of a record as a member, if the id is the name under which an object holds the record: for
// {"17":{"name":"Ann"}} it returns "id":17. It returns nil if r itself has an id.
func (a *assembler) identity(d *jsondoc.Doc, r jsondoc.Value, name []byte) []byte {
	if name == nil || len(a.stream.Key) != 1 || strings.HasPrefix(a.stream.Key[0], records.ContextKey) || !d.IsObject(r) || a.member(d, r, 0).OK() {
		return nil
	}
	member, _ := json.Marshal(a.stream.Key[0])
	return append(append(member, ':'), records.NameValue(name)...)
}

func (a *assembler) add(d *jsondoc.Doc, r jsondoc.Value, identity, context []byte, b *batch) {
	if b.keysOnly {
		a.note(d, r, identity, context, b)
		return
	}
	if len(b.records) == 0 {
		b.records = append(b.records, '[')
	} else {
		b.records = append(b.records, ',')
	}
	b.cuts.note(len(b.records), b.N)
	a.note(d, r, identity, context, b)
	raw := d.Raw(r)
	if identity == nil && context == nil || !d.IsObject(r) {
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

func (a *assembler) note(d *jsondoc.Doc, r jsondoc.Value, identity, context []byte, b *batch) {
	if b.N++; b.N > jsondoc.MaxNodes { // Invariant 6
		d.Fail(r.Start, fmt.Sprintf("more than %d records in one answer", jsondoc.MaxNodes))
		return
	}
	if b.Last = r; !b.First.OK() {
		b.First = r
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
	b.Keys = append(b.Keys, h)
	if a.deep {
		b.Content = append(b.Content, a.content(d, r))
	}
}

func (a *assembler) key(d *jsondoc.Doc, r jsondoc.Value) (h uint64, ok bool) {
	for i, column := range a.stream.Key {
		if strings.HasPrefix(column, records.ContextKey) {
			continue
		}
		v := a.member(d, r, i)
		if !v.OK() || v.Nested() {
			return 0, false
		}
		h += maphash.Bytes(a.seed, d.Raw(v)) * uint64(2*i+1)
		ok = true
	}
	return h, ok
}

// member returns the i-th key column of r. The source may spell its name differently: objectId for object_id.
func (a *assembler) member(d *jsondoc.Doc, r jsondoc.Value, i int) jsondoc.Value {
	if len(a.members) != len(a.stream.Key) {
		a.members = slices.Clone(a.stream.Key)
	}
	v := d.Get(r, a.members[i])
	if v.OK() {
		return v
	}
	name, v := records.MemberOfColumn(d, r, a.stream.Key[i])
	if v.OK() {
		a.members[i] = name
	}
	return v
}

func (a *assembler) keyText(d *jsondoc.Doc, r jsondoc.Value) string {
	var parts []string
	for i := range a.stream.Key {
		v := a.member(d, r, i)
		if !v.OK() || v.Nested() {
			return ""
		}
		parts = append(parts, wire.Excerpt(string(d.Raw(v))))
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// content returns a hash of r, without the context and the volatile members. The order of the members does not
// matter.
func (a *assembler) content(d *jsondoc.Doc, r jsondoc.Value) uint64 {
	if !d.IsObject(r) {
		return maphash.Bytes(a.seed, d.Raw(r))
	}
	var h uint64
	for name, v := range d.Members(r) {
		if string(name) != records.ContextKey && !slices.Contains(a.stream.Volatile, string(name)) {
			h += maphash.Bytes(a.seed, name) * (maphash.Bytes(a.seed, d.Raw(v)) | 1)
		}
	}
	return h
}

// A page is processed in parts. So the data derived from a large body is never in memory all at once. // Invariant 6
const (
	partBytes   = 4 << 20
	partRecords = 5_000
)

type cuts struct {
	at     []int
	record int // number of records before the last cut
}

func (c *cuts) note(offset, n int) {
	last := 0
	if len(c.at) > 0 {
		last = c.at[len(c.at)-1]
	}
	if n > 0 && (offset-last >= partBytes || n-c.record >= partRecords) {
		c.at, c.record = append(c.at, offset), n
	}
}

// Parts yields the records in parts of a few megabytes. A part is a JSON array, and comes with its offset in Records.
// It is valid until the loop continues. Do not use Records during the loop: Parts replaces some bytes by brackets,
// and restores them later.
func (p *Page) Parts() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		begin := 0
		for _, cut := range p.cuts {
			end := cut - 1
			for p.Records[end] != ',' {
				end--
			}
			if !p.part(begin, end+1, yield) {
				return
			}
			begin = end
		}
		p.part(begin, len(p.Records), yield)
	}
}

// part yields the records between two offsets as an array. Records has a bracket or a comma at both offsets. part()
// replaces them by brackets, and restores them.
func (p *Page) part(begin, end int, yield func(int, []byte) bool) bool {
	b := p.Records[begin:end]
	if len(p.cuts) > 0 {
		first, last := b[0], b[len(b)-1]
		b[0], b[len(b)-1] = '[', ']'
		defer func() { b[0], b[len(b)-1] = first, last }()
	}
	return yield(begin, b)
}
