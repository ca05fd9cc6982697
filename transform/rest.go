package transform

import (
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/transform/jsonscan"
)

// A record may have more members than the stream may have columns. Such a record is split into two records with the
// same nesting. The first has the members with a column or a child table. The second, the rest, is stored as JSON
// text in [schemas.ColRest]. The members of the rest are sorted by name at every level, so that equal records give
// equal texts. A record whose members all fit is not split. Invariants 6 and 11

// record reads the record at b[i] into the given row. It stores members beyond the limit in the rest.
func (r *reader) record(b []byte, i, row int) (end int) {
	crossed := r.tables.bound.crossed && b[i] == '{'
	r.tables.bound.crossed = false
	if !crossed {
		k := r.mark()
		if end = r.fill(b, i, row); end != refuseBound {
			return end
		}
		r.undo(k, r.tables.root, row)
	}
	end, _, ok := r.walk.Value(b, i)
	if !ok || b[i] != '{' {
		return refuseSyntax
	}
	x := splitter{set: r.tables, b: b}
	kept, rest, _ := x.object(i, position{table: r.tables.root, depth: 1, level: 1})
	if crossed && (x.code < 0 || rest == nil) {
		return r.record(b, i, row) // read it normally, so that its hash and rejects do not depend on the previous record
	}
	if x.code < 0 {
		return x.code
	}
	if kept == nil {
		kept = []byte("{}")
	}
	if filled := r.fill(jsonscan.Pad(slices.Clip(kept)), 0, row); filled < 0 {
		return filled
	}
	r.tables.bound.crossed = true
	if r.storeRest(row, rest) {
		r.tables.bound.noteBeyond(x.beyond)
	}
	return end
}

// storeRest stores the rest of a record. It returns false if there is nothing to store. The rest becomes part of the
// record's hash. So the row is written again when a larger limit gives these members columns.
func (r *reader) storeRest(row int, rest []byte) bool {
	if rest != nil && r.tables.rules.any() {
		x := redactor{rules: r.tables.rules}
		rest, _ = x.value(nil, jsonscan.Pad(rest), 0, r.tables.rules.below, 0)
	}
	if rest == nil || string(rest) == "{}" {
		return false
	}
	if r.tables.root.rest == nil {
		r.tables.addRest(r.tables.root)
	}
	r.tables.root.rest.putBytes(row, rest)
	r.hash.add(xxh3.HashSeed(rest, restSeed))
	return true
}

const restSeed = 0x7265_7374

type splitter struct {
	set    *tableSet
	b      []byte
	walk   jsonscan.Walker
	beyond []string // pointers of the first few fields beyond a limit
	tables []string // paths of the child tables whose first rows are in this record
	left   int      // number of values so far that were dropped or put into the rest
	code   int      // refusal code; 0: no fault
}

type position struct {
	table   *table
	pointer string // JSON pointer from a row of the table
	depth   int    // number of names in the path of a column for a member of the value
	level   int    // number of objects and arrays around a member of the value
}

type restMember struct {
	name  []byte // as written, with its quotes
	text  string
	value []byte // nil if nothing of the value is in the rest
}

// object splits the object at i into the part that is kept and the rest. If one of the two is empty, it is nil. A value
// that is kept completely keeps its bytes, so that the hash of the record is the same as without splitting.
func (x *splitter) object(i int, s position) (kept, rest []byte, end int) {
	start, left := i, x.left
	kept = append(kept, '{')
	var parts []restMember
	some := false
	for i = jsonscan.Space(x.b, i+1); x.b[i] != '}' && x.code == 0; i = jsonscan.Space(x.b, i) {
		if x.b[i] == ',' {
			i = jsonscan.Space(x.b, i+1)
		}
		begin := i
		code, plain := jsonscan.Text(x.b, i+1)
		if code < 0 {
			x.code = code
			break
		}
		p := restMember{name: x.b[begin:code]}
		if p.text = string(p.name[1 : len(p.name)-1]); !plain {
			p.text = string(jsonscan.Unescape(nil, x.b, begin+1))
		}
		i = jsonscan.Space(x.b, jsonscan.Space(x.b, code)+1)
		named := x.b[begin:i]
		var here []byte
		here, p.value, i = x.value(i, s.member(p.text))
		if here != nil {
			if some {
				kept = append(kept, ',')
			}
			kept = append(append(kept, named...), here...)
			some = true
		}
		parts = append(parts, p)
	}
	rest = x.sorted(parts)
	switch {
	case !some:
		return nil, rest, i + 1
	case x.left == left && x.code == 0:
		return x.b[start : i+1], nil, i + 1
	}
	return append(kept, '}'), rest, i + 1
}

func (s position) member(name string) position {
	s.pointer += "/" + escapePointer(name)
	return s
}

func (x *splitter) sorted(parts []restMember) []byte {
	slices.SortFunc(parts, func(a, b restMember) int { return strings.Compare(a.text, b.text) })
	var out []byte
	for i, p := range parts {
		if i > 0 && p.text == parts[i-1].text && x.code == 0 {
			x.code = refuseDuplicate
		}
		if p.value == nil {
			continue
		}
		if out == nil {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out = append(append(append(out, p.name...), ':'), p.value...)
	}
	if out != nil {
		out = append(out, '}')
	}
	return out
}

func (x *splitter) value(i int, s position) (kept, rest []byte, end int) {
	c, set := s.table.sources[s.pointer], x.set
	end, depth, _ := x.walk.Value(x.b, i)
	whole := x.b[i:end]
	switch _, void := jsonscan.Empty(x.b, i, maxDepth); {
	case set.rules.drops && set.rules.peek(s.table.path+s.pointer).leavesOut(x.b, i):
		x.left++ // the value is not loaded
		return nil, nil, end
	case void:
		return whole, nil, end
	case x.b[i] == '{' && s.depth < maxDepth && !(c != nil && c.declaredJSON()) && !x.walk.NumericNames(x.b, i):
		return x.nested(i, s)
	case x.b[i] == '[' && s.depth < maxDepth && !(c != nil && (c.declaredJSON() || c.key)) && x.rows(i):
		if t := x.table(s); t != nil {
			return x.array(i, t, s)
		}
	case c != nil && set.bound.admit(c):
		return whole, nil, end
	case c == nil && (set.bound.columns < set.bound.maxColumns && x.roomFor(s) || set.always(s.table, s.pointer)):
		if set.bound.admit(set.columnAt(s.table, s.pointer)) {
			return whole, nil, end
		}
	}
	if s.level+depth > maxLevels {
		x.code = refuseDepth
	} else if code := strict(whole); code != 0 {
		x.code = code
	}
	if len(x.beyond) < maxBeyond {
		x.beyond = append(x.beyond, printable([]byte(s.table.path+s.pointer), maxNameBytes/8))
	}
	x.left++
	return nil, whole, end
}

func (x *splitter) nested(i int, s position) (kept, rest []byte, end int) {
	in := s
	in.depth, in.level = s.depth+1, s.level+1
	kept, rest, end = x.object(i, in)
	if kept != nil && s.table.sources[s.pointer] == nil {
		x.set.columnAt(s.table, s.pointer) // the object has no column, but its members have
	}
	return kept, rest, end
}

// array splits the array at i, whose objects are rows of t. The result `kept` is an array of what the columns of t
// keep of each object. The result `rest` is an array of what they do not keep: null for an object that is kept whole.
func (x *splitter) array(i int, t *table, s position) (kept, rest []byte, end int) {
	start, left := i, x.left
	kept, rest = append(kept, '['), append(rest, '[')
	some := false
	for i = jsonscan.Space(x.b, i+1); x.b[i] != ']' && x.code == 0; i = jsonscan.Space(x.b, i) {
		if x.b[i] == ',' {
			i = jsonscan.Space(x.b, i+1)
			kept, rest = append(kept, ','), append(rest, ',')
		}
		var here, beyond []byte
		if x.b[i] == '{' {
			here, beyond, i = x.object(i, position{table: t, depth: s.depth + 1, level: s.level + 2})
		} else {
			here, i = []byte("null"), i+len("null")
		}
		if here == nil {
			here = []byte("{}") // so that the object still has a row
		}
		if some = some || beyond != nil; beyond == nil {
			beyond = []byte("null")
		}
		kept, rest = append(kept, here...), append(rest, beyond...)
	}
	switch {
	case x.left == left && x.code == 0:
		return x.b[start : i+1], nil, i + 1
	case !some:
		return append(kept, ']'), nil, i + 1
	}
	return append(kept, ']'), append(rest, ']'), i + 1
}

// rows reports whether the array at i becomes rows of a child table. The array must have at least one object, and all
// its other elements must be objects or nulls.
func (x *splitter) rows(i int) bool {
	objects := false
	for i = jsonscan.Space(x.b, i+1); ; i = jsonscan.Space(x.b, i+1) {
		switch {
		case x.b[i] == 'n':
		case x.b[i] != '{' || x.walk.NumericNames(x.b, i):
			return false
		default:
			objects = true
		}
		i, _, _ = x.walk.Value(x.b, i)
		if i = jsonscan.Space(x.b, i); x.b[i] != ',' {
			return objects
		}
	}
}

// table returns the child table for the array at the position s. It returns nil if the stream may have no further child
// table.
func (x *splitter) table(s position) *table {
	set, path := x.set, s.table.path+s.pointer
	if slices.Contains(x.tables, path) || slices.ContainsFunc(s.table.children, func(t *table) bool { return t.within == s.pointer && t.used }) {
		return set.child(s.table, s.pointer, s.depth, s.level)
	}
	if set.bound.tables+len(x.tables) >= set.bound.maxTables && !set.knows(path) {
		return nil
	}
	if s.table.sources[s.pointer] == nil {
		if !x.roomFor(s) {
			return nil
		}
		set.columnAt(s.table, s.pointer)
	}
	x.tables = append(x.tables, path)
	return set.child(s.table, s.pointer, s.depth, s.level)
}

// roomFor reports whether the member at the position s may get a field. If so, it counts the field.
func (x *splitter) roomFor(s position) bool {
	b := &x.set.bound
	return b.roomFor(s.pointer[strings.LastIndexByte(s.pointer, '/')+1:], 2*b.maxColumns+spareFields)
}
