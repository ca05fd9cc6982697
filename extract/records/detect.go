package records

import (
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

const maxUnwrap = 6

func (f *finder) detect(v jsondoc.Value, path string, depth int) bool {
	d := f.d
	switch {
	case depth > maxUnwrap || d.Err() != nil:
		return false
	case d.IsList(v):
		if i, ok := f.beside(v); ok && depth == 0 {
			return f.at(path+"/"+strconv.Itoa(i)) == present
		}
		return f.detectList(v, path)
	case !d.IsObject(v):
		return false
	case d.NumericKeys(v):
		return f.at(path) == present
	}
	if f.record(v) && !f.single && !f.paged(v) && !(f.owned && depth == 0 && f.declaresList(v)) {
		return f.detectOne(v, path) // the arrays inside v belong to this record
	}
	words := schemas.Paging()
	if f.detectByPath(v, path) {
		return true
	}
	if f.detectIn(v, words.Wrappers, path, depth) || f.detectIn(v, words.Lists, path, depth) || f.detectNamed(v, path) {
		return true
	}
	return f.detectOnly(v, path) || f.detectBoardIn(v, path, depth) || f.detectEmpty(v, path) || f.detectMap(v, path) || depth == 0 && f.detectDeep(v) || !(f.owned && f.declaresList(v)) && f.detectOne(v, path)
}

func (f *finder) detectIn(v jsondoc.Value, words []string, path string, depth int) bool {
	members := folded(f.d, v, words)
	for _, word := range words {
		name, m := members[word].name, members[word].value
		if !m.OK() {
			continue
		}
		below := path + "/" + jsondoc.Escape(name)
		if f.d.IsEmpty(m) && word != "message" {
			if f.d.Kind(m) == 'n' && f.filled(v) {
				continue
			}
			return f.at(below) != absent
		}
		if m.Nested() && f.detect(m, below, depth+1) {
			return true
		}
	}
	return false
}

// beside() returns the index of the records in an answer like [{"page": 1, "total": 87}, [records]]: the only array
// among at most maxBesideList elements.
func (f *finder) beside(v jsondoc.Value) (place int, ok bool) {
	n, lists := 0, 0
	for e := range f.d.Elements(v) {
		if f.d.IsList(e) {
			if lists++; !recordList(f.d, e) {
				return 0, false
			}
			place = n
		}
		n++
	}
	return place, lists == 1 && n > 1 && n <= maxBesideList
}

const maxBesideList = 4

// detectByPath looks for an array that is named like the end of the stream's path: candidates for /v1/candidates. Find
// uses it if v holds several arrays of records.
func (f *finder) detectByPath(v jsondoc.Value, path string) bool {
	lists := 0
	for raw, m := range f.d.Members(v) {
		if f.d.IsList(m) && recordList(f.d, m) && !schemas.Paging().NotRecords(jsondoc.Unquote(raw)) {
			lists++
		}
	}
	if lists < 2 {
		return false
	}
	members := folded(f.d, v, f.pathNames)
	for _, name := range f.pathNames {
		if spelled, m := members[name].name, members[name].value; m.OK() && f.d.IsList(m) && recordList(f.d, m) {
			ok := f.at(path+"/"+jsondoc.Escape(spelled)) == present
			f.out.ByPath = ok
			return ok
		}
	}
	return false
}

func (f *finder) filled(v jsondoc.Value) bool {
	words := schemas.Paging()
	for raw, m := range f.d.Members(v) {
		name := jsondoc.Unquote(raw)
		if m.Nested() && !f.d.IsEmpty(m) && (words.Lists.Has(name) || words.Wrappers.Has(name)) {
			return true
		}
	}
	return false
}

type member struct {
	name  string
	value jsondoc.Value
}

// folded looks up each word among the names of v. It prefers a name with the same spelling to a name that is only equal
// after [schemas.FoldName]. folded visits each member of v once, because there may be millions.
func folded(d *jsondoc.Doc, v jsondoc.Value, words []string) map[string]member {
	found := make(map[string]member, len(words))
	longest := 0
	for _, word := range words {
		found[word] = member{}
		longest = max(longest, len(word))
	}
	for raw, m := range d.Members(v) {
		if len(raw) > maxSpelled*longest {
			continue
		}
		name := jsondoc.Unquote(raw)
		for _, word := range []string{name, schemas.FoldName(name)} {
			if have, ok := found[word]; ok && (!have.value.OK() || word == name && have.name != name) {
				found[word] = member{name, m}
			}
		}
	}
	return found
}

// maxSpelled limits the length of the names that folded compares, as a multiple of the longest word's length.
const maxSpelled = 8

func (f *finder) detectNamed(v jsondoc.Value, path string) bool {
	for _, name := range f.names {
		m := f.d.Get(v, name)
		if f.d.IsList(m) && f.detectList(m, path+"/"+name) {
			return true
		}
		if f.d.IsObject(m) && f.d.NumericKeys(m) {
			return f.at(path+"/"+name) == present
		}
	}
	return false
}

// detectList takes the array v if it may hold records. If the elements of v are the stages of a board, it takes the
// arrays inside the stages. Each stage then holds an array that is named like the stream's records.
func (f *finder) detectList(v jsondoc.Value, path string) bool {
	if !recordList(f.d, v) {
		return false
	}
	for e := range f.d.Elements(v) {
		for name, m := range f.d.Members(e) {
			column := jsondoc.Unquote(name)
			if f.d.IsList(m) && slices.Contains(f.names, column) && f.column(e) {
				return f.at(path+"/*/"+column) == present
			}
		}
	}
	return f.at(path) == present
}

func (f *finder) detectOnly(v jsondoc.Value, path string) bool {
	only := ""
	for name, m := range f.d.Members(v) {
		n := jsondoc.Unquote(name)
		if !f.d.IsList(m) || !recordList(f.d, m) || f.d.IsEmpty(m) || schemas.Paging().NotRecords(n) {
			continue
		}
		if only != "" {
			return false
		}
		only = n
	}
	return only != "" && !f.record(v) && f.detectList(f.d.Get(v, only), path+"/"+jsondoc.Escape(only))
}

// detectBoardIn takes the arrays in the stages of a board. An object in v holds the stages:
//
//	{"pipeline":{"id":1,"stages":[{"deals":[…]}]}}
func (f *finder) detectBoardIn(v jsondoc.Value, path string, depth int) bool {
	if f.record(v) {
		return false
	}
	for name, m := range f.d.Members(v) {
		n := jsondoc.Unquote(name)
		if !f.d.IsObject(m) || schemas.Paging().NotRecords(n) {
			continue
		}
		for inner, list := range f.d.Members(m) {
			if !f.d.IsList(list) {
				continue
			}
			below := path + "/" + jsondoc.Escape(n) + "/" + jsondoc.Escape(jsondoc.Unquote(inner))
			if f.detectList(list, below) && strings.Contains(f.out.Pointer, "/*/") {
				return true
			}
		}
	}
	return false
}

func (f *finder) detectMap(v jsondoc.Value, path string) bool {
	lists, objects := 0, 0
	for raw, m := range f.d.Members(v) {
		switch {
		case schemas.Paging().NotRecords(jsondoc.Unquote(raw)):
			return false
		case f.d.IsList(m):
			lists++
		case f.d.IsObject(m):
			objects++
		default:
			return false
		}
	}
	if lists > 0 && objects > 0 || objects > 0 && !f.sameKind(v, objects) {
		return false
	}
	if lists > 0 && !f.sameKindLists(v) {
		return false
	}
	return f.recordMap(v) && f.at(path+"/*") == present
}

func (f *finder) detectOne(v jsondoc.Value, path string) bool {
	if !f.single && !f.record(v) {
		return false
	}
	single := f.single
	f.single = true
	ok := f.at(path) == present
	f.single = single
	return ok
}

func resourceNames(stream string) []string {
	_, resource, _ := strings.Cut(stream, ".")
	if resource == "" {
		resource = stream
	}
	words := append([]string{resource}, strings.Split(resource, "_")...)
	var names []string
	for _, w := range words {
		one := singular(w)
		names = append(names, w, one+"s", one+"es", one)
	}
	slices.SortStableFunc(names, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(names)
}

func pathNames(path string) []string {
	var names []string
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i := len(parts) - 1; i >= max(0, len(parts)-2); i-- {
		part, _, _ := strings.Cut(parts[i], ".")
		if part == "" || strings.ContainsAny(part, "{}") || jsondoc.DigitsOnly(part) {
			continue
		}
		for _, name := range resourceNames(part) {
			names = append(names, schemas.FoldName(name))
		}
	}
	return Unique(names)
}

func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies"):
		return strings.TrimSuffix(w, "ies") + "y"
	case strings.HasSuffix(w, "sses"):
		return strings.TrimSuffix(w, "es")
	}
	return strings.TrimSuffix(w, "s")
}

// Unique removes repeated and empty names.
func Unique(names []string) []string {
	var out []string
	for _, name := range names {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
