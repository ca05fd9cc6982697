package schemas

import (
	"path"
	"slices"
	"strings"
)

// Verdict is the effect of a stream's rules on one column.
type Verdict struct {
	Drop    bool   // do not load the column
	Partial bool   // with Drop: load some members of the object, or of the objects in the array
	Mask    Mask   // Action is "" if the value is stored unchanged
	Rename  string // name of the column in its table; "" if the name is not changed

	allSelected bool // the column is selected, and if it is an object, so are all its members
	memberMask  Mask // with Partial: the mask of members that no other rule matches
}

// Touched reports whether the rules change anything about the column.
func (v Verdict) Touched() bool { return v.Drop || v.Masked() || v.Rename != "" }

// Masked reports whether the values are replaced.
func (v Verdict) Masked() bool { return v.Mask.Action != "" }

// Verdict returns the verdict on the field at a JSON pointer into the record, without array indexes. If an object is
// dropped, its members are dropped too, unless Partial is set. If one mask matches the field and another mask matches
// the object around it, the mask of the field applies.
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

// Below returns the verdict on a field. The parameter `source` is the field's JSON pointer. The parameter `outer` is
// the verdict on the object or array around the field; for a member of the record itself, it is the zero value. The
// cost of Below does not depend on the field's depth.
func (s Stream) Below(outer Verdict, source string) Verdict {
	r := &s.Rules
	if outer.Drop && !outer.Partial {
		return Verdict{Drop: true}
	}
	l := namesOf(pointer(source))
	v := Verdict{Mask: outer.Mask, allSelected: outer.allSelected}
	if outer.Partial {
		v.Mask = outer.memberMask
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
	if r.Select != nil && !v.allSelected {
		switch s.selected(l.path) {
		case selectedPart:
			return Verdict{Drop: true, Partial: true, memberMask: v.Mask}
		case selectedNone:
			return Verdict{Drop: true}
		}
		v.allSelected = true
	}
	v.Rename = r.Rename[l.path]
	return v
}

// PathPointer returns the JSON pointer of the field whose column has this path: /a/b for a__b. It assumes that the
// names of members in the source are the same as in the path.
func PathPointer(path string) string { return "/" + strings.ReplaceAll(path, "__", "/") }

type ruleNames struct {
	path, last string
	plain      [2]string // the two names above, without the suffix with a hash
}

func namesOf(p string) ruleNames {
	last := p[max(0, strings.LastIndexByte(p, '/')):]
	l := ruleNames{}
	l.path, l.plain[0] = columnNames(p)
	l.last, l.plain[1] = columnNames(last)
	return l
}

func columnNames(source string) (name, plain string) {
	plain, exact := column(source)
	if exact {
		return plain, plain
	}
	return suffixed(plain, source, shortHash), plain
}

func (r *Rules) mask(l ruleNames) (Mask, bool) {
	for _, m := range slices.Backward(r.Masks) {
		if m.matches(l) {
			return m.Mask, true
		}
	}
	return Mask{}, false
}

func (m MaskRule) matches(l ruleNames) bool {
	if m.Exact {
		return m.Column == l.path
	}
	if matches(m.Column, l.path) || l.plain[0] != l.path && matches(m.Column, l.plain[0]) {
		return true
	}
	if l.last == l.path || strings.Contains(m.Column, "__") {
		return false
	}
	return matches(m.Column, l.last) || l.plain[1] != l.last && matches(m.Column, l.plain[1])
}

func matches(pattern, name string) bool {
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
	selectedNone = iota
	selectedPart
	selectedAll
)

// selected reports whether a column, or a part of it, is selected: the result is one of the constants above. The key is
// always selected.
func (s Stream) selected(column string) int {
	found := selectedNone
	for _, names := range [][]string{s.Rules.Select, s.Key} {
		for _, name := range names {
			if name == column {
				return selectedAll
			}
			if strings.HasPrefix(name, column) && strings.HasPrefix(name[len(column):], "__") {
				found = selectedPart
			}
		}
	}
	return found
}
