package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/schemas"
)

// ColumnMask is a stream's own mask for one of its columns.
type ColumnMask struct {
	At     Pos
	Column string // path of the column
	Mask   schemas.Mask
}

var typeWords = []string{"bool", "int64", "float64", "decimal(p,s)", "date", "timestamp", "text", "json"}

func (r *reader) columns(s *Stream, n ast.Node, what string) {
	s.Types = maps.Clone(s.Types)
	if s.Types == nil {
		s.Types = map[string]string{}
	}
	es, _ := r.entries(n, what)
	for _, e := range es {
		what := what + " " + e.key
		if !columnPath.MatchString(e.key) {
			r.fault(e.at, "%s: not a valid column path; want lower case, __ between an object and its member", what)
			continue
		}
		if _, block := r.resolve(e.value).(ast.MapNode); block {
			r.column(s, e, what)
			continue
		}
		v, ok := r.text(e.value, what)
		switch {
		case !ok:
		case slices.Contains(schemas.MaskActions(), v.value):
			s.Columns = append(s.Columns, ColumnMask{At: e.at, Column: e.key, Mask: schemas.Mask{Action: v.value}})
		default:
			r.columnType(s, e.key, v, what)
		}
	}
}

var columnPath = regexp.MustCompile(`^[a-z0-9_]+$`)

func (r *reader) columnType(s *Stream, path string, v scalar, what string) {
	if _, err := schemas.ParseType(v.value); err != nil {
		r.fault(v.at, "%s: %q is neither a type nor a mask%s", what, v.raw,
			suggestion(v.raw, slices.Concat(typeWords, schemas.MaskActions())))
		return
	}
	s.Types[path] = v.value
}

func (r *reader) column(s *Stream, e entry, what string) {
	var m schemas.Mask
	typed := Pos{}
	f := r.maskFields(&m, what)
	f["type"] = func(n ast.Node) {
		if v, ok := r.text(n, what+" type"); ok {
			r.columnType(s, e.key, v, what+" type")
			typed = v.at
		}
	}
	f["description"] = func(n ast.Node) {
		if v, ok := r.text(n, what+" description"); ok {
			s.Descriptions = maps.Clone(s.Descriptions)
			if s.Descriptions == nil {
				s.Descriptions = map[string]string{}
			}
			s.Descriptions[e.key] = v.value
		}
	}
	f["rename"] = func(n ast.Node) { r.rename(s, e.key, n, what+" rename") }
	if !r.mapping(e.value, what, f) {
		return
	}
	if m != (schemas.Mask{}) {
		if m.Action == "" {
			r.require(e.value, what, "mask")
		}
		r.checkMask(m, posOf(e.value), what)
		s.Columns = append(s.Columns, ColumnMask{At: e.at, Column: e.key, Mask: m})
	}
	if m.Textual() && typed != (Pos{}) {
		r.fault(typed, "%s: mask %s always produces text; remove type", what, m.Action)
	}
}

func (r *reader) rename(s *Stream, path string, n ast.Node, what string) {
	v, ok := r.text(n, what)
	if !ok {
		return
	}
	if schemas.Column(schemas.PathPointer(v.value)) != v.value {
		r.fault(v.at, "%s %q: want lower-case letters, digits and single underscores, at most %d, and not a name that penstock uses itself", what, v.raw, schemas.MaxName)
		return
	}
	all := maps.Clone(s.Rules.Rename)
	if all == nil {
		all = map[string]string{}
	}
	for other, name := range all {
		if name == v.value {
			r.fault(v.at, "%s: %s has the name %q too", what, other, v.raw)
		}
	}
	all[path] = v.value
	s.Rules.Rename = all
}

func (r *reader) selects(n ast.Node, what string) []string {
	var all []string
	for _, v := range r.texts(n, what) {
		switch {
		case !columnPath.MatchString(v.value):
			r.fault(v.at, "%s %q: not a valid column path", what, v.raw)
		case slices.Contains(all, v.value):
			r.fault(v.at, "%s names %q twice", what, v.raw)
		default:
			all = append(all, v.value)
		}
	}
	if all == nil && len(r.faults) == 0 {
		r.fault(posOf(n), "%s is empty", what)
	}
	return all
}

func (r *reader) filter(n ast.Node, what string) []schemas.Condition {
	nodes := []ast.Node{n}
	if _, list := r.resolve(n).(*ast.SequenceNode); list {
		nodes = r.list(n, what)
	}
	var all []schemas.Condition
	for _, v := range nodes {
		if c, ok := r.condition(v, what); ok {
			all = append(all, c)
		}
	}
	return all
}

func (r *reader) condition(n ast.Node, what string) (c schemas.Condition, ok bool) {
	limit := func(to **string, key string) func(ast.Node) {
		return func(n ast.Node) {
			if v, ok := r.operand(n, what+" "+key); ok {
				*to = &v
			}
		}
	}
	tests := 0
	f := fields{
		"in":     func(n ast.Node) { c.In = r.operands(n, what+" in") },
		"not_in": func(n ast.Node) { c.NotIn = r.operands(n, what+" not_in") },
		"min":    limit(&c.Min, "min"),
		"max":    limit(&c.Max, "max"),
		"null":   func(n ast.Node) { v := r.boolean(n, what+" null"); c.Null = &v },
	}
	for key, read := range f {
		f[key] = func(n ast.Node) { tests++; read(n) }
	}
	f["column"] = func(n ast.Node) {
		if v, ok := r.text(n, what+" column"); ok {
			c.Column = v.value
			if !columnPath.MatchString(v.value) {
				r.fault(v.at, "%s column %q: not a valid column path", what, v.raw)
			}
		}
	}
	if !r.mapping(n, what, f) {
		return c, false
	}
	r.require(n, what, "column")
	if tests != 1 {
		r.fault(posOf(n), "%s has %d tests for one column; want one of in, not_in, min, max or null, and a separate entry for each further test", what, tests)
	}
	return c, true
}

// operand returns a value of a filter. The underscores of a number, as in 1_000, are removed.
func (r *reader) operand(n ast.Node, what string) (string, bool) {
	s, ok := r.scalar(n, what)
	switch r.resolve(n).(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		s.value = strings.ReplaceAll(s.value, "_", "")
	}
	return s.value, ok
}

func (r *reader) operands(n ast.Node, what string) []string {
	all := []string{}
	for _, v := range r.list(n, what) {
		if s, ok := r.operand(v, what); ok {
			all = append(all, s)
		}
	}
	if len(all) == 0 && len(r.faults) == 0 {
		r.fault(posOf(n), "%s is empty", what)
	}
	return all
}
