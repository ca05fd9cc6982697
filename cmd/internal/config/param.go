package config

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// params returns the parameters of a stream. The result has the parameters of the catalogue, with the changes and
// additions of the file. The file has either a mapping {name: value} or {name: {in, from, value}}, or a list of {name,
// in, from, value}, as in the catalogue.
func params(v value, s *Stream) []schemas.Param {
	all := slices.Clone(s.Params)
	if !v.given() {
		return all
	}
	set := func(p schemas.Param, at Pos) {
		if (p.From == "") == (p.Value == "") {
			v.fault(at, "%s %s: want either from or value", v.what, p.Name)
		}
		i := slices.IndexFunc(all, func(o schemas.Param) bool { return o.Name == p.Name })
		if i < 0 {
			all = append(all, p)
			i = len(all) - 1
			all[i].In = defaultIn(p.Name, s)
		}
		if p.In == "" {
			p.In = all[i].In
		}
		all[i] = p
	}
	if v.isList() {
		for _, item := range v.list() {
			if p, ok := param(item, schemas.Param{}); ok {
				set(p, item.pos())
			}
		}
		return all
	}
	es, _ := v.entries()
	for _, e := range es {
		if !e.isMapping() {
			if of, ok := e.text(); ok {
				set(schemas.Param{Name: e.key, Value: of.value}, e.at)
			}
		} else if p, ok := param(e.as(v.what), schemas.Param{Name: e.key}); ok {
			set(p, e.at)
		}
	}
	return all
}

// param reads {in, from, value}. If p has no name, it also reads the name.
func param(v value, p schemas.Param) (schemas.Param, bool) {
	if !v.isMapping() {
		if _, ok := v.text(); ok {
			v.wrong("{name, in, from, value}")
		}
		return p, false
	}
	f := fields{
		"in":    choice(&p.In, "path", "query", "body"),
		"from":  func(v value) { p.From = strings.Join(pointers(v), "") },
		"value": text(&p.Value),
	}
	if p.Name == "" {
		f["name"] = text(&p.Name)
	}
	ok := v.mapping(f)
	if ok && p.Name == "" {
		v.fault(v.pos(), "%s: a parameter has no name", v.what)
	}
	return p, ok && p.Name != ""
}

// defaultIn returns the part of a request in which a parameter is sent if the file does not set `in`.
func defaultIn(name string, s *Stream) string {
	switch {
	case strings.Contains(s.Path, "{"+name+"}"):
		return "path"
	case s.Method == "POST":
		return "body"
	}
	return "query"
}

func body(v value) []schemas.Param {
	if !v.given() {
		return nil
	}
	var all []schemas.Param
	es, _ := v.entries()
	for _, e := range es {
		if s, ok := e.text(); ok {
			all = append(all, schemas.Param{Name: e.key, In: "body", Value: s.value})
		}
	}
	return all
}
