package imports

import (
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// shaper turns schemas into shapes. A schema that contains itself is followed only once.
type shaper struct {
	left int                // how many more schemas may be read; each reference to a schema counts again
	open []*openapi3.Schema // the schemas that are being read; each contains the next
}

func (w *shaper) shape(ref *openapi3.SchemaRef, depth int) *Shape {
	if w.left--; ref == nil || ref.Value == nil || depth > maxShapeDepth || w.left <= 0 {
		return &Shape{}
	}
	s := ref.Value
	if slices.Contains(w.open, s) {
		return &Shape{Kind: kind(s)} // the schema contains itself
	}
	w.open = append(w.open, s)
	defer func() { w.open = w.open[:len(w.open)-1] }()
	out := &Shape{Kind: kind(s), Format: s.Format, Text: joinedText(s.Title, s.Description), Enum: enum(s)}
	if s.Title != "" && s.Description != "" {
		out.Text = sentence(s.Description) // if there is a description, the title is only the schema's name
	}
	switch out.Kind {
	case Array:
		if s.Items != nil {
			out.Elem = w.shape(s.Items, depth+1)
		}
	case Object:
		out.Members = w.members(s.Properties, depth)
	}
	for _, part := range s.AllOf {
		out = both(out, w.shape(part, depth+1))
	}
	return w.oneOf(out, append(slices.Clone(s.OneOf), s.AnyOf...), depth)
}

func (w *shaper) members(properties openapi3.Schemas, depth int) []Member {
	var all []Member
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		ref := properties[name]
		if ref == nil || ref.Value != nil && ref.Value.WriteOnly {
			continue
		}
		if len(all) == maxMembers {
			break
		}
		all = append(all, Member{name, w.shape(ref, depth+1)})
	}
	return all
}

// oneOf merges the variants of a shape with either(), and adds the result to the shape. In the document, the variants
// are under the key `oneOf` or `anyOf`. The variant `null` is ignored.
func (w *shaper) oneOf(out *Shape, variants openapi3.SchemaRefs, depth int) *Shape {
	var union *Shape
	for _, ref := range variants {
		if ref != nil && ref.Value != nil && ref.Value.Type.Is("null") {
			continue
		}
		v := w.shape(ref, depth+1)
		if union == nil {
			union = v
			continue
		}
		union = either(union, v)
	}
	if union == nil {
		return out
	}
	return both(out, union)
}

// kind returns the only kind that a schema allows. The kind null does not count.
func kind(s *openapi3.Schema) Kind {
	var kinds []Kind
	for _, t := range s.Type.Slice() {
		if t != "null" {
			kinds = append(kinds, Kind(t))
		}
	}
	switch {
	case len(kinds) == 1:
		return kinds[0]
	case len(kinds) == 2 && slices.Contains(kinds, Integer) && slices.Contains(kinds, Number):
		return Number
	case len(kinds) > 0:
		return Any
	case len(s.Properties) > 0:
		return Object
	case s.Items != nil:
		return Array
	}
	return Any
}

// enum returns the values that a schema allows; nil if one of them is not a scalar.
func enum(s *openapi3.Schema) []string {
	values := s.Enum
	if s.Const != nil {
		values = []any{s.Const}
	}
	var all []string
	for _, v := range values {
		if v == nil {
			continue
		}
		text := scalar(v)
		if text == "" {
			return nil
		}
		all = append(all, sentence(text))
	}
	return all
}

// both() returns the shape of a value that matches two shapes.
func both(a, b *Shape) *Shape {
	out := *a
	if out.Kind == Any {
		out.Kind, out.Format = b.Kind, b.Format
	}
	if out.Text == "" {
		out.Text = b.Text
	}
	if out.Enum == nil {
		out.Enum = b.Enum
	}
	switch {
	case out.Elem == nil:
		out.Elem = b.Elem
	case b.Elem != nil:
		out.Elem = both(out.Elem, b.Elem)
	}
	out.Members = joined(a.Members, b.Members, both)
	return &out
}

// either() returns the shape of a value that matches one of two shapes. Two objects become one object with the members
// of both. If the kinds or the formats differ, the result does not state them.
func either(a, b *Shape) *Shape {
	out := *a
	switch {
	case a.Kind == b.Kind:
	case (a.Kind == Integer || a.Kind == Number) && (b.Kind == Integer || b.Kind == Number):
		out.Kind = Number
	default:
		return &Shape{Text: a.Text}
	}
	if a.Format != b.Format {
		out.Format = ""
	}
	if a.Text != b.Text && a.Kind != Object {
		out.Text = strings.Trim(a.Text+" / "+b.Text, " /")
	}
	out.Enum = nil
	if a.Enum != nil && b.Enum != nil {
		out.Enum = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.Enum, b.Enum))))
	}
	if a.Elem != nil && b.Elem != nil {
		out.Elem = either(a.Elem, b.Elem)
	}
	out.Members = joined(a.Members, b.Members, either)
	return &out
}

// joined() returns the members of both objects. If both objects have a member with the same name, the function
// mergeMember merges the two.
func joined(a, b []Member, mergeMember func(a, b *Shape) *Shape) []Member {
	if len(b) == 0 {
		return a
	}
	all := slices.Clone(a)
	for _, m := range b {
		i, found := slices.BinarySearchFunc(all, m.Name, func(o Member, name string) int { return strings.Compare(o.Name, name) })
		if found {
			all[i].Shape = mergeMember(all[i].Shape, m.Shape)
			continue
		}
		all = slices.Insert(all, i, m)
	}
	return all
}
