package transform

import (
	"encoding/binary"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/transform/jsonscan"
)

// Limits of a record. // Invariant 6
const (
	maxDepth  = 3       // greatest number of names in the path of a column; deeper values are stored as JSON text
	maxLevels = 1000    // greatest depth of nested objects and arrays
	maxRecord = 8 << 20 // greatest size of a record in bytes
)

// object describes the objects at one place in the records, for example /customer. If an object has its members in
// the same order as the previous object, finding a member takes one comparison.
type object struct {
	table   *table
	pointer string // JSON pointer from a row of the table to the object
	depth   int    // number of names in the paths of the object's members
	level   int    // number of objects and arrays around a member, including this object
	fields  map[string]*field
	first   field // not a member itself; its field next is the first member of the last object
	serial  uint64
	root    bool // the object is the record itself, whose members are hashed
}

// field is one member of the objects at one place. Its values may have different types. So it can have a column, an
// object and child rows at the same time.
type field struct {
	word, mask [2]uint64 // the first 16 bytes of `"name":`, and a mask of the bytes that the text has
	rest       []byte    // the bytes of `"name":` after the first 16
	size       int
	seen       uint64 // serial of the last object that had this member

	next    *field // the field that followed this field in the last object
	column  *column
	special bool // the field is volatile or has a rule

	void     bool // the field stands for all members that are beyond the limit and have no value
	volatile bool
	context  bool       // the field is the member _context, which penstock adds
	rule     *fieldRule // nil: the field is loaded unchanged
	inside   *place     // place of this field's JSON text, with the rules for the fields in it

	object *object
	rows   *table
	name   string
	owner  *object
}

func newObject(t *table, pointer string, depth, level int) *object {
	o := &object{table: t, pointer: pointer, depth: depth, level: level, fields: map[string]*field{}}
	o.first.next = &field{}
	o.first.next.expect("") // matches nothing
	return o
}

func (r *reader) members(o *object, i, row int) (end int) {
	b := r.b
	o.serial++
	i = skipSpace(b, i)
	if b[i] == '}' {
		return i + 1
	}
	for last := &o.first; ; {
		begin := i
		f := last.next
		if f.mask[0]&jsonscan.Load(b, i)^f.word[0]|f.mask[1]&jsonscan.Load(b, i+8)^f.word[1] == 0 && f.hasRest(b, i+16) {
			i += f.size
		} else {
			if f, i = r.name(o, i); i < 0 {
				return i
			}
			last.next = f
		}
		if f.seen == o.serial {
			return refuseDuplicate
		}
		f.seen = o.serial
		last = f
		i = skipSpace(b, i)
		if f.special {
			i = r.specialValue(f, begin, i, row)
		} else {
			i = r.value(f, i, row)
		}
		if i < 0 {
			return i
		}
		if o.root {
			if len(r.hash.cuts) == 0 {
				h := xxh3.Hash(b[begin:i])
				r.hash.add(h)
				if f.context {
					r.hash.context = h
				}
			} else {
				r.hash.pieces(r.b, begin, i)
			}
		}
		i = skipSpace(b, i)
		if b[i] != ',' {
			break
		}
		i = skipSpace(b, i+1)
	}
	if b[i] != '}' {
		return refuseSyntax
	}
	return i + 1
}

// skipSpace does the same as [jsonscan.Space]. It is inlined, and calls that function only if there is white space.
func skipSpace(b []byte, i int) int {
	if b[i] <= ' ' {
		i = jsonscan.Space(b, i)
	}
	return i
}

func (f *field) hasRest(b []byte, i int) bool {
	return f.rest == nil || i+len(f.rest) <= len(b) && string(b[i:i+len(f.rest)]) == string(f.rest)
}

func (r *reader) name(o *object, i int) (f *field, end int) {
	b := r.b
	if b[i] != '"' {
		return nil, refuseSyntax
	}
	name, end := r.scan.String(b, i)
	if end < 0 {
		return nil, end
	}
	end = jsonscan.Space(b, end)
	if b[end] != ':' {
		return nil, refuseSyntax
	}
	f, ok := o.fields[string(name)]
	if !ok {
		if f = r.learn(o, string(name), jsonscan.Space(b, end+1)); f == nil {
			return nil, refuseBound
		}
	}
	return f, end + 1
}

// learn creates the field for a new member with the given name and a value at i. If the name is too long or the stream
// has too many fields, learn creates no field. Then it returns a shared field for an empty value, and nil for any other
// value. Invariant 6
func (r *reader) learn(o *object, name string, i int) *field {
	pointer := o.pointer + "/" + escapePointer(name)
	if _, known := o.table.sources[pointer]; !known && !r.tables.bound.roomFor(name, r.tables.bound.maxColumns+spareFields) {
		return r.fieldBeyondLimit(o, i)
	}
	f := &field{name: name, owner: o, next: o.first.next}
	f.expect(name)
	f.volatile = o.root && r.tables.volatile[name]
	f.context = o.root && name == contextName
	f.rule = r.tables.rules.at(o.table.path + pointer)
	f.special = f.volatile || f.rule != nil
	f.column = r.tables.columnAt(o.table, pointer)
	o.fields[name] = f
	return f
}

// expect prepares the fast comparison with a name. A name that JSON must escape never matches in this comparison. It is
// always looked up in object.fields.
func (f *field) expect(name string) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
		f.word[0], f.mask[0] = 1, 0 // under this mask, every text is 0, so it never equals the 1
		return
	}
	literal := `"` + name + `":`
	f.size = len(literal)
	var head, mask [16]byte
	for i := range copy(head[:], literal) {
		mask[i] = 0xff
	}
	for k := range f.word {
		f.word[k] = binary.LittleEndian.Uint64(head[8*k:])
		f.mask[k] = binary.LittleEndian.Uint64(mask[8*k:])
	}
	if len(literal) > len(head) {
		f.rest = []byte(literal[len(head):])
	}
}

func (r *reader) value(f *field, i, row int) (end int) {
	b := r.b
	c := f.column
	switch c.kind {
	case kindText:
		if b[i] == '"' {
			return c.text(row, b, i+1)
		}
	case kindInt:
		end = c.int(row, b, i)
	case kindTime:
		end = c.time(row, b, i)
	case kindBool:
		end = c.bool(row, b, i)
	case kindDecimal:
		end = c.decimal(row, b, i)
	case kindDate:
		end = c.date(row, b, i)
	}
	if end != decline {
		return end
	}
	switch b[i] {
	case 'n':
		return jsonscan.Null(r.b, i)
	case '{':
		return r.nested(f, i, row)
	case '[':
		return r.array(f, i, row)
	}
	if c.kind == kindJSON {
		return r.opaque(f, i, row)
	}
	if end = r.scan.Scan(r.b, i); end > 0 && !r.store(f, row) {
		return r.opaque(f, i, row)
	}
	return end
}

func (r *reader) nested(f *field, i, row int) (end int) {
	b := r.b
	if k := jsonscan.Space(b, i+1); b[k] == '}' && !f.column.declaredJSON() {
		return k + 1 // an empty object has no columns
	}
	if f.owner.depth >= maxDepth || f.column.declaredJSON() || r.walk.NumericNames(r.b, i) {
		if f.column.key {
			return refuseKey
		}
		return r.opaque(f, i, row)
	}
	if f.object == nil {
		o := f.owner
		f.object = newObject(o.table, f.column.source, o.depth+1, o.level+1)
	}
	return r.members(f.object, i+1, row)
}
