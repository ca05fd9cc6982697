package extract

import (
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

const maxUnwrap = 6

func (f *finder) detect(v value, path string, depth int) bool {
	d := f.d
	switch {
	case depth > maxUnwrap || d.err != nil:
		return false
	case d.isList(v):
		if i, ok := f.beside(v); ok && depth == 0 {
			return f.at(path+"/"+strconv.Itoa(i)) == present
		}
		return f.detectList(v, path)
	case !d.isObject(v):
		return false
	case d.numericKeys(v):
		return f.at(path) == present
	}
	if f.record(v) && !f.single && !f.paged(v) && !(f.owned && depth == 0 && f.declaresList(v)) {
		return f.detectOne(v, path) // the arrays inside v belong to this record
	}
	words := schemas.Paging()
	if f.detectByPath(v, path) {
		return true
	}
	if f.detectIn(v, words.Wrappers(), path, depth) || f.detectIn(v, words.Lists(), path, depth) || f.detectNamed(v, path) {
		return true
	}
	return f.detectOnly(v, path) || f.detectBoardIn(v, path, depth) || f.detectEmpty(v, path) || f.detectMap(v, path) || depth == 0 && f.detectDeep(v) || !(f.owned && f.declaresList(v)) && f.detectOne(v, path)
}

func (f *finder) detectIn(v value, words []string, path string, depth int) bool {
	members := f.d.folded(v, words)
	for _, word := range words {
		name, m := members[word].name, members[word].value
		if !m.ok() {
			continue
		}
		below := path + "/" + escape(name)
		if f.d.void(m) && word != "message" {
			if f.d.kind(m) == 'n' && f.filled(v) {
				continue
			}
			return f.at(below) != absent
		}
		if m.node >= 0 && f.detect(m, below, depth+1) {
			return true
		}
	}
	return false
}

// beside returns the index of the records in an answer like [{"page": 1, "total": 87}, [records]]: the only array
// among at most maxBesideList elements.
func (f *finder) beside(v value) (place int, ok bool) {
	n, lists := 0, 0
	for e := range f.d.elements(v) {
		if f.d.isList(e) {
			if lists++; !f.d.recordList(e) {
				return 0, false
			}
			place = n
		}
		n++
	}
	return place, lists == 1 && n > 1 && n <= maxBesideList
}

const maxBesideList = 4

// detectByPath looks for an array that is named like the end of the stream's path: candidates for /v1/candidates. It
// is used if v holds several arrays of records.
func (f *finder) detectByPath(v value, path string) bool {
	lists := 0
	for raw, m := range f.d.members(v) {
		if f.d.isList(m) && f.d.recordList(m) && !schemas.Paging().NotRecords(unquote(raw)) {
			lists++
		}
	}
	if lists < 2 {
		return false
	}
	members := f.d.folded(v, f.pathNames)
	for _, name := range f.pathNames {
		if spelled, m := members[name].name, members[name].value; m.ok() && f.d.isList(m) && f.d.recordList(m) {
			ok := f.at(path+"/"+escape(spelled)) == present
			f.out.byPath = ok
			return ok
		}
	}
	return false
}

func (f *finder) filled(v value) bool {
	words := schemas.Paging()
	for raw, m := range f.d.members(v) {
		name := unquote(raw)
		if m.node >= 0 && !f.d.void(m) && (words.NamesList(name) || words.NamesPayload(name)) {
			return true
		}
	}
	return false
}

type member struct {
	name  string
	value value
}

// folded looks up each word among the names of v. The same spelling comes first, then names that are equal after
// [schemas.FoldName]. It visits each member of v once, because there may be millions.
func (d *doc) folded(v value, words []string) map[string]member {
	found := make(map[string]member, len(words))
	longest := 0
	for _, word := range words {
		found[word] = member{}
		longest = max(longest, len(word))
	}
	for raw, m := range d.members(v) {
		if len(raw) > maxSpelled*longest {
			continue
		}
		name := unquote(raw)
		for _, word := range []string{name, schemas.FoldName(name)} {
			if have, ok := found[word]; ok && (!have.value.ok() || word == name && have.name != name) {
				found[word] = member{name, m}
			}
		}
	}
	return found
}

// maxSpelled limits the length of the names that folded compares, as a multiple of the longest word's length.
const maxSpelled = 8

func (f *finder) detectNamed(v value, path string) bool {
	for _, name := range f.names {
		m := f.d.get(v, name)
		if f.d.isList(m) && f.detectList(m, path+"/"+name) {
			return true
		}
		if f.d.isObject(m) && f.d.numericKeys(m) {
			return f.at(path+"/"+name) == present
		}
	}
	return false
}

// detectList takes the array v if it may hold records. If its objects are the stages of a board, it takes the arrays
// inside them. Each stage holds an array that is named like the stream's records.
func (f *finder) detectList(v value, path string) bool {
	if !f.d.recordList(v) {
		return false
	}
	for e := range f.d.elements(v) {
		for name, m := range f.d.members(e) {
			column := unquote(name)
			if f.d.isList(m) && slices.Contains(f.names, column) && f.column(e) {
				return f.at(path+"/*/"+column) == present
			}
		}
	}
	return f.at(path) == present
}

func (f *finder) detectOnly(v value, path string) bool {
	only := ""
	for name, m := range f.d.members(v) {
		n := unquote(name)
		if !f.d.isList(m) || !f.d.recordList(m) || f.d.void(m) || schemas.Paging().NotRecords(n) {
			continue
		}
		if only != "" {
			return false
		}
		only = n
	}
	return only != "" && !f.record(v) && f.detectList(f.d.get(v, only), path+"/"+escape(only))
}

// detectBoardIn takes the arrays in the stages of a board. An object in v holds the stages:
//
//	{"pipeline":{"id":1,"stages":[{"deals":[…]}]}}
func (f *finder) detectBoardIn(v value, path string, depth int) bool {
	if f.record(v) {
		return false
	}
	for name, m := range f.d.members(v) {
		n := unquote(name)
		if !f.d.isObject(m) || schemas.Paging().NotRecords(n) {
			continue
		}
		for inner, list := range f.d.members(m) {
			if !f.d.isList(list) {
				continue
			}
			below := path + "/" + escape(n) + "/" + escape(unquote(inner))
			if f.detectList(list, below) && strings.Contains(f.out.pointer, "/*/") {
				return true
			}
		}
	}
	return false
}

func (f *finder) detectMap(v value, path string) bool {
	lists, objects := 0, 0
	for raw, m := range f.d.members(v) {
		switch {
		case schemas.Paging().NotRecords(unquote(raw)):
			return false
		case f.d.isList(m):
			lists++
		case f.d.isObject(m):
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

func (f *finder) detectOne(v value, path string) bool {
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
		if part == "" || strings.ContainsAny(part, "{}") || digitsOnly(part) {
			continue
		}
		for _, name := range resourceNames(part) {
			names = append(names, schemas.FoldName(name))
		}
	}
	return distinctNames(names)
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
