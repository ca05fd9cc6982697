package imports

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// seen() returns the shape of an example. No column types are derived from it, because another answer may have
// values of another kind: see Examples in [Description].
func (r *postman) seen(v any, depth int) *Shape {
	if r.left--; r.left <= 0 || depth > maxShapeDepth {
		return &Shape{}
	}
	switch v := v.(type) {
	case map[string]any:
		out := &Shape{Kind: Object}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if len(out.Members) == maxMembers {
				break
			}
			out.Members = append(out.Members, Member{name, r.seen(v[name], depth+1)})
		}
		return out
	case []any:
		return &Shape{Kind: Array, Elem: r.elements(v, depth)}
	case string:
		return &Shape{Kind: String}
	case bool:
		return &Shape{Kind: Boolean}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return &Shape{Kind: Number}
		}
		return &Shape{Kind: Integer}
	}
	return &Shape{}
}

// elements returns the common shape of an array's first 100 elements; nil for an empty array.
func (r *postman) elements(all []any, depth int) *Shape {
	var out *Shape
	for _, e := range all[:min(len(all), 100)] {
		s := r.seen(e, depth+1)
		switch {
		case out == nil || out.Kind == Any:
			out = s
		case s.Kind != Any:
			out = either(out, s)
		}
	}
	return out
}
