package extract

import (
	"net/url"
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// signalReader gives each scalar beside the records its role.
type signalReader struct {
	words *schemas.Vocabulary
	d     *doc
	n     int // records at hand
	s     *signals
	skip  map[int]bool // where the records and the objects around them begin
}

// maxBeside is how deep objects beside the records are looked into.
const maxBeside = 5

// scope says how the members of an object are to be read.
type scope struct {
	name    string // of the object
	trusted bool   // it speaks of pages: words mean what they usually do
	top     bool   // it is on the way to the records
	total   bool   // it is a total by itself: {"value": 87, "relation": "eq"}
	next    bool   // it is the next page: {"href": …}, {"cursor": …}
	ignored bool   // only what it says of faults counts
	depth   int
}

// object reads the members of one object.
func (r *signalReader) object(v value, pointer string, in scope) {
	sized, unknown := false, false
	var rest url.Values
	said, token, unread := r.s.tokened, r.s.token, len(r.s.unread)
	for raw, m := range r.d.members(v) {
		name := unquote(raw)
		below := pointer + "/" + escape(name)
		switch {
		case m.node < 0:
			word := schemas.FoldName(name)
			sized = sized || word == "totalpages" || word == "totalelements" || word == "numberofelements"
			if in.next && !r.d.void(m) {
				if rest == nil {
					rest = url.Values{}
				}
				rest.Set(name, r.plain(m))
				unknown = unknown || r.words.Role(name) == "" && r.d.kind(m) == '"'
			}
			r.scalar(name, m, below, in)
		case r.skip[m.start]:
		case r.d.isList(m):
			r.list(name, m, below, in)
		default:
			r.inner(name, m, below, in)
		}
	}
	if in.total && slices.Contains([]string{"gte", "gt", "atleast", "lowerbound"}, schemas.FoldName(r.d.text(r.d.get(v, "relation")))) {
		r.s.total, r.s.bound = -1, pointer+": at least "+short(r.plain(r.first(v, "value", "count", "total")))
	}
	if in.next && r.s.next == nil && len(rest) > 0 && (unknown || r.s.token == "") { // {"continue": {"apcontinue": …}}
		r.s.linked, r.s.next, r.s.tokened, r.s.token, r.s.unread = true, rest, said, token, r.s.unread[:unread]
	}
	if sized { // elsewhere, these words could mean anything
		r.number(r.d.get(v, "number"), &r.s.page)
		r.number(r.d.get(v, "size"), &r.s.limit)
		if r.d.get(v, "size").ok() {
			r.s.sizeName = named{in: in.name, name: "size"}
		}
	}
}

// inner reads an object beside the records.
func (r *signalReader) inner(name string, v value, pointer string, in scope) {
	role := r.words.Role(name)
	next := role == schemas.RoleNext && !r.words.Ignored(name)
	switch {
	case in.depth >= maxBeside:
	case role == schemas.RoleFaults:
		if !r.d.void(v) && !r.harmless(v) {
			r.s.incomplete = append(r.s.incomplete, pointer+": "+short(string(r.d.raw(v))))
		}
	case role == schemas.RoleTotal:
		r.object(v, pointer, scope{name: name, trusted: true, total: true, depth: in.depth + 1})
	case role == schemas.RoleOther:
	case in.trusted && (next || r.words.Beside(name)):
		r.object(v, pointer, scope{name: name, trusted: true, next: next, depth: in.depth + 1})
	case r.d.get(v, "id").ok() && r.words.Ignored(name):
	default:
		r.object(v, pointer, scope{name: name, ignored: in.ignored || r.words.Ignored(name), depth: in.depth + 1})
	}
}

// harmless reports whether an object of faults says that there were none.
func (r *signalReader) harmless(v value) bool {
	for _, m := range r.d.members(v) {
		if i, err := r.d.integer(m); !r.d.void(m) && !r.d.isFalse(m) && (err != nil || i != 0) {
			return false
		}
	}
	return true
}

// list reads a list of links: [{"rel": "next", "href": …}]. Of another list only
// those of faults say anything.
func (r *signalReader) list(name string, v value, pointer string, in scope) {
	if r.words.Role(name) == schemas.RoleFaults {
		if !r.d.void(v) {
			r.s.incomplete = append(r.s.incomplete, pointer+": "+short(string(r.d.raw(v))))
		}
		return
	}
	for e := range r.d.elements(v) {
		if !r.d.isObject(e) {
			return
		}
		if r.words.Beside(name) && !r.first(e, "rel", "relation", "href", "url").ok() && in.depth < maxBeside {
			r.object(e, pointer+"/0", scope{name: name, trusted: true, depth: in.depth + 1})
			return
		}
		relation := r.d.text(r.first(e, "rel", "relation", "relType", "type", "name"))
		target := r.first(e, "href", "url", "uri", "link")
		switch {
		case relation == "" || !target.ok():
			return // no list of links
		case r.words.Role(relation) == schemas.RoleNext:
			r.link(r.d.text(target))
		default:
			r.s.linked = r.s.linked || slices.Contains(linkWords, schemas.FoldName(relation))
		}
	}
}

// linkWords are relations of a list that has pages: where one of them is given,
// a next link that is missing is the end.
var linkWords = []string{"prev", "previous", "first", "last"}

// scalar reads one member.
func (r *signalReader) scalar(name string, v value, pointer string, in scope) {
	role := r.words.Role(name)
	if !in.trusted {
		if t := r.plain(v); role == schemas.RoleNext && r.d.kind(v) == '"' && isLink(t) && !in.ignored {
			r.link(t) // the first probe tells whether it is of this list
			return
		}
		r.doubt(role, name, v, pointer, in)
		return
	}
	s, d := r.s, r.d
	at := named{in: in.name, name: name}
	if in.top {
		at.in = ""
	}
	switch role {
	case schemas.RoleTotal:
		r.total(v, pointer)
	case schemas.RoleCount:
		if i, err := d.integer(v); err == nil && s.total < 0 && i > int64(r.n) {
			s.total = i
		}
	case schemas.RolePages:
		r.number(v, &s.lastPage)
	case schemas.RolePage:
		r.named(v, &s.page, &s.pageName, at)
	case schemas.RoleOffset:
		r.named(v, &s.offset, &s.offsetName, at)
	case schemas.RoleSize:
		if i, err := d.integer(v); schemas.FoldName(name) == "size" && err == nil && i > int64(r.n) && !round(int(min(i, 1<<20))) {
			r.doubt("", name, v, pointer, in) // it may be the size of the whole list
			return
		}
		r.named(v, &s.limit, &s.sizeName, at)
	case schemas.RoleRemaining:
		r.number(v, &s.remaining)
	case schemas.RoleMore:
		r.more(v, pointer)
	case schemas.RoleLast:
		if _, err := d.integer(v); err != nil || schemas.FoldName(name) != "last" { // {"page": 0, "last": 1} numbers pages
			r.flag(v, no, yes)
		}
	case schemas.RoleNext:
		r.nextMember(name, v, at)
	case schemas.RoleToken:
		if d.kind(v) == '"' || in.next || !in.top {
			r.nextMember(name, v, at)
		} else if i, err := d.integer(v); err == nil && i > int64(r.n) {
			s.unread = append(s.unread, unread{pointer, r.plain(v), -1})
		}
	case schemas.RolePartial, schemas.RoleComplete, schemas.RoleState, schemas.RoleFaults:
		r.completeness(role, name, v, pointer)
	case schemas.RoleOther:
		if in.next && slices.Contains([]string{"href", "url", "uri", "link", "path"}, schemas.FoldName(name)) {
			r.link(d.text(v))
		}
	case schemas.RoleHere, schemas.RoleConstant:
	default:
		if in.total && slices.Contains([]string{"value", "count", "total"}, schemas.FoldName(name)) {
			r.number(v, &s.total)
			return
		}
		r.doubt(role, name, v, pointer, in)
	}
	if in.total && schemas.FoldName(name) == "value" {
		r.number(v, &s.total)
	}
	if schemas.FoldName(name) == "offset" && d.kind(v) == '"' && !digitsOnly(d.text(v)) { // {"records": […], "offset": "itrX/rec9"}
		r.nextMember(name, v, at)
	}
}

func (r *signalReader) first(v value, names ...string) value {
	for _, name := range names {
		if m := r.d.get(v, name); m.ok() {
			return m
		}
	}
	return missing
}

func (r *signalReader) plain(v value) string {
	if r.d.kind(v) == '"' {
		return r.d.text(v)
	}
	return string(r.d.raw(v))
}
