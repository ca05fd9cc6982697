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
}

// Touched reports whether anything becomes of the column's values at all.
func (v Verdict) Touched() bool { return v.Drop || v.Masked() || v.Rename != "" }

// Masked reports whether something else is stored in place of the values.
func (v Verdict) Masked() bool { return v.Mask.Action != "" }

// Verdict is what becomes of the field at a JSON pointer into the record, in
// which arrays leave no mark. What an outer object is dropped for, is dropped
// for all of it; of masks the innermost one counts.
func (s Stream) Verdict(source string) Verdict {
	r := &s.Rules
	levels := levelsOf(source)
	var v Verdict
	for _, l := range levels {
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
	}
	last := levels[len(levels)-1].path
	if r.Select != nil {
		switch s.selected(levels) {
		case partly:
			return Verdict{Drop: true, Outer: true}
		case not:
			return Verdict{Drop: true}
		}
	}
	v.Rename = r.Rename[last]
	return v
}

// PathPointer is the pointer of the field whose column has this path, as far
// as the path alone can tell.
func PathPointer(path string) string { return "/" + strings.ReplaceAll(path, "__", "/") }

// level is one prefix of a pointer: the names by which rules may mean it.
type level struct {
	path, last string
	plain      [2]string // both without the suffix of a name that could not stay as it was
}

// levelsOf are the prefixes of a pointer, the shortest first.
func levelsOf(source string) []level {
	p := pointer(source)
	var all []level
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		last := p[strings.LastIndexByte(p[:i], '/'):i]
		all = append(all, level{path: Column(p[:i]), last: Column(last), plain: [2]string{plain(p[:i]), plain(last)}})
	}
	if all == nil {
		all = []level{{path: Column(""), last: Column(""), plain: [2]string{Column(""), Column("")}}}
	}
	return all
}

func plain(source string) string {
	name, _ := column(source)
	return name
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
	if globs(m.Column, l.path) || globs(m.Column, l.plain[0]) {
		return true
	}
	return !strings.Contains(m.Column, "__") && (globs(m.Column, l.last) || globs(m.Column, l.plain[1]))
}

func globs(pattern, name string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == name
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

const (
	not = iota
	partly
	wholly
)

// selected says how much of a column is selected. The key always is.
func (s Stream) selected(levels []level) int {
	last := levels[len(levels)-1].path
	found := not
	for _, name := range slices.Concat(s.Rules.Select, s.Key) {
		if strings.HasPrefix(name, last+"__") {
			found = partly
		}
		if slices.ContainsFunc(levels, func(l level) bool { return l.path == name }) {
			return wholly
		}
	}
	return found
}
