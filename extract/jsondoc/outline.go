package jsondoc

import "strings"

// NumericKeys reports whether v is an object whose members have integer names and are objects. PHP writes an array as
// such an object if its first elements were removed.
func (d *Doc) NumericKeys(v Value) bool {
	n := 0
	for name, m := range d.Members(v) {
		if n := digits(name); n == 0 || n < len(name) || !d.IsObject(m) {
			return false
		}
		n++
	}
	return n > 0
}

// Scalars returns the members of v that are neither objects nor arrays, as a JSON object.
func (d *Doc) Scalars(v Value) []byte {
	out := []byte{'{'}
	for name, m := range d.Members(v) {
		if m.Nested() {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), `":`...)
		out = append(out, d.Raw(m)...)
	}
	return append(out, '}')
}

// Outline describes the body in a few words: "an object of data, meta (total, page)".
func (d *Doc) Outline() string {
	switch {
	case d.IsList(d.Root()):
		return "a list"
	case !d.IsObject(d.Root()):
		return "neither a list nor an object"
	}
	return "an object of " + d.MemberNames(d.Root(), 2)
}

// MemberNames returns a text with the names of the first members of v. If a member is an object, the names of its
// members follow in brackets, down to the given depth.
func (d *Doc) MemberNames(v Value, depth int) string {
	var names []string
	for name, m := range d.Members(v) {
		if len(names) == 12 {
			names = append(names, "…")
			break
		}
		n := Unquote(name)
		if depth > 1 && d.IsObject(m) {
			n += " (" + d.MemberNames(m, depth-1) + ")"
		}
		names = append(names, n)
	}
	return strings.Join(names, ", ")
}
