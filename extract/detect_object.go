package extract

import (
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

func (f *finder) declaresList(v value) bool {
	words := schemas.Paging()
	return slices.ContainsFunc(words.TypeMembers(), func(name string) bool { return words.ListType(f.d.text(f.d.get(v, name))) })
}

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

// sameKind reports whether the n objects in v are records of one kind. Either all have an id, or at least three have
// the same members. Two are not enough: they may be two addresses of one record.
func (f *finder) sameKind(v value, n int) bool {
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

// sameKindLists compares the first record of each array in v with the first record of the first array. It reports
// whether they always share at least half of their members.
func (f *finder) sameKindLists(v value) bool {
	var first []string
	for _, list := range f.d.members(v) {
		for e := range f.d.elements(list) {
			var names []string
			for raw := range f.d.members(e) {
				names = append(names, unquote(raw))
			}
			if first == nil {
				first = names
			}
			common := 0
			for _, name := range names {
				if slices.Contains(first, name) {
					common++
				}
			}
			if 2*common < max(len(first), len(names)) {
				return false
			}
			break
		}
	}
	return true
}

// paged reports whether the object v has members about paging. Then it is a list, even if it has an id.
func (f *finder) paged(v value) bool {
	words := schemas.Paging()
	if f.hasAny(v, words.ListMembers()) {
		return true
	}
	for raw, m := range f.d.members(v) {
		role := words.Role(unquote(raw))
		if m.node < 0 && (role == schemas.RoleNext || role == schemas.RoleTotal || role == schemas.RoleMore || role == schemas.RolePages) {
			return true
		}
	}
	return false
}

func (f *finder) record(v value) bool { return f.d.get(v, "id").ok() }

func (f *finder) enveloped(v value) bool {
	if f.record(v) {
		return false
	}
	return f.hasAny(v, schemas.Paging().EnvelopeMembers()) || f.d.get(v, "status").ok() && f.d.get(v, "message").ok()
}

func (f *finder) hasAny(v value, names []string) bool {
	for raw := range f.d.members(v) {
		if slices.ContainsFunc(names, func(name string) bool { return nameIs(raw, name) }) {
			return true
		}
	}
	return false
}
