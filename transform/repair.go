package transform

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/transform/jsonscan"
)

// A record may have values that no column can hold. The record is stored with null in their place, and the values
// become rejects. A member whose name is not UTF-8 is left out. The code in this file handles only such records.
// Invariant 11

type fault struct {
	pointer string
	wanted  string
	raw     string
	reason  string
}

// repairable reports whether a record with this refusal code may be stored with null in the place of some values.
func repairable(code int) bool {
	return code == refuseEncoding || code == refuseDuplicate || code == refuseDepth
}

// repair stores a record without the values that no column can hold. It returns false if the record is not an object,
// or if it cannot be stored even without these values.
func (r *reader) repair(b []byte, begin, row int) bool {
	if b[begin] != '{' {
		return false
	}
	k := r.mark()
	x := repairer{b: b, rules: r.tables.rules}
	record, _ := x.value(nil, begin, valuePath{below: r.tables.rules.below, level: 1})
	if r.record(jsonscan.Pad(record), 0, row) < 0 || !r.tables.key.complete(row) {
		r.undo(k, r.tables.root, row)
		return false
	}
	for _, f := range x.faults {
		r.rejects.add(f.pointer, f.wanted, f.raw, f.reason)
	}
	return true
}

// repairer replaces faulty values by null. All other values keep their bytes.
type repairer struct {
	b       []byte
	rules   *fieldRules
	walk    jsonscan.Walker
	faults  []fault
	changed int
}

// maxRepaired is the greatest depth at which the faulty values are replaced one by one. A deeper object or array with a
// fault is replaced as a whole. Otherwise the search for faulty values would scan the content again at each level, and
// would not take linear time.
// Invariant 15
const maxRepaired = 20

type valuePath struct {
	pointer string // JSON pointer from the record
	below   *place // rules for the value, or for its elements if it is an array
	level   int    // number of objects and arrays around the value, plus one
	hidden  bool   // the value is in a field whose values must not be visible
	dropped bool   // the value is in a field that is not loaded
}

func (x *repairer) member(s valuePath, name []byte) valuePath {
	in := valuePath{pointer: s.pointer + "/" + escapePointer(string(name)), below: s.below, level: s.level + 1, hidden: s.hidden, dropped: s.dropped}
	if x.rules.any() {
		in.below = x.rules.member(s.below, name)
		in.hidden = in.hidden || in.below.rule.hides()
		in.dropped = in.dropped || in.below.rule != nil && in.below.rule.Drop
	}
	return in
}

func (s valuePath) element(i int) valuePath {
	s.pointer += "/" + strconv.Itoa(i)
	s.level++
	return s
}

func (x *repairer) value(dst []byte, i int, s valuePath) (out []byte, end int) {
	b := x.b
	end, depth, _ := x.walk.Value(b, i)
	switch {
	case s.level-1+depth > maxLevels && (b[i] != '{' || s.level > maxDepth):
		return x.appendNull(dst, i, end, s, "JSON", reasons[refuseDepth]), end
	case s.level > maxRepaired && (b[i] == '{' || b[i] == '['):
		if code := strict(b[i:end]); code != 0 {
			return x.appendNull(dst, i, end, s, "JSON", reasons[code]), end
		}
	case b[i] == '{':
		return x.object(dst, i, end, s), end
	case b[i] == '[':
		return x.array(dst, i, end, s), end
	case b[i] == '"':
		if code, _ := jsonscan.Text(b, i+1); code < 0 {
			return x.appendNull(dst, i, end, s, "text", reasons[code]), end
		}
	}
	return append(dst, b[i:end]...), end
}

func (x *repairer) appendNull(dst []byte, i, end int, s valuePath, wanted, reason string) []byte {
	x.refuse(s, wanted, reason, x.b[i:end])
	return append(dst, "null"...)
}

func (x *repairer) refuse(s valuePath, wanted, reason string, values ...[]byte) {
	x.changed++
	if s.dropped {
		return // the rules drop the values, so they need no reject
	}
	raw := masked
	if !s.hidden {
		var shown []string
		size := 0
		for _, v := range values {
			if size > maxRaw {
				shown = append(shown, "…")
				break
			}
			shown = append(shown, keptValue(x.shown(v, s)))
			size += len(shown[len(shown)-1])
		}
		raw = strings.Join(shown, ", ")
	}
	x.faults = append(x.faults, fault{s.pointer, wanted, raw, reason})
}

// The method shown() returns the value v in the form that a reject may show. The parameter s is the path of the value.
func (x *repairer) shown(v []byte, s valuePath) []byte {
	if !x.rules.any() {
		return v
	}
	r := redactor{rules: x.rules, reject: true}
	if out, _ := r.value(nil, jsonscan.Pad(slices.Clone(v)), 0, s.below, 0); r.touched {
		return out
	}
	return v
}

func (x *repairer) array(dst []byte, i, end int, s valuePath) []byte {
	from, changed := len(dst), x.changed
	dst = append(dst, '[')
	for n, at := 0, jsonscan.Space(x.b, i+1); x.b[at] != ']'; n++ {
		if x.b[at] == ',' {
			dst = append(dst, ',')
			at = jsonscan.Space(x.b, at+1)
		}
		dst, at = x.value(dst, at, s.element(n))
		at = jsonscan.Space(x.b, at)
	}
	if x.changed == changed {
		return append(dst[:from], x.b[i:end]...)
	}
	return append(dst, ']')
}

// part is one member of an object. Several members may have the same name.
type part struct {
	name       []byte // as written, with its quotes
	text       string
	begin, end int
	broken     bool
	first      int // index of the first part with the same name
	others     int // number of later parts with the same name and another value; only set in the first part with this name
}

func (x *repairer) object(dst []byte, i, end int, s valuePath) []byte {
	from, changed := len(dst), x.changed
	parts := x.parts(i)
	values := valuesOf(x.b, parts)
	dst = append(dst, '{')
	for n, p := range parts {
		in := x.member(s, []byte(p.text))
		switch {
		case p.broken:
			in.pointer = s.pointer + "/" + escapePointer(printable(p.name[1:len(p.name)-1], maxRaw))
			x.refuse(in, "a name that is text", reasons[refuseEncoding], x.b[p.begin:p.end])
			continue
		case p.first != n:
			x.changed++
			continue
		}
		if len(dst) > from+1 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, p.name...), ':')
		if p.others == 0 {
			dst, _ = x.value(dst, p.begin, in)
			continue
		}
		x.refuse(in, "one value", reasons[refuseDuplicate], values[n]...)
		dst = append(dst, "null"...)
	}
	if x.changed == changed {
		return append(dst[:from], x.b[i:end]...)
	}
	return append(dst, '}')
}

// valuesOf looks for names that occur several times with different values. It returns all values of each such name. The
// key of the map is the index of the first part with the name.
func valuesOf(b []byte, parts []part) map[int][][]byte {
	var values map[int][][]byte
	for _, p := range parts {
		if p.broken || parts[p.first].others == 0 {
			continue
		}
		if values == nil {
			values = map[int][][]byte{}
		}
		values[p.first] = append(values[p.first], b[p.begin:p.end])
	}
	return values
}

func (x *repairer) parts(i int) []part {
	var all []part
	first := map[uint64]int{} // index of the first part with a name, by the hash of the name
	for at := jsonscan.Space(x.b, i+1); x.b[at] != '}'; {
		if x.b[at] == ',' {
			at = jsonscan.Space(x.b, at+1)
		}
		end, _ := jsonscan.LooseText(x.b, at+1)
		p := part{name: x.b[at:end], first: len(all)}
		code, plain := jsonscan.Text(x.b, at+1)
		if p.broken = code < 0; !p.broken {
			p.text = string(p.name[1 : len(p.name)-1])
			if !plain {
				p.text = string(jsonscan.Unescape(nil, x.b, at+1))
			}
		}
		p.begin = jsonscan.Space(x.b, jsonscan.Space(x.b, end)+1)
		p.end, _, _ = x.walk.Value(x.b, p.begin)
		if n, twice := first[xxh3.HashString(p.text)]; !p.broken && twice {
			p.first = n
			if !bytes.Equal(x.b[p.begin:p.end], x.b[all[n].begin:all[n].end]) {
				all[n].others++
			}
		} else if !p.broken {
			first[xxh3.HashString(p.text)] = len(all)
		}
		all = append(all, p)
		at = jsonscan.Space(x.b, p.end)
	}
	return all
}
