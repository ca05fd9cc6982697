package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/schemas"
)

var typeWords = []string{"bool", "int64", "float64", "decimal(p,s)", "date", "timestamp", "text", "json"}

func (s *Stream) readColumns(v value) {
	s.Types = maps.Clone(s.Types)
	if s.Types == nil {
		s.Types = map[string]string{}
	}
	es, _ := v.entries()
	for _, e := range es {
		if !columnPath.MatchString(e.key) {
			v.fault(e.at, "%s: not a valid column path; want lower case, __ between an object and its member", e.what)
			continue
		}
		if e.isMapping() {
			s.readColumn(e)
			continue
		}
		text, ok := e.text()
		switch {
		case !ok:
		case slices.Contains(schemas.MaskActions(), text.value):
			s.Columns = append(s.Columns, ColumnMask{At: e.at, Column: e.key, Mask: schemas.Mask{Action: text.value}})
		default:
			s.readType(e.value, e.key, text)
		}
	}
}

var columnPath = regexp.MustCompile(`^[a-z0-9_]+$`)

func (s *Stream) readType(v value, path string, text scalar) {
	if _, err := schemas.ParseType(text.value); err != nil {
		v.fault(text.at, "%s: %q is neither a type nor a mask%s", v.what, text.raw,
			suggestion(text.raw, slices.Concat(typeWords, schemas.MaskActions())))
		return
	}
	s.Types[path] = text.value
}

func (s *Stream) readColumn(e entry) {
	var m schemas.Mask
	typed := Pos{}
	f := maskFields(&m)
	f["type"] = func(v value) {
		if text, ok := v.text(); ok {
			s.readType(v, e.key, text)
			typed = text.at
		}
	}
	f["description"] = func(v value) {
		if text, ok := v.text(); ok {
			s.Descriptions = with(s.Descriptions, e.key, text.value)
		}
	}
	f["rename"] = func(v value) { s.readRename(v, e.key) }
	if !e.mapping(f) {
		return
	}
	if m != (schemas.Mask{}) {
		if m.Action == "" {
			e.require("mask")
		}
		checkMask(e.value, m)
		s.Columns = append(s.Columns, ColumnMask{At: e.at, Column: e.key, Mask: m})
	}
	if m.Textual() && typed != (Pos{}) {
		e.fault(typed, "%s: mask %s always produces text; remove `type`", e.what, m.Action)
	}
}

func (s *Stream) readRename(v value, path string) {
	to, ok := v.text()
	if !ok {
		return
	}
	if schemas.Column(schemas.PathPointer(to.value)) != to.value {
		v.fault(to.at, "%s %q: want lower-case letters, digits and single underscores, at most %d, and not a name that penstock uses itself", v.what, to.raw, schemas.MaxName)
		return
	}
	for other, name := range s.Rules.Rename {
		if name == to.value {
			v.fault(to.at, "%s: %s has the name %q too", v.what, other, to.raw)
		}
	}
	s.Rules.Rename = with(s.Rules.Rename, path, to.value)
}

func selects(v value) []string {
	var all []string
	for _, s := range v.texts() {
		switch {
		case !columnPath.MatchString(s.value):
			v.fault(s.at, "%s %q: not a valid column path", v.what, s.raw)
		case slices.Contains(all, s.value):
			v.fault(s.at, "%s names %q twice", v.what, s.raw)
		default:
			all = append(all, s.value)
		}
	}
	v.notEmpty(len(all))
	return all
}

func filter(v value) []schemas.Condition {
	items := []value{v}
	if v.isList() {
		items = v.list()
	}
	var all []schemas.Condition
	for _, item := range items {
		if c, ok := condition(item); ok {
			all = append(all, c)
		}
	}
	return all
}

func condition(v value) (c schemas.Condition, ok bool) {
	limit := func(to **string) func(value) {
		return func(v value) {
			if s, ok := operand(v); ok {
				*to = &s
			}
		}
	}
	tests := 0
	f := fields{
		"in":     set(&c.In, operands),
		"not_in": set(&c.NotIn, operands),
		"min":    limit(&c.Min),
		"max":    limit(&c.Max),
		"null":   func(v value) { is := v.boolean(); c.Null = &is },
	}
	for key, read := range f {
		f[key] = func(v value) { tests++; read(v) }
	}
	f["column"] = func(v value) {
		s, ok := v.text()
		if c.Column = s.value; ok && !columnPath.MatchString(s.value) {
			v.fault(s.at, "%s %q: not a valid column path", v.what, s.raw)
		}
	}
	if !v.mapping(f, "column") {
		return c, false
	}
	if tests != 1 {
		v.fault(v.pos(), "%s has %d tests for one column; want one of in, not_in, min, max or null, and a separate entry for each further test", v.what, tests)
	}
	return c, true
}

// operand returns a value of a filter. The underscores of a number, as in 1_000, are removed.
func operand(v value) (string, bool) {
	s, ok := v.scalar()
	switch v.resolve().(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		s.value = strings.ReplaceAll(s.value, "_", "")
	}
	return s.value, ok
}

func operands(v value) []string {
	all := []string{}
	for _, item := range v.list() {
		if s, ok := operand(item); ok {
			all = append(all, s)
		}
	}
	v.notEmpty(len(all))
	return all
}
