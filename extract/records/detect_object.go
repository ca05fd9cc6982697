package records

import (
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

func (f *finder) declaresList(v jsondoc.Value) bool {
	words := schemas.Paging()
	return slices.ContainsFunc(words.ListTypes.Members, func(name string) bool { return words.ListType(f.d.Text(f.d.Get(v, name))) })
}

func (f *finder) column(v jsondoc.Value) bool {
	named, scalars := false, 0
	for name, m := range f.d.Members(v) {
		if !m.Nested() {
			scalars++
		}
		named = named || jsondoc.NameIs(name, "name") || jsondoc.NameIs(name, "title")
	}
	return named && scalars <= 12
}

// sameKind reports whether the n objects in v are records of one kind. Either all have an id, or all have the same
// members and there are at least three objects. Two are not enough: they may be the billing address and the shipping
// address of one record.
func (f *finder) sameKind(v jsondoc.Value, n int) bool {
	ids, names := 0, ""
	same := n > 2
	for _, m := range f.d.Members(v) {
		if f.record(m) {
			ids++
		}
		these := f.d.MemberNames(m, 1)
		same = same && (names == "" || names == these)
		names = these
	}
	return ids == n || same
}

// sameKindLists compares the first record of each array in v with the first record of the first array. It reports
// whether they always share at least half of their members.
func (f *finder) sameKindLists(v jsondoc.Value) bool {
	var first []string
	for _, list := range f.d.Members(v) {
		for e := range f.d.Elements(list) {
			var names []string
			for raw := range f.d.Members(e) {
				names = append(names, jsondoc.Unquote(raw))
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
func (f *finder) paged(v jsondoc.Value) bool {
	words := schemas.Paging()
	if f.hasAny(v, words.ListMembers) {
		return true
	}
	for raw, m := range f.d.Members(v) {
		role := words.Role(jsondoc.Unquote(raw))
		if !m.Nested() && (role == schemas.RoleNext || role == schemas.RoleTotal || role == schemas.RoleMore || role == schemas.RolePages) {
			return true
		}
	}
	return false
}

func (f *finder) record(v jsondoc.Value) bool { return f.d.Get(v, "id").OK() }

func (f *finder) enveloped(v jsondoc.Value) bool {
	if f.record(v) {
		return false
	}
	return f.hasAny(v, schemas.Paging().EnvelopeMembers) || f.d.Get(v, "status").OK() && f.d.Get(v, "message").OK()
}

func (f *finder) hasAny(v jsondoc.Value, names []string) bool {
	for raw := range f.d.Members(v) {
		if slices.ContainsFunc(names, func(name string) bool { return jsondoc.NameIs(raw, name) }) {
			return true
		}
	}
	return false
}
