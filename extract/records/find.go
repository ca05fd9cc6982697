// Package records finds the records in the answer of a list, and reads what their members say about them: key, times
// and order.
package records

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// Form says how an answer holds its records.
type Form byte

// The forms. Stored cursors contain these numbers.
const (
	FormNone Form = iota // unknown: all answers so far were empty
	FormList
	FormValues // an object whose values are the records: {"10":{…},"11":{…}}
	FormOne
	FormEntries // an object whose values are records or arrays of records: see [Found.All]
)

// Place is one array or object with records.
type Place struct {
	Value jsondoc.Value
	Form  Form
	In    container
}

// container is what surrounds the records of a place: an object, or the entry of a map.
type container struct {
	Object jsondoc.Value // the stage or group that holds the records
	Key    []byte        // in a map, the name of the entry as JSON
}

// OK reports whether there is a container.
func (c container) OK() bool { return c.Key != nil || c.Object.OK() }

// Found are the records of an answer.
type Found struct {
	Pointer string // where the records are; * stands for each element or value
	Form    Form
	Places  []Place
	ByPath  bool            // one of several arrays was chosen because it is named like the stream's path
	Above   []jsondoc.Value // objects on the way to the records, from the root; they may hold paging signals
}

// All yields one place per entry of a map. It stores none of them, because there may be a million
// entries. // Invariant 6
func (f Found) All(d *jsondoc.Doc) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for _, p := range f.Places {
			if p.Form != FormEntries {
				if !yield(p) {
					return
				}
				continue
			}
			for name, m := range d.Members(p.Value) {
				entry := Place{Value: m, Form: FormList, In: container{Key: d.Quoted(name)}}
				if d.IsObject(m) {
					entry.Form = FormOne
				}
				if m.Nested() && !yield(entry) {
					return
				}
			}
		}
	}
}

type finder struct {
	d      *jsondoc.Doc
	single bool // the endpoint may answer with one object
	owned  bool // the user defined the stream, so the catalogue does not say whether it is a list
	names  []string

	pathNames []string // likely names of the records, from the stream's path
	out       Found
}

// Find looks for the records at the places of the catalogue, then by the rules of detection. If a member on the way to
// a place is null, "", [] or {}, the list may be empty. Find uses such a place only if no other place of the catalogue
// has records.
func Find(d *jsondoc.Doc, s schemas.Stream) (Found, error) {
	f := finder{d: d, single: s.Class.Single(), owned: s.Stated["path"] != "", names: resourceNames(s.Name)}
	if f.owned {
		f.pathNames = pathNames(s.Path)
	}
	var vacuous *Found
	for _, pointer := range s.Records {
		switch f.at(pointer) {
		case present:
			return f.out, d.Err()
		case emptyPath:
			if vacuous == nil {
				out := f.out
				vacuous = &out
			}
		}
	}
	if vacuous != nil {
		return *vacuous, d.Err()
	}
	if by := s.Stated["records"]; by != "" {
		return Found{}, fmt.Errorf("no records at %q (%s): saw %s", s.Records, by, d.Outline())
	}
	f.out = Found{}
	if f.detect(d.Root(), "", 0) {
		if place := f.ambiguous(); place != "" {
			return Found{}, fmt.Errorf("the answer is an object with an id: it is either one record, or holds the records in the list at %s; choose one: records: \"\" or records: %s", place, place)
		}
		return f.out, d.Err()
	}
	if d.Err() != nil {
		return Found{}, d.Err()
	}
	if len(s.Records) == 0 {
		return Found{}, fmt.Errorf("no records found in %s", d.Outline())
	}
	return Found{}, fmt.Errorf("no records found: tried %q, saw %s", s.Records, d.Outline())
}

// FindAgain looks for the records where an earlier page had them. On this page, the member that should hold the records
// may be empty, an object with numeric keys, or missing: see leftOut. Any other difference is an error.
func FindAgain(d *jsondoc.Doc, s schemas.Stream, before Found) (Found, error) {
	f := finder{d: d, single: before.Form == FormOne, names: resourceNames(s.Name)}
	if f.at(before.Pointer) != absent {
		return f.out, d.Err()
	}
	if f.leftOut(before.Pointer) {
		return Found{Pointer: before.Pointer}, d.Err()
	}
	if d.Err() != nil {
		return Found{}, d.Err()
	}
	return Found{}, fmt.Errorf("shape changed: the records were at %q, now the answer is %s", before.Pointer, d.Outline())
}

// leftOut reports whether the root has only members about paging, such as {"count": 0}. Some servers leave out an
// empty array of records.
func (f *finder) leftOut(pointer string) bool {
	root, words, stated := f.d.Root(), schemas.Paging(), false
	if !f.d.IsObject(root) || strings.Count(pointer, "/") != 1 || strings.HasSuffix(pointer, "*") {
		return false
	}
	for raw, m := range f.d.Members(root) {
		switch words.Role(jsondoc.Unquote(raw)) {
		case schemas.RoleTotal, schemas.RoleCount, schemas.RolePage, schemas.RolePages, schemas.RoleSize, schemas.RoleOffset:
			stated = true
		default:
			return false
		}
		if m.Nested() {
			return false
		}
	}
	return stated
}

type pointerMatch int

const (
	absent    pointerMatch = iota
	emptyPath              // the way ends early in null, "", [] or {}
	present
)

func (f *finder) at(pointer string) pointerMatch {
	f.out = Found{Pointer: pointer}
	var tokens []string
	if pointer != "" {
		tokens = strings.Split(pointer[1:], "/")
	}
	p := f.follow(f.d.Root(), tokens, container{})
	if f.d.Err() != nil {
		return absent
	}
	return p
}

func (f *finder) follow(v jsondoc.Value, tokens []string, in container) pointerMatch {
	switch {
	case !v.OK():
		return absent
	case len(tokens) == 0:
		return f.take(v, in)
	case f.d.IsEmpty(v):
		return emptyPath
	case tokens[0] == "*":
		return f.each(v, tokens[1:])
	case f.d.IsList(v) && tokens[0] != "" && jsondoc.DigitsOnly(tokens[0]):
		return f.element(v, tokens)
	case !f.d.IsObject(v):
		return absent
	}
	if !in.OK() {
		f.out.Above = append(f.out.Above, v)
	}
	return f.follow(f.d.Get(v, jsondoc.Unescape(tokens[0])), tokens[1:], in)
}

// element follows the path through one element of an array like [{"page": 1}, [records]]. The first object among the
// other elements may hold paging signals.
func (f *finder) element(v jsondoc.Value, tokens []string) pointerMatch {
	i, at := 0, jsondoc.Missing
	for e := range f.d.Elements(v) {
		if strconv.Itoa(i) == tokens[0] {
			at = e
		} else if f.d.IsObject(e) && len(f.out.Above) == 0 {
			f.out.Above = append(f.out.Above, e)
		}
		i++
	}
	return f.follow(at, tokens[1:], container{})
}

// each() follows the path from every element or value of v. At least one of them must have the next member.
func (f *finder) each(v jsondoc.Value, tokens []string) pointerMatch {
	d, best := f.d, absent
	switch {
	case d.IsList(v) && len(tokens) == 0:
		return f.take(v, container{})
	case d.IsList(v):
		for e := range d.Elements(v) {
			if !d.IsObject(e) {
				return absent
			}
			best = max(best, f.follow(e, tokens, container{Object: e}))
		}
		return best
	case !d.IsObject(v) || len(tokens) == 0 && !f.recordMap(v):
		return absent
	}
	if len(tokens) == 0 {
		if d.Count(v) == 0 {
			return emptyPath // each value is null
		}
		f.out.Places = append(f.out.Places, Place{Value: v, Form: FormEntries})
		f.out.Form = FormList
		return present
	}
	for name, m := range d.Members(v) {
		best = max(best, f.follow(m, tokens, container{Key: d.Quoted(name)}))
	}
	return best
}

func (f *finder) take(v jsondoc.Value, in container) pointerMatch {
	d := f.d
	p := Place{Value: v, In: in}
	switch {
	case d.IsList(v):
		if !recordList(d, v) {
			return absent
		}
		p.Form = FormList
	case d.IsEmpty(v):
		return emptyPath
	case !d.IsObject(v):
		return absent
	case d.NumericKeys(v):
		p.Form = FormValues
	case f.single && (v != d.Root() || !f.enveloped(v)):
		p.Form = FormOne
	default:
		return absent
	}
	f.out.Places = append(f.out.Places, p)
	if f.out.Form == FormNone || f.out.Form == FormValues {
		f.out.Form = p.Form
	}
	return present
}

func (f *finder) recordMap(v jsondoc.Value) bool {
	lists, objects, n := 0, 0, 0
	for _, m := range f.d.Members(v) {
		n++
		switch {
		case f.d.IsList(m) && recordList(f.d, m), f.d.Kind(m) == 'n':
			lists++
		case f.d.IsObject(m):
			objects++
		}
	}
	return n > 0 && (lists == n || objects == n)
}

// recordList reports whether the array v may hold records. Some modules write null for a row that they cannot show.
func recordList(d *jsondoc.Doc, v jsondoc.Value) bool {
	c := d.Inside(v)
	return c == '{' || c == ']' || c == 'n'
}
