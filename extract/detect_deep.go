package extract

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// detectDeep searches down to maxUnwrap levels. It takes the only array of objects. If there is none, it takes the
// only object that holds records by id, and then the only empty array.
func (f *finder) detectDeep(v value) bool {
	if f.single || f.record(v) && !f.paged(v) && !f.declaresList(v) {
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

func (f *finder) mapPlaces() []string {
	var out []string
	var walk func(v value, path string, depth int)
	walk = func(v value, path string, depth int) {
		for name, m := range f.d.members(v) {
			n := unquote(name)
			if !f.d.isObject(m) || schemas.Paging().NotRecords(n) || depth > maxUnwrap || f.d.void(m) {
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
			case objects > 0 && f.sameKind(m, objects):
				out = append(out, below+"/*")
			default:
				walk(m, below, depth+1)
			}
		}
	}
	walk(f.d.root(), "", 0)
	return out
}

func (f *finder) detectEmpty(v value, path string) bool {
	only, containers := "", 0
	for raw, m := range f.d.members(v) {
		name := unquote(raw)
		if m.node < 0 || schemas.Paging().NotRecords(name) || schemas.Paging().Beside(name) {
			continue
		}
		containers++
		if f.d.isList(m) && f.d.void(m) {
			only = name
		}
	}
	return containers == 1 && only != "" && f.at(path+"/"+escape(only)) != absent
}

func (f *finder) emptyPlaces() []string {
	var out []string
	words := schemas.Paging()
	for raw, m := range f.d.members(f.d.root()) {
		name := unquote(raw)
		list := words.NamesList(name)
		switch {
		case words.NotRecords(name) || m.node < 0 && words.Role(name) != "":
		case m.node >= 0 && !f.d.void(m):
			if list || !words.Beside(name) {
				return nil // the records would be in this member
			}
		case f.d.void(m) && (f.d.isList(m) || f.d.kind(m) == 'n'):
			out = append(out, "/"+escape(name))
		}
	}
	return out
}

// ambiguous returns the pointer of an array that may hold the records. The answer was taken for one record, because
// it has an id. It returns "" if there is no such array.
func (f *finder) ambiguous() string {
	if !f.owned || f.out.form != formOne || f.out.pointer != "" {
		return ""
	}
	words := schemas.Paging()
	for raw, m := range f.d.members(f.d.root()) {
		name := unquote(raw)
		if f.d.isList(m) && !f.d.void(m) && f.d.recordList(m) && (words.NamesList(name) || slices.Contains(f.names, name)) {
			return "/" + escape(name)
		}
	}
	return ""
}

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
				if n := unquote(name); m.node >= 0 && !schemas.Paging().NotRecords(n) {
					walk(m, path+"/"+escape(n), depth+1)
				}
			}
		}
	}
	walk(d.root(), "", 0)
	return out
}

func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
