package extract

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

type form byte

const (
	formNone form = iota // unknown: all answers so far were empty
	formList
	formValues // an object whose values are the records: {"10":{…},"11":{…}}
	formOne
	formEntries // an object whose values are records or arrays of records: see [found.all]
)

type place struct {
	value value
	form  form
	in    container
}

type container struct {
	object value  // the stage or group
	key    []byte // in a map, the name of the entry as JSON
}

func (c container) ok() bool { return c.key != nil || c.object.ok() }

type found struct {
	pointer string // where the records are; * stands for each element or value
	form    form
	places  []place
	byPath  bool    // one of several arrays was chosen because it is named like the stream's path
	above   []value // objects on the way to the records, from the root; they may hold paging signals
}

// all yields one place per entry of a map. It stores none of them, because there may be a million entries. //
// Invariant 6
func (f found) all(d *doc) iter.Seq[place] {
	return func(yield func(place) bool) {
		for _, p := range f.places {
			if p.form != formEntries {
				if !yield(p) {
					return
				}
				continue
			}
			for name, m := range d.members(p.value) {
				entry := place{value: m, form: formList, in: container{key: d.quoted(name)}}
				if d.isObject(m) {
					entry.form = formOne
				}
				if m.node >= 0 && !yield(entry) {
					return
				}
			}
		}
	}
}

type finder struct {
	d      *doc
	single bool // the endpoint may answer with one object
	owned  bool // the user defined the stream, so its class is unknown
	names  []string

	pathNames []string // likely names of the records, from the stream's path
	out       found
}

// find looks for the records at the places of the catalogue, then by the rules of detection. If a member on the way
// to a place is null, "", [] or {}, the place is only possible. It is used only if no other place of the catalogue
// has records.
func find(d *doc, s schemas.Stream) (found, error) {
	f := finder{d: d, single: singleClass(s.Class), owned: s.Stated["path"] != "", names: resourceNames(s.Name)}
	if f.owned {
		f.pathNames = pathNames(s.Path)
	}
	var vacuous *found
	for _, pointer := range s.Records {
		switch f.at(pointer) {
		case present:
			return f.out, d.err
		case emptyPath:
			if vacuous == nil {
				out := f.out
				vacuous = &out
			}
		}
	}
	if vacuous != nil {
		return *vacuous, d.err
	}
	if by := s.Stated["records"]; by != "" {
		return found{}, fmt.Errorf("no records at %q (%s): saw %s", s.Records, by, d.outline())
	}
	f.out = found{}
	if f.detect(d.root(), "", 0) {
		if place := f.ambiguous(); place != "" {
			return found{}, fmt.Errorf("the records are either the whole answer, an object with an id, or its list at %s; choose one: records: \"\" or records: %s", place, place)
		}
		return f.out, d.err
	}
	if d.err != nil {
		return found{}, d.err
	}
	if len(s.Records) == 0 {
		return found{}, fmt.Errorf("no records found in %s", d.outline())
	}
	return found{}, fmt.Errorf("no records found: tried %q, saw %s", s.Records, d.outline())
}

// again looks for the records where an earlier page had them. That member may be empty now, an object with numeric
// keys, or missing: see leftOut. Any other difference is an error.
func again(d *doc, s schemas.Stream, before found) (found, error) {
	f := finder{d: d, single: before.form == formOne, names: resourceNames(s.Name)}
	if f.at(before.pointer) != absent {
		return f.out, d.err
	}
	if f.leftOut(before.pointer) {
		return found{pointer: before.pointer}, d.err
	}
	if d.err != nil {
		return found{}, d.err
	}
	return found{}, fmt.Errorf("shape changed: the records were at %q, now the answer is %s", before.pointer, d.outline())
}

// leftOut reports whether the root has only members about paging, such as {"count": 0}. Some servers leave out an
// empty array of records.
func (f *finder) leftOut(pointer string) bool {
	root, words, stated := f.d.root(), schemas.Paging(), false
	if !f.d.isObject(root) || strings.Count(pointer, "/") != 1 || strings.HasSuffix(pointer, "*") {
		return false
	}
	for raw, m := range f.d.members(root) {
		switch words.Role(unquote(raw)) {
		case schemas.RoleTotal, schemas.RoleCount, schemas.RolePage, schemas.RolePages, schemas.RoleSize, schemas.RoleOffset:
			stated = true
		default:
			return false
		}
		if m.node >= 0 {
			return false
		}
	}
	return stated
}

func singleClass(c schemas.Class) bool {
	switch c {
	case schemas.ClassDetail, schemas.ClassSingleton, schemas.ClassReport, schemas.ClassFile:
		return true
	}
	return false
}

type pointerMatch int

const (
	absent    pointerMatch = iota
	emptyPath              // the way ends early in null, "", [] or {}
	present
)

func (f *finder) at(pointer string) pointerMatch {
	f.out = found{pointer: pointer}
	var tokens []string
	if pointer != "" {
		tokens = strings.Split(pointer[1:], "/")
	}
	p := f.follow(f.d.root(), tokens, container{})
	if f.d.err != nil {
		return absent
	}
	return p
}

func (f *finder) follow(v value, tokens []string, in container) pointerMatch {
	switch {
	case !v.ok():
		return absent
	case len(tokens) == 0:
		return f.take(v, in)
	case f.d.void(v):
		return emptyPath
	case tokens[0] == "*":
		return f.each(v, tokens[1:])
	case f.d.isList(v) && tokens[0] != "" && digitsOnly(tokens[0]):
		return f.element(v, tokens)
	case !f.d.isObject(v):
		return absent
	}
	if !in.ok() {
		f.out.above = append(f.out.above, v)
	}
	return f.follow(f.d.get(v, unescape(tokens[0])), tokens[1:], in)
}

// element follows the path through one element of an array like [{"page": 1}, [records]]. The first object among the
// other elements may hold paging signals.
func (f *finder) element(v value, tokens []string) pointerMatch {
	i, at := 0, missing
	for e := range f.d.elements(v) {
		if strconv.Itoa(i) == tokens[0] {
			at = e
		} else if f.d.isObject(e) && len(f.out.above) == 0 {
			f.out.above = append(f.out.above, e)
		}
		i++
	}
	return f.follow(at, tokens[1:], container{})
}

// each follows the path from every element or value of v. At least one of them must have the next member.
func (f *finder) each(v value, tokens []string) pointerMatch {
	d, best := f.d, absent
	switch {
	case d.isList(v) && len(tokens) == 0:
		return f.take(v, container{})
	case d.isList(v):
		for e := range d.elements(v) {
			if !d.isObject(e) {
				return absent
			}
			best = max(best, f.follow(e, tokens, container{object: e}))
		}
		return best
	case !d.isObject(v) || len(tokens) == 0 && !f.recordMap(v):
		return absent
	}
	if len(tokens) == 0 {
		if d.count(v) == 0 {
			return emptyPath // each value is null
		}
		f.out.places = append(f.out.places, place{value: v, form: formEntries})
		f.out.form = formList
		return present
	}
	for name, m := range d.members(v) {
		best = max(best, f.follow(m, tokens, container{key: d.quoted(name)}))
	}
	return best
}

func (f *finder) take(v value, in container) pointerMatch {
	d := f.d
	p := place{value: v, in: in}
	switch {
	case d.isList(v):
		if !d.recordList(v) {
			return absent
		}
		p.form = formList
	case d.void(v):
		return emptyPath
	case !d.isObject(v):
		return absent
	case d.numericKeys(v):
		p.form = formValues
	case f.single && (v != d.root() || !f.enveloped(v)):
		p.form = formOne
	default:
		return absent
	}
	f.out.places = append(f.out.places, p)
	if f.out.form == formNone || f.out.form == formValues {
		f.out.form = p.form
	}
	return present
}

func (f *finder) recordMap(v value) bool {
	lists, objects, n := 0, 0, 0
	for _, m := range f.d.members(v) {
		n++
		switch {
		case f.d.isList(m) && f.d.recordList(m), f.d.kind(m) == 'n':
			lists++
		case f.d.isObject(m):
			objects++
		}
	}
	return n > 0 && (lists == n || objects == n)
}

// recordList reports whether the array v may hold records. Some modules write null for a row that they cannot show.
func (d *doc) recordList(v value) bool {
	i := skipSpace(d.b, v.start+1)
	return d.b[i] == '{' || d.b[i] == ']' || d.b[i] == 'n'
}

// numericKeys reports whether v is an object of objects under integer names. PHP writes an array as such an object if
// its first elements were removed.
func (d *doc) numericKeys(v value) bool {
	n := 0
	for name, m := range d.members(v) {
		if n := digits(name); n == 0 || n < len(name) || !d.isObject(m) {
			return false
		}
		n++
	}
	return n > 0
}

func (d *doc) scalars(v value) []byte {
	out := []byte{'{'}
	for name, m := range d.members(v) {
		if m.node >= 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), `":`...)
		out = append(out, d.raw(m)...)
	}
	return append(out, '}')
}

func (d *doc) outline() string {
	switch {
	case d.isList(d.root()):
		return "a list"
	case !d.isObject(d.root()):
		return "neither a list nor an object"
	}
	return "an object of " + d.memberNames(d.root(), 2)
}

func (d *doc) memberNames(v value, depth int) string {
	var names []string
	for name, m := range d.members(v) {
		if len(names) == 12 {
			names = append(names, "…")
			break
		}
		n := unquote(name)
		if depth > 1 && d.isObject(m) {
			n += " (" + d.memberNames(m, depth-1) + ")"
		}
		names = append(names, n)
	}
	return strings.Join(names, ", ")
}

func unescape(token string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}
