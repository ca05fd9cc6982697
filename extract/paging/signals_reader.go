package paging

import (
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

func (r *signalReader) object(v jsondoc.Value, pointer string, in scope) {
	before, numbered := *r.s, false
	for raw, m := range r.d.Members(v) {
		if m.Nested() && (r.skip[m.Start] || r.entries.OK() && v.Start == r.entries.Start) {
			continue
		}
		name := jsondoc.Unquote(raw)
		below := pointer + "/" + jsondoc.Escape(name)
		switch {
		case !m.Nested():
			numbered = numbered || r.words.PageCounts.Has(name)
			r.scalar(name, m, below, in)
		case r.d.IsList(m):
			r.list(name, m, below, in)
		default:
			r.inner(name, m, below, in)
		}
	}
	if in.total {
		r.lowerBound(v, pointer)
	}
	if in.next {
		r.parameters(v, before)
	}
	if numbered { // elsewhere, these names have other meanings
		r.number(r.d.Get(v, "number"), &r.s.Page)
		r.number(r.d.Get(v, "size"), &r.s.Limit)
		if r.d.Get(v, "size").OK() {
			r.s.sizeName = named{in: in.name, name: "size"}
		}
	}
}

// lowerBound reads the relation beside a total. With the relation gte, the total is only a lower bound:
//
//	{"value": 10000, "relation": "gte"}
func (r *signalReader) lowerBound(v jsondoc.Value, pointer string) {
	if r.words.Totals.LowerBounds.Has(r.d.Text(r.d.Get(v, "relation"))) {
		r.s.Total, r.s.Bound = -1, pointer+": at least "+Short(r.plain(r.first(v, r.words.Totals.Members...)))
	}
}

// parameters reads an object whose members are the parameters of the next page, such as {"continue": {"apcontinue":
// …}}. Such members are neither tokens nor unread signals.
func (r *signalReader) parameters(v jsondoc.Value, before Signals) {
	params, unknown := url.Values{}, false
	for raw, m := range r.d.Members(v) {
		if name := jsondoc.Unquote(raw); !m.Nested() && !r.d.IsEmpty(m) {
			params.Set(name, r.plain(m))
			unknown = unknown || r.words.Role(name) == "" && r.d.Kind(m) == '"'
		}
	}
	if r.s.Next == nil && len(params) > 0 && (unknown || r.s.Token == "") {
		r.s.Linked, r.s.Next = true, params
		r.s.Tokened, r.s.Token, r.s.Unread = before.Tokened, before.Token, before.Unread
	}
}

func (r *signalReader) inner(name string, v jsondoc.Value, pointer string, in scope) {
	role := r.words.Role(name)
	next := role == schemas.RoleNext && !r.words.Ignored.Has(name)
	switch {
	case in.depth >= maxBeside:
	case role == schemas.RoleFaults:
		if !r.d.IsEmpty(v) && !r.harmless(v) {
			r.s.addIncomplete(pointer + ": " + Short(string(r.d.Raw(v))))
		}
	case role == schemas.RoleTotal:
		r.object(v, pointer, scope{name: name, trusted: true, total: true, depth: in.depth + 1})
	case role == schemas.RoleOther:
	case in.trusted && (next || r.words.Beside.Has(name)):
		r.object(v, pointer, scope{name: name, trusted: true, next: next, depth: in.depth + 1})
	case r.d.Get(v, "id").OK() && r.words.Ignored.Has(name):
	default:
		r.object(v, pointer, scope{name: name, ignored: in.ignored || r.words.Ignored.Has(name), depth: in.depth + 1})
	}
}

func (r *signalReader) harmless(v jsondoc.Value) bool {
	for _, m := range r.d.Members(v) {
		if i, err := r.d.Integer(m); !r.d.IsEmpty(m) && !r.d.IsFalse(m) && (err != nil || i != 0) {
			return false
		}
	}
	return true
}

// list reads an array beside the records: an array of links like [{"rel": "next", "href": …}], an array of faults, or
// the first object of an array about paging. It ignores other arrays.
func (r *signalReader) list(name string, v jsondoc.Value, pointer string, in scope) {
	if r.words.Role(name) == schemas.RoleFaults {
		if !r.d.IsEmpty(v) {
			r.s.addIncomplete(pointer + ": " + Short(string(r.d.Raw(v))))
		}
		return
	}
	for e := range r.d.Elements(v) {
		if !r.d.IsObject(e) {
			return
		}
		if r.words.Beside.Has(name) && !r.first(e, r.words.Links.Marks...).OK() && in.depth < maxBeside {
			r.object(e, pointer+"/0", scope{name: name, trusted: true, depth: in.depth + 1})
			return
		}
		relation := r.d.Text(r.first(e, r.words.Links.Relation...))
		target := r.first(e, r.words.Links.Target...)
		switch {
		case relation == "" || !target.OK():
			return
		case r.words.Role(relation) == schemas.RoleNext:
			r.link(r.d.Text(target))
		default:
			r.s.Linked = r.s.Linked || r.words.Relations.Has(relation)
		}
	}
}

func (r *signalReader) scalar(name string, v jsondoc.Value, pointer string, in scope) {
	role := r.words.Role(name)
	if !in.trusted {
		r.untrusted(role, name, v, pointer, in)
		return
	}
	at := named{in: in.name, name: name}
	if in.top {
		at.in = ""
	}
	switch role {
	case schemas.RoleTotal, schemas.RoleCount, schemas.RolePages, schemas.RolePage, schemas.RoleOffset, schemas.RoleSize, schemas.RoleRemaining:
		r.count(role, v, pointer, at, in)
	case schemas.RoleMore:
		r.more(v, pointer)
	case schemas.RoleLast:
		if _, err := r.d.Integer(v); err != nil || schemas.FoldName(name) != "last" { // in {"page": 0, "last": 1}, the last page is 1
			r.flag(v, No, Yes)
		}
	case schemas.RoleNext:
		r.nextMember(name, v, at)
	case schemas.RoleToken:
		if r.d.Kind(v) == '"' || in.next || !in.top {
			r.nextMember(name, v, at)
		} else if i, err := r.d.Integer(v); err == nil && i > int64(r.n) && !epochLike(i) {
			r.s.addUnread(Unread{Pointer: pointer, Value: r.plain(v), Number: -1})
		}
	case schemas.RolePartial, schemas.RoleComplete, schemas.RoleState, schemas.RoleFaults:
		r.completeness(role, name, v, pointer)
	case schemas.RoleOther:
		if in.next && r.words.Addresses.Members.Has(name) {
			r.link(r.d.Text(v))
		}
	case schemas.RoleConstant:
		if in.total && schemas.FoldName(name) == "value" { // {"total": {"value": 87}}
			r.number(v, &r.s.Total)
		}
	case schemas.RoleHere:
	default:
		r.doubt(role, name, v, pointer, in)
	}
}

func (r *signalReader) untrusted(role schemas.Role, name string, v jsondoc.Value, pointer string, in scope) {
	if t := r.plain(v); role == schemas.RoleNext && r.d.Kind(v) == '"' && isLink(t) && !in.ignored {
		r.link(t) // the first probe shows whether the link belongs to this list
		return
	}
	r.doubt(role, name, v, pointer, in)
}

func (r *signalReader) count(role schemas.Role, v jsondoc.Value, pointer string, at named, in scope) {
	s, d := r.s, r.d
	switch role {
	case schemas.RoleTotal:
		r.total(v, pointer)
	case schemas.RoleCount:
		if i, err := d.Integer(v); err == nil && s.Total < 0 && i > int64(r.n) {
			s.Total = i
		}
	case schemas.RolePages:
		if k := d.Kind(v); k == 't' || k == 'f' {
			r.flag(v, No, Yes) // {"lastPage": true}
		}
		r.number(v, &s.LastPage)
	case schemas.RolePage:
		r.named(v, &s.Page, &s.pageName, at)
	case schemas.RoleOffset:
		r.named(v, &s.offset, &s.offsetName, at)
		if schemas.FoldName(at.name) == "offset" && d.Kind(v) == '"' && !jsondoc.DigitsOnly(d.Text(v)) { // {"records": […], "offset": "itrX/rec9"}
			r.nextMember(at.name, v, at)
		}
	case schemas.RoleSize:
		if i, err := d.Integer(v); schemas.FoldName(at.name) == "size" && err == nil && i > int64(r.n) && !Round(int(min(i, 1<<20))) {
			r.doubt("", at.name, v, pointer, in) // size may be the number of all records
			return
		}
		r.named(v, &s.Limit, &s.sizeName, at)
	case schemas.RoleRemaining:
		r.number(v, &s.Remaining)
	}
}

// ReadSignals reads what an answer states beside its n records.
func ReadSignals(d *jsondoc.Doc, f records.Found, n int, h http.Header, status int) Signals {
	s := NoSignals
	s.records = n
	r := signalReader{words: schemas.Paging(), d: d, n: n, s: &s, skip: map[int]bool{}}
	for _, v := range f.Above {
		r.skip[v.Start] = true
	}
	for _, p := range f.Places {
		if p.Form == records.FormEntries {
			r.entries = p.Value
			continue
		}
		r.skip[p.Value.Start] = true
		r.skip[p.In.Object.Start] = r.skip[p.In.Object.Start] || p.In.Object.OK()
	}
	tokens := strings.Split(f.Pointer, "/")
	for i, v := range f.Above {
		r.object(v, strings.Join(tokens[:i+1], "/"), scope{trusted: true, name: lastName(tokens[:i+1]), top: true})
	}
	r.header(h)
	if status == http.StatusPartialContent && !s.ranged && h.Get("Content-Range") == "" {
		s.addIncomplete("status 206")
	}
	s.settle()
	return s
}

func lastName(tokens []string) string { return jsondoc.Unescape(tokens[len(tokens)-1]) }

// settle derives signals from other signals. If there were too many unread signals and some were dropped, settle adds
// one signal in their place. Its value is a number that is larger than any number of records. A text would not work,
// because a text that is the same on every page is ignored.
func (s *Signals) settle() {
	if s.Remaining > 0 && s.More == unstated {
		s.More = Yes
	}
	if s.skipped {
		s.Unread = append(s.Unread, Unread{Pointer: "beside the records", Value: "not all read", Number: math.MaxInt64})
	}
}
