package schemas

import (
	"path"
	"slices"
	"strings"
)

// Verdict is what a stream's rules say of one column.
type Verdict struct {
	Drop   bool   // it is not loaded
	Outer  bool   // with Drop: of an object or a list of objects, some columns are loaded
	Mask   Mask   // its Action is "" where the value is stored as it came
	Rename string // what it is called in its table; "" for its own name

	whole   bool // it is selected, with all that is in it
	members Mask // with Outer: of its members, where no other rule means them
}

// Touched reports whether anything becomes of the column's values at all.
func (v Verdict) Touched() bool { return v.Drop || v.Masked() || v.Rename != "" }

// Masked reports whether something else is stored in place of the values.
func (v Verdict) Masked() bool { return v.Mask.Action != "" }

// Verdict is what becomes of the field at a JSON pointer into the record, in
// which arrays leave no mark. What an outer object is dropped for, is dropped
// for all of it; of masks the innermost one counts.
func (s Stream) Verdict(source string) Verdict {
	p := pointer(source)
	v := Verdict{}
	for i := 1; i < len(p); i++ {
		if p[i] == '/' {
			v = s.Below(v, p[:i])
		}
	}
	return s.Below(v, p)
}

// Below is the verdict on the field at source, given that on the object or array
// around it, which for a member of the record is the zero value. The time it takes
// does not depend on how deep the field is.
func (s Stream) Below(around Verdict, source string) Verdict {
	r := &s.Rules
	if around.Drop && !around.Outer {
		return Verdict{Drop: true}
	}
	l := levelOf(pointer(source))
	v := Verdict{Mask: around.Mask, whole: around.whole}
	if around.Outer {
		v.Mask = around.members
	}
	m, ok := r.mask(l)
	switch {
	case !ok:
	case m.Action == MaskDrop:
		return Verdict{Drop: true}
	case m.Action == MaskKeep:
		v.Mask = Mask{}
	default:
		v.Mask = m
	}
	if r.Select != nil && !v.whole {
		switch s.selected(l.path) {
		case partly:
			return Verdict{Drop: true, Outer: true, members: v.Mask}
		case not:
			return Verdict{Drop: true}
		}
		v.whole = true
	}
	v.Rename = r.Rename[l.path]
	return v
}

// PathPointer is the pointer of the field whose column has this path, as far
// as the path alone can tell.
func PathPointer(path string) string { return "/" + strings.ReplaceAll(path, "__", "/") }

// level is a field: the names by which rules may mean it.
type level struct {
	path, last string
	plain      [2]string // both without the suffix of a name that could not stay as it was
}

// levelOf is the field at a pointer.
func levelOf(p string) level {
	last := p[max(0, strings.LastIndexByte(p, '/')):]
	l := level{}
	l.path, l.plain[0] = columnNames(p)
	l.last, l.plain[1] = columnNames(last)
	return l
}

// columnNames are the column of a field and the readable part of its name.
func columnNames(source string) (name, plain string) {
	plain, exact := column(source)
	if exact {
		return plain, plain
	}
	return suffixed(plain, source, shortHash), plain
}

// mask is that of the last rule which names the level.
func (r *Rules) mask(l level) (Mask, bool) {
	for _, m := range slices.Backward(r.Masks) {
		if m.names(l) {
			return m.Mask, true
		}
	}
	return Mask{}, false
}

func (m MaskRule) names(l level) bool {
	if m.Exact {
		return m.Column == l.path
	}
	if globs(m.Column, l.path) || l.plain[0] != l.path && globs(m.Column, l.plain[0]) {
		return true
	}
	if l.last == l.path || strings.Contains(m.Column, "__") {
		return false
	}
	return globs(m.Column, l.last) || l.plain[1] != l.last && globs(m.Column, l.plain[1])
}

// globs reports whether a pattern means a name. Most have a star at one or both ends
// and nowhere else.
func globs(pattern, name string) bool {
	text, before := strings.CutPrefix(pattern, "*")
	text, after := strings.CutSuffix(text, "*")
	if literal(text) {
		switch {
		case before && after:
			return strings.Contains(name, text)
		case before:
			return strings.HasSuffix(name, text)
		case after:
			return strings.HasPrefix(name, text)
		}
		return pattern == name
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// literal reports whether a pattern means itself.
func literal(pattern string) bool {
	for i := range len(pattern) {
		switch pattern[i] {
		case '*', '?', '[', '\\':
			return false
		}
	}
	return true
}

const (
	not = iota
	partly
	wholly
)

// selected says how much of a column is selected. The key always is.
func (s Stream) selected(column string) int {
	found := not
	for _, names := range [][]string{s.Rules.Select, s.Key} {
		for _, name := range names {
			if name == column {
				return wholly
			}
			if strings.HasPrefix(name, column) && strings.HasPrefix(name[len(column):], "__") {
				found = partly
			}
		}
	}
	return found
}
