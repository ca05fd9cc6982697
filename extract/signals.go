package extract

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// signals are what an answer says about the pages of its list. Numbers are -1
// and texts empty where it says nothing.
type signals struct {
	total     int64 // records in all
	lastPage  int64
	page      int64 // which page this is, as the server sees it
	offset    int64
	limit     int64 // records to a page, as the server sees it
	remaining int64 // records after this page

	more    tristate
	linked  bool // there is a member for the next link, maybe null
	next    url.Values
	opaque  bool // there is a next link, and nothing in it that a request could take over
	tokened bool // there is a member for the next token, maybe null
	token   string
	ranged  bool // the token is the value of a Range header

	bound     string // a total that is only a lower bound; "" for none
	rangeUnit string // of Content-Range or Accept-Ranges, where records are counted in it

	tokenName, pageName, offsetName, sizeName named // as the answer calls them

	unread     []unread // signals that nothing explains
	incomplete []string // statements that the answer is not whole
}

// noSignals are those of an answer that says nothing.
var noSignals = signals{total: -1, lastPage: -1, page: -1, offset: -1, limit: -1, remaining: -1}

// named is a member's name and that of the object it is in, "" at the top.
type named struct{ in, name string }

// unread is a signal that may speak of more records and that has no role.
type unread struct {
	pointer string
	value   string
	number  int64 // -1 for a text
}

// String is the signal as a certificate names it: "/meta/rest: 63".
func (u unread) String() string { return u.pointer + ": " + short(u.value) }

type tristate int8

const (
	unsaid tristate = iota
	yes
	no
)

// signalsOf reads what is above and beside the records, and the header.
func signalsOf(a *answer, f found, n int) signals {
	s := noSignals
	r := signalReader{words: schemas.Paging(), d: a.d, n: n, s: &s, skip: map[int]bool{}}
	for _, v := range f.above {
		r.skip[v.start] = true
	}
	for _, p := range f.places {
		r.skip[p.value.start] = true
		r.skip[p.in.object.start] = r.skip[p.in.object.start] || p.in.object.ok()
	}
	tokens := strings.Split(f.pointer, "/")
	for i, v := range f.above {
		r.object(v, strings.Join(tokens[:i+1], "/"), scope{trusted: true, name: lastName(tokens[:i+1]), top: true})
	}
	if a.resp != nil {
		r.header(a.resp.Header)
		if a.resp.Status == statusPartial && !s.ranged && a.resp.Header.Get("Content-Range") == "" {
			s.incomplete = append(s.incomplete, "status 206")
		}
	}
	s.settle()
	return s
}

const statusPartial = 206

func lastName(tokens []string) string { return unescape(tokens[len(tokens)-1]) }

// settle weighs what one signal says of another.
func (s *signals) settle() {
	if s.remaining > 0 && s.more == unsaid {
		s.more = yes
	}
}

// doubts are the unread signals that speak of more than rows records.
func (s *signals) doubts(rows int64) []unread {
	return slices.DeleteFunc(slices.Clone(s.unread), func(u unread) bool { return u.number >= 0 && u.number <= rows })
}

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

// maxBeside is how deep objects beside the records are looked into.
const maxBeside = 5

// signalReader gives each scalar beside the records its role.
type signalReader struct {
	words *schemas.Vocabulary
	d     *doc
	n     int // records at hand
	s     *signals
	skip  map[int]bool // where the records and the objects around them begin
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

func (r *signalReader) first(v value, names ...string) value {
	for _, name := range names {
		if m := r.d.get(v, name); m.ok() {
			return m
		}
	}
	return missing
}

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

func digitsOnly(t string) bool { return strings.Trim(t, "0123456789") == "" }

// total reads a total. One that is no number may be larger than it seems.
func (r *signalReader) total(v value, pointer string) {
	if _, err := r.d.integer(v); err != nil && r.d.kind(v) == '"' && strings.ContainsAny(r.d.text(v), "0123456789") {
		r.s.unread = append(r.s.unread, unread{pointer, r.plain(v), -1})
		return
	}
	r.number(v, &r.s.total)
}

// completeness reads what the answer says of its own completeness.
func (r *signalReader) completeness(role schemas.Role, name string, v value, pointer string) {
	raw := strings.ToLower(strings.Trim(string(r.d.raw(v)), `"`))
	number, err := strconv.ParseInt(raw, 10, 64)
	said := false
	switch role {
	case schemas.RolePartial:
		said = raw == "true" || raw == "yes" || err == nil && number > 0
	case schemas.RoleComplete:
		said = raw == "false" || raw == "no"
	case schemas.RoleState:
		said = r.d.kind(v) == '"' && r.words.Incomplete(raw)
	case schemas.RoleFaults:
		said = r.d.kind(v) == '"' && raw != "" && err != nil || raw == "true" || err == nil && number > 0
	}
	if said {
		r.s.incomplete = append(r.s.incomplete, pointer+": "+short(r.plain(v)))
	}
}

// doubt keeps a member that has no role, or none that is sure where it is, if it
// can speak of more records.
func (r *signalReader) doubt(role schemas.Role, name string, v value, pointer string, in scope) {
	switch role {
	case schemas.RolePartial, schemas.RoleComplete, schemas.RoleState, schemas.RoleFaults:
		r.completeness(role, name, v, pointer)
		return
	case schemas.RoleTotal, schemas.RoleMore, schemas.RoleRemaining, schemas.RoleNext, "":
		if in.ignored {
			return
		}
	case schemas.RolePages:
		if i, err := r.d.integer(v); err == nil && i > 1 && !in.ignored {
			r.s.unread = append(r.s.unread, unread{pointer, r.plain(v), -1})
		}
		return
	case schemas.RoleToken:
		if !in.trusted && !in.ignored && r.d.kind(v) == '"' && !r.d.void(v) && !noToken(r.d.text(v)) {
			r.s.unread = append(r.s.unread, unread{pointer, r.plain(v), -1})
		}
		return
	default:
		return
	}
	number := int64(-1)
	if i, err := r.d.integer(v); err == nil && r.d.kind(v) != '"' {
		number = i
	}
	switch raw := string(r.d.raw(v)); {
	case number >= 0:
		if continues(name) && number > 0 && !idLike(name) {
			number = -1 // it may be the number of a page
		} else if number <= int64(r.n) || idLike(name) || epochLike(number) {
			return
		}
	case role == schemas.RoleMore:
		if raw != "true" {
			return
		}
	case role != schemas.RoleNext && !continues(name), r.d.void(v), raw == "false", raw == "true" && role != schemas.RoleMore:
		return
	}
	r.s.unread = append(r.s.unread, unread{pointer, r.plain(v), number})
}

// continues reports whether a name that nobody knows speaks of continuation.
func continues(name string) bool {
	word := schemas.FoldName(name)
	if strings.Contains(word, "prev") || strings.HasPrefix(word, "sync") || strings.Contains(word, "auth") || strings.Contains(word, "csrf") {
		return false
	}
	for _, part := range []string{"next", "more", "continu", "cursor", "marker", "pagetoken", "scroll", "remaining", "following", "resume"} {
		if strings.Contains(word, part) {
			return true
		}
	}
	return false
}

// idLike reports whether a number under this name says who something is, when it
// was, or what it is worth.
func idLike(name string) bool {
	parts := strings.FieldsFunc(camel.ReplaceAllString(name, "${1}_${2}"), func(c rune) bool { return c == '_' || c == '-' || c == '.' || c == ' ' })
	return len(parts) > 0 && slices.Contains(idWords, strings.ToLower(parts[len(parts)-1])) ||
		slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(worthWords, strings.ToLower(p)) })
}

var (
	camel      = regexp.MustCompile("([a-z0-9])([A-Z])")
	idWords    = []string{"id", "at", "time", "date", "ms", "version", "bytes", "seconds", "code", "year", "timestamp", "millis", "duration"}
	worthWords = []string{"amount", "value", "price", "sum", "revenue", "balance", "turnover", "cost", "profit"}
)

// epochLike reports whether a number is a moment after 2001, in seconds or parts
// of them.
func epochLike(n int64) bool { return n >= 1_000_000_000 }

func (r *signalReader) plain(v value) string {
	if r.d.kind(v) == '"' {
		return r.d.text(v)
	}
	return string(r.d.raw(v))
}

// nextMember reads a member for the next page, which is a link, a token, the
// number of the next page, or only the statement that there is one.
func (r *signalReader) nextMember(name string, v value, at named) {
	switch r.d.kind(v) {
	case 't':
		r.s.more = yes
		return
	case 'f':
		if r.s.more == unsaid {
			r.s.more = no
		}
	}
	t := r.plain(v)
	if isLink(t) {
		r.link(t)
		return
	}
	if r.d.kind(v) == 'n' || noToken(t) {
		t = ""
	}
	if strings.Contains(schemas.FoldName(name), "url") || strings.Contains(schemas.FoldName(name), "link") || strings.Contains(schemas.FoldName(name), "uri") || strings.Contains(schemas.FoldName(name), "href") {
		r.link(t)
		return
	}
	r.take(t, at)
}

// take keeps a token. A second one does not replace the first.
func (r *signalReader) take(t string, at named) {
	s := r.s
	if s.tokened && (s.token != "" || t == "") {
		return
	}
	s.tokened, s.token, s.tokenName = true, t, at
}

// noToken reports whether a value in the place of a token says that there is no
// next page.
func noToken(t string) bool {
	switch strings.ToLower(t) {
	case "", "0", "false", "null", "none", "-1":
		return true
	}
	return false
}

// isLink reports whether a text is a URL, a path with a query, or a query: it is
// followed, never sent as a token.
func isLink(t string) bool {
	if strings.Contains(t, "://") || strings.HasPrefix(t, "/") && !strings.ContainsAny(t, " ") && (strings.Contains(t, "?") || strings.Count(t, "/") > 1) || strings.HasPrefix(t, "?") {
		return true
	}
	name, rest, ok := strings.Cut(t, "?")
	if ok && !strings.ContainsAny(name, " ") && strings.Contains(rest, "=") {
		return true
	}
	name, value, ok := strings.Cut(t, "=")
	if !ok || value == "" || strings.ContainsAny(t, " \t{") {
		return false
	}
	words := schemas.Paging()
	return slices.ContainsFunc([]string{schemas.ParamPage, schemas.ParamOffset, schemas.ParamToken, schemas.ParamSince, schemas.ParamSize}, func(f string) bool { return words.Parameter(f, name) })
}

func (r *signalReader) number(v value, to *int64) {
	if i, err := r.d.integer(v); err == nil && i >= 0 {
		*to = i
	}
}

func (r *signalReader) named(v value, to *int64, name *named, at named) {
	if i, err := r.d.integer(v); err == nil && i >= 0 {
		*to, *name = i, at
	}
}

// flag reads a yes or no; last may as well be a link.
func (r *signalReader) flag(v value, ifTrue, ifFalse tristate) {
	switch strings.ToLower(string(r.d.raw(v))) {
	case "true", "1", `"true"`, `"1"`, `"yes"`, `"y"`:
		r.s.more = ifTrue
	case "false", "0", `"false"`, `"0"`, `"no"`, `"n"`:
		r.s.more = ifFalse
	}
}

// more reads a member that says whether there is more: a flag, a number of records,
// or the link to them.
func (r *signalReader) more(v value, pointer string) {
	before := r.s.more
	r.flag(v, yes, no)
	t := r.plain(v)
	i, err := r.d.integer(v)
	switch {
	case err == nil && i > 1:
		r.s.more = yes
	case r.d.kind(v) != '"' || t == "" || r.s.more != before || noToken(t):
	case isLink(t):
		r.link(t)
	case !slices.Contains([]string{"true", "false", "yes", "no", "y", "n", "1"}, strings.ToLower(t)):
		r.s.unread = append(r.s.unread, unread{pointer, t, -1})
	}
}

// link keeps the query of a next link. Scheme, host and path are never looked
// at: behind a proxy they are often wrong, and they could be anyone's.
// Invariant 10
func (r *signalReader) link(t string) {
	s := r.s
	if s.next != nil {
		return
	}
	s.linked = true
	s.query(t)
	s.opaque = t != "" && s.next == nil
}

func (s *signals) query(link string) {
	_, q, ok := strings.Cut(link, "?")
	if !ok && !strings.Contains(link, "/") {
		q, ok = link, true
	}
	if !ok {
		return
	}
	q, _, _ = strings.Cut(q, "#")
	if values, err := url.ParseQuery(q); err == nil && len(values) > 0 {
		s.next = values
	}
}

// describe names the signal by which the answer says that there is more.
func (s *signals) describe() string {
	switch {
	case len(s.unread) > 0:
		return s.unread[0].String()
	case s.token != "":
		return fmt.Sprintf("%s: %s", s.tokenName.name, short(s.token))
	case s.next != nil || s.opaque:
		return "a next link"
	case s.total >= 0:
		return fmt.Sprintf("a total of %d", s.total)
	case s.lastPage > 1:
		return fmt.Sprintf("%d pages", s.lastPage)
	case s.more == yes:
		return "it says so"
	}
	return ""
}
