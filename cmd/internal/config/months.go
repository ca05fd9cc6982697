package config

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/schemas"
)

func (r *reader) months(n ast.Node, what string) schemas.Months {
	var m schemas.Months
	if _, block := r.resolve(n).(ast.MapNode); !block {
		r.choice(n, what, "none")
		return m
	}
	word := func(to *string, key string) func(ast.Node) {
		return func(n ast.Node) {
			if s, ok := r.text(n, what+" "+key); ok {
				*to = s.value
			}
		}
	}
	if r.mapping(n, what, fields{
		"month":  word(&m.Month, "month"),
		"year":   word(&m.Year, "year"),
		"recent": func(n ast.Node) { m.Recent = r.number(n, what+" recent", 1, 240) },
		"full":   func(n ast.Node) { m.Full = r.duration(n, what+" full") },
		"first": func(n ast.Node) {
			s, ok := r.text(n, what+" first")
			at, err := time.Parse("2006-01", s.value)
			if m.First = at; ok && err != nil {
				r.fault(s.at, "%s first %q: want a month, such as 2024-01", what, s.raw)
			}
		},
	}) {
		r.require(n, what, "month")
		r.require(n, what, "year")
	}
	return m
}

func (r *reader) checkMonths(s Stream) {
	switch {
	case !s.Months.Set():
	case s.Parent != "":
		r.fault(s.At, "stream %s has the parent %s, so it cannot be read by months", s.Name, s.Parent)
	case s.Incremental != (schemas.Incremental{}):
		r.fault(s.At, "stream %s has both months and incremental; keep one, or set months: none", s.Name)
	}
}
