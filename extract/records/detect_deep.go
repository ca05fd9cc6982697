package records

import (
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// detectDeep searches down to maxUnwrap levels. It takes the only array of objects. If there is no such array, it takes
// the only object that holds records by id. If there is no such object either, it takes the only empty array.
func (f *finder) detectDeep(v jsondoc.Value) bool {
	if f.single || f.record(v) && !f.paged(v) && !f.declaresList(v) {
		return false
	}
	places := CandidatePlaces(f.d)
	if len(places) == 0 {
		places = f.mapPlaces()
	}
	if len(places) == 0 {
		places = f.emptyPlaces()
	}
	return len(places) == 1 && f.at(places[0]) != absent
}

func (f *finder) mapPlaces() []string {
	var out []string
	var walk func(v jsondoc.Value, path string, depth int)
	walk = func(v jsondoc.Value, path string, depth int) {
		for name, m := range f.d.Members(v) {
			n := jsondoc.Unquote(name)
			if !f.d.IsObject(m) || schemas.Paging().NotRecords(n) || depth > maxUnwrap || f.d.IsEmpty(m) {
				continue
			}
			below := path + "/" + jsondoc.Escape(n)
			objects := 0
			for _, inner := range f.d.Members(m) {
				if !f.d.IsObject(inner) {
					objects = -1
					break
				}
				objects++
			}
			switch {
			case f.d.NumericKeys(m):
				out = append(out, below)
			case objects > 0 && f.sameKind(m, objects):
				out = append(out, below+"/*")
			default:
				walk(m, below, depth+1)
			}
		}
	}
	walk(f.d.Root(), "", 0)
	return out
}

func (f *finder) detectEmpty(v jsondoc.Value, path string) bool {
	only, containers := "", 0
	for raw, m := range f.d.Members(v) {
		name := jsondoc.Unquote(raw)
		if !m.Nested() || schemas.Paging().NotRecords(name) || schemas.Paging().Beside.Has(name) {
			continue
		}
		containers++
		if f.d.IsList(m) && f.d.IsEmpty(m) {
			only = name
		}
	}
	return containers == 1 && only != "" && f.at(path+"/"+jsondoc.Escape(only)) != absent
}

func (f *finder) emptyPlaces() []string {
	var out []string
	words := schemas.Paging()
	for raw, m := range f.d.Members(f.d.Root()) {
		name := jsondoc.Unquote(raw)
		list := words.Lists.Has(name)
		switch {
		case words.NotRecords(name) || !m.Nested() && words.Role(name) != "":
		case m.Nested() && !f.d.IsEmpty(m):
			if list || !words.Beside.Has(name) {
				return nil // the records would be in this member
			}
		case f.d.IsEmpty(m) && (f.d.IsList(m) || f.d.Kind(m) == 'n'):
			out = append(out, "/"+jsondoc.Escape(name))
		}
	}
	return out
}

// ambiguous is called for an answer that seems to be one record, because it has an id. It returns the pointer of an
// array that may hold the records instead, or "" if there is no such array.
func (f *finder) ambiguous() string {
	if !f.owned || f.out.Form != FormOne || f.out.Pointer != "" {
		return ""
	}
	words := schemas.Paging()
	for raw, m := range f.d.Members(f.d.Root()) {
		name := jsondoc.Unquote(raw)
		if f.d.IsList(m) && !f.d.IsEmpty(m) && recordList(f.d, m) && (words.Lists.Has(name) || slices.Contains(f.names, name)) {
			return "/" + jsondoc.Escape(name)
		}
	}
	return ""
}

// CandidatePlaces returns pointers of up to eight arrays that may hold the records.
func CandidatePlaces(d *jsondoc.Doc) []string {
	var out []string
	var walk func(v jsondoc.Value, path string, depth int)
	walk = func(v jsondoc.Value, path string, depth int) {
		switch {
		case depth > maxUnwrap || len(out) == 8:
		case d.IsList(v) && recordList(d, v) && !d.IsEmpty(v):
			out = append(out, path)
		case d.IsObject(v):
			for name, m := range d.Members(v) {
				if n := jsondoc.Unquote(name); m.Nested() && !schemas.Paging().NotRecords(n) {
					walk(m, path+"/"+jsondoc.Escape(n), depth+1)
				}
			}
		}
	}
	walk(d.Root(), "", 0)
	return out
}
