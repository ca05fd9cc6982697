package imports

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// parents finds a parent for each stream with placeholders in its path: the list whose records have the values of the
// placeholders. The parent of /invoices/{id}/lines is /invoices. If no parent is certain, the stream is disabled with a
// reason.
func (f *definer) parents() {
	for i := range f.streams {
		s := &f.streams[i]
		if s.Override || !placeholder.MatchString(s.Path) {
			continue
		}
		f.parent(s)
	}
	for i := range f.streams { // also disable the children of disabled streams
		for s := &f.streams[i]; ; {
			up := f.named(s.Parent)
			if up == nil {
				break
			}
			if !up.Enabled {
				off(&f.streams[i].Stream, "its parent %s is off", up.Name)
			}
			s = up
		}
	}
}

func (f *definer) named(name string) *Stream {
	if name == "" {
		return nil
	}
	i := slices.IndexFunc(f.streams, func(s Stream) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &f.streams[i]
}

// parent sets the parent of s: the list at the path before the last placeholder. The values of earlier
// placeholders come from the context of the parent's records.
func (f *definer) parent(s *Stream) {
	places := placeholder.FindAllStringSubmatchIndex(s.Path, -1)
	last := places[len(places)-1]
	before := strings.TrimRight(s.Path[:last[0]], "/")
	name := s.Path[last[2]:last[3]]
	up, item, ok := f.listAt(before)
	if !ok {
		shown := before[len(f.prefix):]
		if f.platform || shown == "" {
			shown = before
		}
		off(&s.Stream, "there is no list at %s that has the values of {%s}; state another stream as the parent, and its field under `params`", shown, name)
		return
	}
	from, ok := feeds(item, name)
	if !ok {
		off(&s.Stream, "it is unclear which field of %s has the value of {%s}; state it under `params`", up, name)
		return
	}
	s.Parent = up
	for _, m := range places {
		place, pointer := s.Path[m[2]:m[3]], from
		if m[0] != last[0] {
			pointer = "/_context/" + escaped(place)
		}
		takeFromParent(&s.Stream, place, pointer)
	}
	if s.Class == schemas.ClassDetail && sameFields(item, s.item) {
		off(&s.Stream, "%s has the same fields with fewer requests", up)
		s.Types, s.Descriptions = nil, nil
	}
	if s.Class != schemas.ClassDetail {
		s.Key = nil // ids may be unique only within one parent
	}
}

// takeFromParent makes a path parameter take its value from a field of the parent's record.
func takeFromParent(s *schemas.Stream, name, field string) {
	i := slices.IndexFunc(s.Params, func(p schemas.Param) bool { return p.Name == name && p.In == "path" })
	if i < 0 {
		s.Params = append(s.Params, schemas.Param{Name: name, In: "path"})
		i = len(s.Params) - 1
	}
	s.Params[i].From = field
}

// listAt returns the list at a path, from the document or from the catalogue, and the shape of its records. The
// placeholders of both paths must have the same names, because a child takes its values by name.
func (f *definer) listAt(path string) (name string, item *Shape, ok bool) {
	if path == f.prefix && !f.platform {
		return "", nil, false
	}
	for _, s := range f.streams {
		if s.Method == "GET" && lists(s.Class) && strings.TrimRight(s.Path, "/") == path {
			return s.Name, s.item, true
		}
	}
	if f.platform {
		if c, found := f.known("GET", path); found && c.Path == path && lists(c.Class) {
			return c.Name, nil, true
		}
	}
	return "", nil, false
}

func lists(c schemas.Class) bool { return c == schemas.ClassList || c == schemas.ClassBoard }

// feeds() returns the field of a parent's record that has the value of a placeholder. It is the field with the name of
// the placeholder. If there is none and the name of the placeholder looks like an id, it is the field `id`.
func feeds(item *Shape, place string) (pointer string, ok bool) {
	like := strings.HasSuffix(schemas.FoldName(place), "id") || schemas.FoldName(place) == "uuid" || schemas.FoldName(place) == "key"
	if item == nil || len(item.Members) == 0 {
		return "/id", like
	}
	for _, m := range item.Members {
		if schemas.FoldName(m.Name) == schemas.FoldName(place) {
			return "/" + escaped(m.Name), true
		}
	}
	if item.member("id") != nil && like {
		return "/id", true
	}
	return "", false
}

// sameFields reports whether the list has every field of the detail.
func sameFields(list, detail *Shape) bool {
	if list == nil || detail == nil || len(detail.Members) == 0 {
		return false
	}
	return !slices.ContainsFunc(detail.Members, func(m Member) bool { return list.member(m.Name) == nil })
}
