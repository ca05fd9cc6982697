package extract

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// maxUnwrap bounds how deep detection looks for a list.
const maxUnwrap = 6

// bait are lists that stand beside records without being any.
var bait = []string{
	"links", "link", "statusClass", "filters", "errors", "breadcrumbs", "warnings", "meta", "pagination", "columns", "labels", "fields", "schemas", "included",
	"facet_counts", "group_by", "headers", "defaultReminders", "sort", "failures",
}

// detect finds the records below v where the catalogue does not know a place
// that fits. It either is sure or says no.
func (f *finder) detect(v value, path string, depth int) bool {
	d := f.d
	switch {
	case depth > maxUnwrap || d.err != nil:
		return false
	case d.isList(v):
		return f.detectList(v, path)
	case !d.isObject(v):
		return false
	case d.numericKeys(v):
		return f.at(path) == present
	}
	if f.record(v) && !f.single && !f.paged(v) && !(f.owned && depth == 0 && f.saysList(v)) {
		return f.detectOne(v, path) // what lists it has are its own
	}
	words := schemas.Paging()
	if f.detectIn(v, words.Wrappers(), path, depth) || f.detectIn(v, words.Lists(), path, depth) || f.detectNamed(v, path) {
		return true
	}
	return f.detectOnly(v, path) || f.detectBoardIn(v, path, depth) || f.detectEmpty(v, path) || f.detectMap(v, path) || depth == 0 && f.detectDeep(v) || !(f.owned && f.saysList(v)) && f.detectOne(v, path)
}

// saysList reports whether an object calls itself a list.
func (f *finder) saysList(v value) bool {
	for _, name := range []string{"kind", "object", "type", "resourceType", "@type", "class"} {
		t := strings.ToLower(f.d.text(f.d.get(v, name)))
		for _, word := range []string{"list", "collection", "bundle", "result", "searchset", "page"} {
			if strings.Contains(t, word) {
				return true
			}
		}
	}
	return false
}

// ambiguous is the place of a list in what was taken for one object with an id, where
// nobody can tell which of them the records are; "" where there is none.
func (f *finder) ambiguous() string {
	if !f.owned || f.out.form != formOne || f.out.pointer != "" {
		return ""
	}
	words := schemas.Paging()
	for raw, m := range f.d.members(f.d.root()) {
		name := unquote(raw)
		if f.d.isList(m) && !f.d.void(m) && f.d.recordList(m) && (slices.Contains(words.Lists(), schemas.FoldName(name)) || slices.Contains(f.names, name)) {
			return "/" + escape(name)
		}
	}
	return ""
}

// detectDeep takes the one list of objects that there is anywhere below v.
func (f *finder) detectDeep(v value) bool {
	if f.single || f.record(v) && !f.paged(v) && !f.saysList(v) {
		return false
	}
	places := candidatePlaces(f.d)
	if len(places) == 0 {
		places = f.mapPlaces()
	}
	if len(places) == 0 {
		places = f.emptyPlaces()
	}
	return len(places) == 1 && f.at(places[0]) != absent
}

// mapPlaces are where objects are that hold records by their ids.
func (f *finder) mapPlaces() []string {
	var out []string
	var walk func(v value, path string, depth int)
	walk = func(v value, path string, depth int) {
		for name, m := range f.d.members(v) {
			n := unquote(name)
			if !f.d.isObject(m) || baited(n) || depth > maxUnwrap || f.d.void(m) {
				continue
			}
			below := path + "/" + escape(n)
			objects := 0
			for _, inner := range f.d.members(m) {
				if !f.d.isObject(inner) {
					objects = -1
					break
				}
				objects++
			}
			switch {
			case f.d.numericKeys(m):
				out = append(out, below)
			case objects > 0 && f.alike(m, objects):
				out = append(out, below+"/*")
			default:
				walk(m, below, depth+1)
			}
		}
	}
	walk(f.d.root(), "", 0)
	return out
}

// detectEmpty takes the one list in v that holds nothing, where nothing else in v can
// hold records.
func (f *finder) detectEmpty(v value, path string) bool {
	only, containers := "", 0
	for raw, m := range f.d.members(v) {
		name := unquote(raw)
		if m.node < 0 || baited(name) || schemas.Paging().Beside(name) {
			continue
		}
		containers++
		if f.d.isList(m) && f.d.void(m) {
			only = name
		}
	}
	return containers == 1 && only != "" && f.at(path+"/"+escape(only)) != absent
}

// emptyPlaces are where lists are that hold nothing, of an answer that has no other.
func (f *finder) emptyPlaces() []string {
	var out []string
	for raw, m := range f.d.members(f.d.root()) {
		switch name := unquote(raw); {
		case baited(name) || schemas.Paging().Role(name) != "":
		case m.node >= 0 && !f.d.void(m):
			return nil // the records are in there, if anywhere
		case f.d.void(m) && (f.d.isList(m) || f.d.kind(m) == 'n'):
			out = append(out, "/"+escape(name))
		}
	}
	return out
}

// detectIn tries the members of v that have one of these names.
func (f *finder) detectIn(v value, words []string, path string, depth int) bool {
	for _, word := range words {
		name, m := f.d.folded(v, word)
		if !m.ok() {
			continue
		}
		below := path + "/" + escape(name)
		if f.d.void(m) && word != "message" {
			return f.at(below) != absent
		}
		if m.node >= 0 && f.detect(m, below, depth+1) {
			return true
		}
	}
	return false
}

// folded is the member of v whose folded name is word, and how it is spelled; an
// exact match comes first.
func (d *doc) folded(v value, word string) (string, value) {
	if m := d.get(v, word); m.ok() {
		return word, m
	}
	for raw, m := range d.members(v) {
		if name := unquote(raw); schemas.FoldName(name) == word {
			return name, m
		}
	}
	return "", missing
}

// detectNamed takes the list of v that is called like the stream's records.
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

// detectList takes a list of objects, or the lists in them that are called like
// the stream's records: the list is then a board's columns.
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

// column reports whether the object v looks like a stage or a group: it has a
// name, and little else.
func (f *finder) column(v value) bool {
	named, scalars := false, 0
	for name, m := range f.d.members(v) {
		if m.node < 0 {
			scalars++
		}
		named = named || nameIs(name, "name") || nameIs(name, "title")
	}
	return named && scalars <= 12
}

// detectOnly takes the one list of objects that v has.
func (f *finder) detectOnly(v value, path string) bool {
	only := ""
	for name, m := range f.d.members(v) {
		n := unquote(name)
		if !f.d.isList(m) || !f.d.recordList(m) || f.d.void(m) || baited(n) {
			continue
		}
		if only != "" {
			return false
		}
		only = n
	}
	return only != "" && !f.record(v) && f.detectList(f.d.get(v, only), path+"/"+escape(only))
}

func baited(name string) bool {
	return slices.Contains(bait, name) || strings.HasPrefix(strings.ToLower(name), "chart")
}

// detectBoardIn descends into the one object of v that holds columns:
// {"pipeline":{"id":1,"stages":[{"deals":[…]}]}}.
func (f *finder) detectBoardIn(v value, path string, depth int) bool {
	for name, m := range f.d.members(v) {
		n := unquote(name)
		if !f.d.isObject(m) || baited(n) || f.record(v) {
			continue
		}
		for inner, list := range f.d.members(m) {
			below := path + "/" + escape(n) + "/" + escape(unquote(inner))
			if f.d.isList(list) && f.detectList(list, below) && strings.Contains(f.out.pointer, "/*/") {
				return true
			}
		}
	}
	return false
}

// detectMap takes an object whose values are all lists of objects, or all
// records.
func (f *finder) detectMap(v value, path string) bool {
	lists, objects := 0, 0
	for _, m := range f.d.members(v) {
		switch {
		case f.d.isList(m):
			lists++
		case f.d.isObject(m):
			objects++
		default:
			return false
		}
	}
	if lists > 0 && objects > 0 || objects > 0 && !f.alike(v, objects) {
		return false
	}
	return f.recordMap(v) && f.at(path+"/*") == present
}

// alike reports whether the n objects in v are records of one kind: all have an
// id, or, if they are more than the two addresses that one record may have, the
// same members.
func (f *finder) alike(v value, n int) bool {
	ids, names := 0, ""
	same := n > 2
	for _, m := range f.d.members(v) {
		if f.record(m) {
			ids++
		}
		these := f.d.memberNames(m, 1)
		same = same && (names == "" || names == these)
		names = these
	}
	return ids == n || same
}

// paged reports whether the object v speaks of pages, as a list does that has an
// id of its own.
func (f *finder) paged(v value) bool {
	for _, name := range []string{"object", "has_more", "total", "count", "next", "next_cursor", "meta", "pagination", "page", "data"} {
		if f.d.get(v, name).ok() {
			return true
		}
	}
	words := schemas.Paging()
	for raw, m := range f.d.members(v) {
		role := words.Role(unquote(raw))
		if m.node < 0 && (role == schemas.RoleNext || role == schemas.RoleTotal || role == schemas.RoleMore || role == schemas.RolePages) {
			return true
		}
	}
	return false
}

// detectOne takes an object that is a record by itself: the only one of a
// detail, or of a list that collapses when there is but one.
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

// record reports whether the object v has an id of its own.
func (f *finder) record(v value) bool { return f.d.get(v, "id").ok() }

// enveloped reports whether the object v is an envelope rather than a record.
func (f *finder) enveloped(v value) bool {
	if f.record(v) {
		return false
	}
	for _, name := range []string{"success", "is_success", "data"} {
		if f.d.get(v, name).ok() {
			return true
		}
	}
	return f.d.get(v, "status").ok() && f.d.get(v, "message").ok()
}

// resourceNames are the names under which a stream's records may stand: its
// resource and the words it is made of, singular and plural.
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

func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies"):
		return strings.TrimSuffix(w, "ies") + "y"
	case strings.HasSuffix(w, "sses"):
		return strings.TrimSuffix(w, "es")
	}
	return strings.TrimSuffix(w, "s")
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// candidatePlaces are where lists of objects stand in a body, for a person to
// choose from.
func candidatePlaces(d *doc) []string {
	var out []string
	var walk func(v value, path string, depth int)
	walk = func(v value, path string, depth int) {
		switch {
		case depth > maxUnwrap || len(out) == 8:
		case d.isList(v) && d.recordList(v) && !d.void(v):
			out = append(out, path)
		case d.isObject(v):
			for name, m := range d.members(v) {
				if n := unquote(name); m.node >= 0 && !baited(n) {
					walk(m, path+"/"+escape(n), depth+1)
				}
			}
		}
	}
	walk(d.root(), "", 0)
	return out
}
