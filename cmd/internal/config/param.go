package config

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// params returns the parameters of a stream: its own, changed or extended by those in the file. The file has either
// a mapping {name: value} or {name: {in, from, value}}, or a list of {name, in, from, value} as the catalogue has.
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

// param reads {in, from, value}, and also the name unless p has it.
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

// defaultIn returns where a parameter is sent if the file does not say so.
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

// checkStreams reports errors that concern a whole stream, or several. The map indexes has the index of each stream by
// its name.
func (r *reader) checkStreams(streams []Stream, indexes map[string]int) {
	tables := map[string]string{}
	for _, s := range streams {
		if s.Class.Readable() && s.Table.Name != "" {
			table := strings.ToLower(s.Table.Name)
			if other, taken := tables[table]; taken && s.At != (Pos{}) {
				r.fault(s.At, "stream %s would share the table %s with %s", s.Name, s.Table.Name, other)
			}
			tables[table] = s.Name
		}
		if s.At != (Pos{}) && s.Path != "" {
			r.checkRoute(s)
			r.checkParent(s, streams, indexes)
			r.checkMonths(s)
		}
	}
}

// checkRoute rejects a stream that would request an endpoint which the catalogue classes as a write, whatever the
// stream's name. // Invariant 9
func (r *reader) checkRoute(s Stream) {
	for _, c := range r.Catalogue {
		if !c.Class.Readable() && strings.EqualFold(c.Method, s.Method) && sameRoute(c.Path, s.Path) {
			r.fault(s.At, "stream %s would call %s %s, a %s endpoint", s.Name, c.Method, c.Path, c.Class)
			return
		}
	}
	for _, m := range placeholder.FindAllStringSubmatch(s.Path, -1) {
		if !slices.ContainsFunc(s.Params, func(p schemas.Param) bool { return p.In == "path" && p.Name == m[1] }) {
			r.fault(s.At, "stream %s has no parameter for {%s} in its path", s.Name, m[1])
		}
	}
}

// sameRoute reports whether two paths can be the same request. A segment with a parameter, such as {id}, equals
// every segment.
func sameRoute(x, b string) bool {
	as, bs := strings.Split(strings.Trim(x, "/"), "/"), strings.Split(strings.Trim(b, "/"), "/")
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if !strings.Contains(as[i], "{") && !strings.Contains(bs[i], "{") && !strings.EqualFold(as[i], bs[i]) {
			return false
		}
	}
	return true
}

// checkParent reports a parent that does not exist, and streams that are their own ancestors.
func (r *reader) checkParent(s Stream, streams []Stream, indexes map[string]int) {
	if s.Parent == "" {
		if slices.ContainsFunc(s.Params, func(p schemas.Param) bool { return p.From != "" }) {
			r.fault(s.At, "stream %s takes parameters from a parent but has no parent", s.Name)
		}
		return
	}
	up := s.Name
	for range streams {
		i, ok := indexes[up]
		if !ok || !streams[i].Class.Readable() {
			r.fault(s.At, "stream %s: no stream %q to be its parent%s", s.Name, up, didYouMean(up, readable(streams)))
			return
		}
		if up = streams[i].Parent; up == "" {
			return
		}
	}
	r.fault(s.At, "stream %s is its own ancestor", s.Name)
}

func readable(all []Stream) []string {
	var ns []string
	for _, s := range all {
		if s.Class.Readable() {
			ns = append(ns, s.Name)
		}
	}
	return ns
}
