package paging

import (
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

func (r *signalReader) total(v jsondoc.Value, pointer string) {
	if _, err := r.d.Integer(v); err != nil && r.d.Kind(v) == '"' && strings.ContainsAny(r.d.Text(v), "0123456789") {
		r.s.addUnread(Unread{Pointer: pointer, Value: r.plain(v), Number: -1})
		return
	}
	r.number(v, &r.s.Total)
}

func (r *signalReader) more(v jsondoc.Value, pointer string) {
	before := r.s.More
	r.flag(v, Yes, No)
	t := r.plain(v)
	i, err := r.d.Integer(v)
	switch {
	case err == nil && i > 1:
		r.s.More = Yes
	case r.d.Kind(v) != '"' || t == "" || r.s.More != before || r.words.NoToken(t):
	case isLink(t):
		r.link(t)
	case parseFlag(t) == unstated:
		r.s.addUnread(Unread{Pointer: pointer, Value: t, Number: -1})
	}
}

func (r *signalReader) flag(v jsondoc.Value, ifTrue, ifFalse tristate) {
	switch parseFlag(r.plain(v)) {
	case Yes:
		r.s.More = ifTrue
	case No:
		r.s.More = ifFalse
	}
}

func (r *signalReader) completeness(role schemas.Role, name string, v jsondoc.Value, pointer string) {
	raw := strings.ToLower(strings.Trim(string(r.d.Raw(v)), `"`))
	number, err := strconv.ParseInt(raw, 10, 64)
	incomplete := false
	switch role {
	case schemas.RolePartial:
		incomplete = raw == "true" || raw == "yes" || err == nil && number > 0
	case schemas.RoleComplete:
		incomplete = raw == "false" || raw == "no"
	case schemas.RoleState:
		incomplete = r.d.Kind(v) == '"' && r.words.States.Has(raw)
	case schemas.RoleFaults:
		incomplete = r.d.Kind(v) == '"' && raw != "" && err != nil || raw == "true" || err == nil && number > 0
	}
	if incomplete {
		r.s.addIncomplete(pointer + ": " + Short(r.plain(v)))
	}
}

func (r *signalReader) number(v jsondoc.Value, to *int64) {
	if i, err := r.d.Integer(v); err == nil && i >= 0 {
		*to = i
	}
}

func (r *signalReader) named(v jsondoc.Value, to *int64, name *named, at named) {
	if i, err := r.d.Integer(v); err == nil && i >= 0 {
		*to, *name = i, at
	}
}

func parseFlag(text string) tristate {
	switch strings.ToLower(text) {
	case "true", "1", "yes", "y":
		return Yes
	case "false", "0", "no", "n":
		return No
	}
	return unstated
}

type signalReader struct {
	words *schemas.Vocabulary
	d     *jsondoc.Doc
	n     int // number of records in the answer
	s     *Signals
	skip  map[int]bool // offsets of the records and of the objects around them

	entries jsondoc.Value // an object whose members hold the records

	doubted int // number of examined members without a role
}

const maxBeside = 5

type scope struct {
	name    string
	trusted bool // the object is about paging, so its names have the usual meaning
	top     bool // the records are in this object, at any depth
	total   bool // the object holds a total: {"value": 87, "relation": "eq"}
	next    bool // the object describes the next page: {"href": …}, {"cursor": …}
	ignored bool // the object is ignored, except statements that records are missing
	depth   int
}

func (r *signalReader) first(v jsondoc.Value, names ...string) jsondoc.Value {
	for _, name := range names {
		if m := r.d.Get(v, name); m.OK() {
			return m
		}
	}
	return jsondoc.Missing
}

func (r *signalReader) plain(v jsondoc.Value) string {
	if r.d.Kind(v) == '"' {
		return r.d.Text(v)
	}
	return string(r.d.Raw(v))
}

func epochLike(n int64) bool { return n >= 1_000_000_000 }
