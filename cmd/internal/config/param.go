package config

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/schemas"
)

// params reads a mapping of names to constants or to {in, from, value}, or the catalogue's list of {name, in,
// from, value}. Other parameters of the stream are unchanged.
func (r *reader) params(n ast.Node, s *Stream, what string) []schemas.Param {
	what += " params"
	all := slices.Clone(s.Params)
	if n == nil {
		return all
	}
	set := func(p schemas.Param, at Pos) {
		if (p.From == "") == (p.Value == "") {
			r.fault(at, "%s %s: want either from or value", what, p.Name)
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
	if _, list := r.resolve(n).(*ast.SequenceNode); list {
		for _, v := range r.list(n, what) {
			if p, ok := r.param(v, schemas.Param{}, what); ok {
				set(p, posOf(v))
			}
		}
		return all
	}
	es, _ := r.entries(n, what)
	for _, e := range es {
		if p, ok := r.param(e.value, schemas.Param{Name: e.key}, what); ok {
			set(p, e.at)
		}
	}
	return all
}

func (r *reader) param(n ast.Node, p schemas.Param, what string) (schemas.Param, bool) {
	if _, block := r.resolve(n).(ast.MapNode); !block {
		v, ok := r.text(n, what+" "+p.Name)
		p.Value = v.value
		if p.Name == "" && ok {
			r.wrong(n, what, "{name, in, from, value}")
			return p, false
		}
		return p, ok
	}
	word := func(to *string, key string) func(ast.Node) {
		return func(n ast.Node) {
			if v, ok := r.text(n, what+" "+key); ok {
				*to = v.value
			}
		}
	}
	f := fields{
		"in":    func(n ast.Node) { p.In = r.choice(n, what+" in", "path", "query", "body") },
		"from":  func(n ast.Node) { p.From = strings.Join(r.pointers(n, what+" from"), "") },
		"value": word(&p.Value, "value"),
	}
	if p.Name == "" {
		f["name"] = word(&p.Name, "name")
	}
	ok := r.mapping(n, what, f)
	if ok && p.Name == "" {
		r.fault(posOf(n), "%s: a parameter has no name", what)
	}
	return p, ok && p.Name != ""
}

func defaultIn(name string, s *Stream) string {
	switch {
	case strings.Contains(s.Path, "{"+name+"}"):
		return "path"
	case s.Method == "POST":
		return "body"
	}
	return "query"
}

func (r *reader) body(n ast.Node, what string) []schemas.Param {
	if n == nil {
		return nil
	}
	what += " body"
	var all []schemas.Param
	es, _ := r.entries(n, what)
	for _, e := range es {
		if s, ok := r.text(e.value, what+" "+e.key); ok {
			all = append(all, schemas.Param{Name: e.key, In: "body", Value: s.value})
		}
	}
	return all
}

func (r *reader) checkStreams(all []Stream, at map[string]int) {
	tables := map[string]string{}
	for _, s := range all {
		if s.Class.Readable() && s.Table.Name != "" {
			table := strings.ToLower(s.Table.Name)
			if other, taken := tables[table]; taken && s.At != (Pos{}) {
				r.fault(s.At, "stream %s would share the table %s with %s", s.Name, s.Table.Name, other)
			}
			tables[table] = s.Name
		}
		if s.At != (Pos{}) && s.Path != "" {
			r.checkRoute(s)
			r.checkParent(s, all, at)
			r.checkMonths(s)
		}
	}
}

// checkRoute rejects endpoints that the catalogue classes as writes, under any name and with any parameters.
// Invariant 9
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

func sameRoute(a, b string) bool {
	as, bs := strings.Split(strings.Trim(a, "/"), "/"), strings.Split(strings.Trim(b, "/"), "/")
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

// checkParent reports a parent that is unknown or part of a cycle.
func (r *reader) checkParent(s Stream, all []Stream, at map[string]int) {
	if s.Parent == "" {
		if slices.ContainsFunc(s.Params, func(p schemas.Param) bool { return p.From != "" }) {
			r.fault(s.At, "stream %s takes parameters from a parent but has no parent", s.Name)
		}
		return
	}
	up := s.Name
	for range all {
		i, ok := at[up]
		if !ok || !all[i].Class.Readable() {
			r.fault(s.At, "stream %s has no stream %q for a parent%s", s.Name, up, didYouMean(up, readable(all)))
			return
		}
		if up = all[i].Parent; up == "" {
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
