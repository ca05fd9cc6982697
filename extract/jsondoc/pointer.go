package jsondoc

import "strings"

// At follows a JSON pointer that begins at v, and returns the value there, or [Missing]. It does not enter arrays.
func (d *Doc) At(v Value, pointer string) Value {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if !d.IsObject(v) {
			return Missing
		}
		v = d.Get(v, Unescape(token))
	}
	return v
}

// ScalarsAt follows a pointer, and returns the scalars there. In the pointer, * stands for each element of an array or
// each member of an object. ScalarsAt leaves out null values and empty texts.
func (d *Doc) ScalarsAt(v Value, tokens []string) [][]byte {
	switch {
	case !v.OK():
		return nil
	case len(tokens) == 0:
		if v.Nested() || d.IsEmpty(v) {
			return nil
		}
		return [][]byte{d.Raw(v)}
	case tokens[0] != "*":
		return d.ScalarsAt(d.Get(v, Unescape(tokens[0])), tokens[1:])
	}
	var out [][]byte
	if d.IsList(v) {
		for e := range d.Elements(v) {
			out = append(out, d.ScalarsAt(e, tokens[1:])...)
		}
	} else if d.IsObject(v) {
		for _, m := range d.Members(v) {
			out = append(out, d.ScalarsAt(m, tokens[1:])...)
		}
	}
	return out
}

// Escape returns a name as a token of a JSON pointer.
func Escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// Unescape returns the name of a token of a JSON pointer.
func Unescape(token string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}
