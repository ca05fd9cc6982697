package extract

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/penstock-data/penstock/schemas"
)

// pagerCandidate is a parameter by which a list may go on, with the value that would
// bring its second page.
type pagerCandidate struct {
	typ   string // as [schemas.Pagination] calls it
	at    position
	field string // of the last record, whose value it is; "" where it is not

	moment bool // it is a time, which several records may share
}

// groups are the candidates in the order of what speaks for them. Those of one
// group are first tried together, if they are many.
func (p *pagerProbe) groups() [][]pagerCandidate {
	s, hint := p.first.signals, p.l.pager.hint
	var all [][]pagerCandidate
	add := func(g ...pagerCandidate) {
		for _, c := range g {
			all = append(all, []pagerCandidate{c})
		}
	}
	if c, ok := p.hinted(); ok {
		add(c)
	}
	switch {
	case s.token != "" && s.ranged:
		add(pagerCandidate{typ: "range", at: position{kind: pagerRange, at: s.token}})
	case s.rangeUnit != "":
		add(pagerCandidate{typ: "range", at: rangeAt(s.rangeUnit, int64(p.first.batch.n), int64(p.first.batch.n))})
	case s.token != "":
		first := p.tokens(p.l.pager.tokenParams(s))
		add(first...)
		if digitsOnly(s.token) { // the number of a page, or of a record
			page, offset := p.numbered("page"), p.numbered("offset")
			all = append(all, p.without(page[:min(len(page), 10)], first), p.without(offset[:min(len(offset), 8)], first))
		}
		all = append(all, p.without(p.tokens(schemas.Paging().Parameters(schemas.ParamToken)), first))
	case s.next != nil:
		add(p.inLink()...)
	}
	page, offset, since := p.numbered("page"), p.numbered("offset"), p.since()
	if p.refuses { // each costs a request: the usual ones of all kinds first
		k, m := min(6, len(offset)), min(8, len(since))
		return append(append(all, page[:1], offset[:1], offset[1:k], page[1:6], since[:m], page[6:10], since[m:], offset[k:], page[10:]), p.fromRecords()...)
	}
	switch {
	case hint.Type == "offset", s.offset >= 0 && s.page < 0:
		all = append(all, offset[:1], page[:1], offset[1:], page[1:])
	case s.more == yes && s.page < 0 && len(since) > 0:
		all = append(all, since[:1], page[:1], offset[:1], page[1:], offset[1:])
	case s.page >= 0:
		all = append(all, page[:1], page[1:], offset[:1], offset[1:])
	default:
		all = append(all, page[:1], offset[:1], page[1:], offset[1:])
	}
	all = append(all, since)
	all = append(all, p.fromRecords()...)
	if p.first.rule != "" {
		return all
	}
	return append(all, p.moments()...)
}

// without leaves out candidates that are tried before.
func (p *pagerProbe) without(all, before []pagerCandidate) []pagerCandidate {
	return slices.DeleteFunc(all, func(c pagerCandidate) bool {
		return slices.ContainsFunc(before, func(b pagerCandidate) bool { return b.at == c.at })
	})
}

// hinted is what the stream itself says.
func (p *pagerProbe) hinted() (pagerCandidate, bool) {
	hint := p.l.pager.hint
	if hint.Page == "" || hint.Type == "none" {
		return pagerCandidate{}, false
	}
	c := p.named(hint.Type, []string{hint.Page})
	if len(c) == 0 {
		return pagerCandidate{}, false
	}
	return c[0], true
}

// numbered are the candidates of a list that counts its pages or records: the
// name under which the answer repeats the number first.
func (p *pagerProbe) numbered(typ string) []pagerCandidate {
	s, words := p.first.signals, schemas.Paging()
	echoed, family := s.pageName, schemas.ParamPage
	if typ == "offset" {
		echoed, family = s.offsetName, schemas.ParamOffset
	}
	usual, names := words.Parameters(family), []string(nil)
	if echoed.name != "" && slices.Contains(usual, echoed.name) {
		names = append(names, echoed.name)
	}
	if typ == "page" {
		names = append([]string{usual[0]}, names...)
	}
	return p.named(typ, distinctNames(append(names, usual...)))
}

// since are the candidates of a list that goes on behind its last record.
func (p *pagerProbe) since() []pagerCandidate {
	names := schemas.Paging().Parameters(schemas.ParamSince)
	if p.l.lastID != "" {
		return p.named("since_id", names)
	}
	field, value := p.identity()
	if value == "" {
		return nil
	}
	var out []pagerCandidate
	for _, name := range names {
		if !p.fixed(name) {
			out = append(out, pagerCandidate{typ: "since_id", field: field, at: position{kind: pagerCursor, param: name, at: value}})
		}
	}
	return out
}

// identity is a member that tells the records of the first page apart and is called
// like an id, and its value in the last record.
func (p *pagerProbe) identity() (field, value string) {
	f, err := p.l.locate(p.first.a.d)
	if err != nil {
		return "", ""
	}
	rows := rowsOf(p.first.a.d, f)
	for _, name := range fields(rows) {
		low := strings.ToLower(name)
		if (strings.HasSuffix(low, "id") || strings.HasSuffix(low, "key") || strings.HasSuffix(low, "sid")) && !strings.HasPrefix(name, contextKey) && distinct(rows, name) == "" {
			return name, bound{value: []byte(rows[len(rows)-1][name])}.text()
		}
	}
	return "", ""
}

// tokens are candidates that send the answer's token under these names.
func (p *pagerProbe) tokens(names []string) []pagerCandidate { return p.named("cursor", names) }

// named makes candidates of one type; none where the type has no value to go on
// with.
func (p *pagerProbe) named(typ string, names []string) []pagerCandidate {
	var out []pagerCandidate
	for _, name := range names {
		if p.fixed(name) {
			continue
		}
		c := pagerCandidate{typ: typ, at: position{param: name}}
		switch typ {
		case "page":
			c.at.kind, c.at.at = pagerPage, strconv.FormatInt(max(p.first.signals.page, 1)+1, 10)
			if p.first.signals.page == 0 {
				c.at.at = "1"
			}
		case "offset":
			c.at.kind, c.at.at = pagerOffset, strconv.Itoa(p.first.batch.n)
		case "since_id":
			c.at.kind, c.at.at = pagerCursor, p.l.lastID
		case "link":
			if v := p.first.signals.next.Get(name); v != "" {
				c.at = linkPosition(name, v)
			}
		default:
			c.at = linkPosition(name, p.first.signals.token)
		}
		if c.at.at != "" {
			out = append(out, c)
		}
	}
	return out
}

// fixed reports whether the stream itself gives a parameter its value, one that
// paging must leave alone: ?page=1 only says where the list begins.
func (p *pagerProbe) fixed(name string) bool {
	words := schemas.Paging()
	return slices.ContainsFunc(p.l.params, func(b bound) bool {
		begins := (b.text() == "0" || b.text() == "1") && (words.Parameter(schemas.ParamPage, name) || words.Parameter(schemas.ParamOffset, name))
		return b.Name == name && !begins
	})
}

// fromRecords are candidates that take their value from the last record: from a
// member that is called like a token.
func (p *pagerProbe) fromRecords() [][]pagerCandidate {
	d, last := p.first.a.d, p.first.batch.last
	var all [][]pagerCandidate
	for _, field := range []string{"cursor", "token", "_cursor", "page_token", "sort_key", "sequence", "seq"} {
		v := d.get(last, field)
		if !v.ok() || v.node >= 0 || d.void(v) {
			continue
		}
		value := bound{value: d.raw(v)}.text()
		names := distinctNames(append([]string{field, "before", "after", "cursor", "token"}, schemas.Paging().Parameters(schemas.ParamSince)...))
		var g []pagerCandidate
		for _, name := range names {
			if !p.fixed(name) {
				g = append(g, pagerCandidate{typ: "since_id", field: field, at: position{kind: pagerCursor, param: name, at: value}})
			}
		}
		for _, c := range g[:min(len(g), 4)] {
			all = append(all, []pagerCandidate{c})
		}
		all = append(all, g[min(len(g), 4):])
	}
	return all
}

// rangeAt is the range of n records from one on.
func rangeAt(unit string, from, n int64) position {
	return position{kind: pagerRange, param: unit, at: fmt.Sprintf("%s=%d-%d", unit, from, from+n-1)}
}

// momentNames are the parameters of a list that goes on after the time of its last
// record, or before it.
var momentNames = []string{"since", "before", "after", "until", "updated_since", "modified_since", "created_after", "created_before", "updated_after", "updated_before", "start_time", "end_time", "from", "to", "oldest", "latest", "starting_at", "older_than", "newer_than"}

// moments are candidates that take the time of the last record, where the first
// page comes in the order of that time.
func (p *pagerProbe) moments() [][]pagerCandidate {
	f, err := p.l.locate(p.first.a.d)
	if err != nil {
		return nil
	}
	rows := rowsOf(p.first.a.d, f)
	var all [][]pagerCandidate
	for _, field := range timeFields(rows) {
		slope := trend(rows, field)
		if slope == uneven || len(all) == 4 {
			continue
		}
		value := bound{value: []byte(rows[len(rows)-1][field])}.text()
		var g []pagerCandidate
		for _, name := range momentNames {
			if !p.fixed(name) {
				g = append(g, pagerCandidate{typ: "since_id", field: field, moment: true, at: position{kind: pagerCursor, param: name, at: value}})
			}
		}
		all = append(all, g)
	}
	return all
}

// inLink are the parameters of the next link, those first that usually say where
// it goes, without those that were sent anyway. The last pagerCandidate is all of them.
func (p *pagerProbe) inLink() []pagerCandidate {
	q := p.first.signals.next
	names := slices.Sorted(maps.Keys(q))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	words := schemas.Paging()
	var out []pagerCandidate
	rest := url.Values{}
	for _, name := range names {
		if v := q.Get(name); v != "" && !p.fixed(name) && !secretLike(name) {
			rest.Set(name, v)
			if !words.Parameter(schemas.ParamSize, name) || rank(name) < len(linkParams) {
				out = append(out, pagerCandidate{typ: "link", at: linkPosition(name, v)})
			}
		}
	}
	if len(rest) > 1 {
		out = append(out, pagerCandidate{typ: "link", at: position{kind: pagerLink, at: rest.Encode()}})
	}
	return out
}

// secretLike reports whether a parameter of a link may be a credential: what a
// link says of those is never sent. // Invariant 10
func secretLike(name string) bool {
	low := strings.ToLower(name)
	return strings.Contains(low, "key") && !strings.Contains(low, "start") && !strings.Contains(low, "next") || strings.Contains(low, "secret") || strings.Contains(low, "password") || strings.Contains(low, "signature") ||
		low == "access_token" || low == "auth" || low == "authorization"
}

func rank(name string) int {
	if i := slices.Index(linkParams, name); i >= 0 {
		return i
	}
	return len(linkParams)
}

// linkParams are the parameters of a next link that usually say where it goes,
// the more telling ones first.
var linkParams = []string{
	"cursor", "page[cursor]", "page[after]", "starting_after", "after", "page_token", "pageToken", "PageToken", "page_info", "next_token",
	"offset", "skip", "start", "_start", "page[offset]", "page[number]", "page", "_page", "pageNumber", "page_number", "pageNo", "paged", "p",
	"page[before]", "since_id", "max_id", "after_id", "last_id", "continuation_token", "continuationToken", "continuation", "token", "bookmark", "scroll_id", "$skiptoken", "$skip",
	"startAt", "startIndex",
}

// linked is the position that a next link leads to: by the parameter that has
// proven itself, or by all of them.
func (p *pager) linked(q url.Values) (position, bool) {
	if p.hint.Type == "link" && p.hint.Page == "" && p.settled {
		all := url.Values{}
		for name := range q {
			if v := q.Get(name); v != "" && !secretLike(name) {
				all.Set(name, v)
			}
		}
		return position{kind: pagerLink, at: all.Encode()}, len(all) > 0
	}
	names := linkParams
	if p.hint.Page != "" {
		names = append([]string{p.hint.Page}, linkParams...)
	}
	for _, name := range names {
		if v := q.Get(name); v != "" {
			return linkPosition(name, v), true
		}
	}
	return position{}, false
}

func linkPosition(name, v string) position {
	kind := pagerCursor
	if _, err := strconv.ParseUint(v, 10, 62); err == nil && len(v) < 16 {
		switch words := schemas.Paging(); {
		case slices.Contains(words.Parameters(schemas.ParamPage), name):
			kind = pagerPage
		case slices.Contains(words.Parameters(schemas.ParamOffset), name):
			kind = pagerOffset
		}
	}
	return position{kind: kind, param: name, at: v}
}

// tokenParams are the parameters that may take the answer's token, the likeliest
// first: the one that carries it in the next link, the token's own name, that
// name without "next", and those that are usual for it.
func (p *pager) tokenParams(s signals) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.next)) {
		if s.next.Get(name) == s.token {
			names = append(names, name)
		}
	}
	words, own := schemas.Paging(), s.tokenName.name
	plain := strings.ReplaceAll(own, "-", "_")
	bare := withoutNext(plain)
	names = append(names, plain)
	if in := s.tokenName.in; plainIdentifier(in) && in != "" {
		if bare != "" && bare != plain {
			names = append(names, in+"["+bare+"]")
		}
		if schemas.FoldName(in) == "page" || schemas.FoldName(in) == "pagination" || schemas.FoldName(in) == "paging" {
			names = append(names, in+"[cursor]", in+"["+plain+"]")
		}
	}
	names = append(names, words.Spellings(schemas.ParamToken, plain)...)
	if bare != "" {
		names = append(append(names, bare), words.Spellings(schemas.ParamToken, bare)...)
	}
	return distinctNames(append(names, usualTokenParams[schemas.FoldName(own)]...))
}

// usualTokenParams are the parameters of tokens that are called otherwise in the
// request than in the answer.
var usualTokenParams = map[string][]string{
	"next": {"cursor", "offset"}, "endcursor": {"after", "cursor"}, "nexttoken": {"pagination_token"}, "nextpageid": {"page_id"}, "nextid": {"after_id"},
	"nextpagetoken": {"page_token"}, "lastevaluatedkey": {"exclusiveStartKey"}, "nextcursor": {"cursor"}, "nextpagecursor": {"cursor"}, "after": {"after"}, "nextcontinuationtoken": {"continuation-token"},
}

// withoutNext is a name without "next" at its beginning, written in the same way.
func withoutNext(name string) string {
	for _, prefix := range []string{"next_", "next-", "next", "Next"} {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || rest == "" {
			continue
		}
		if prefix == "next" {
			r := []rune(rest)
			if !unicode.IsUpper(r[0]) {
				return rest
			}
			r[0] = unicode.ToLower(r[0])
			return string(r)
		}
		return rest
	}
	return ""
}

// plainIdentifier reports whether an object's name can stand before brackets.
func plainIdentifier(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

func distinctNames(names []string) []string {
	var out []string
	for _, name := range names {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// sizeNames are the parameters that may set the size of a page, those first that
// the answer itself speaks of.
func (p *pagerProbe) sizeNames() []string {
	return sizeNamesFor(p.l.s.Pagination, p.first.signals)
}

func sizeNamesFor(hint schemas.Pagination, s signals) []string {
	words := schemas.Paging()
	first := []string{hint.Size}
	if words.Parameter(schemas.ParamSize, s.sizeName.name) {
		first = append(first, s.sizeName.name)
		if in := s.sizeName.in; in != "" && plainIdentifier(in) && !nestsPage(hint.Page, in) {
			first = append(first, in+"["+s.sizeName.name+"]")
		}
	}
	if in, _, ok := strings.Cut(hint.Page, "["); ok {
		for _, name := range words.Parameters(schemas.ParamSize) {
			if strings.HasPrefix(name, in+"[") {
				first = append(first, name)
			}
		}
	}
	for _, name := range words.Parameters(schemas.ParamSize) {
		if s.next.Has(name) {
			first = append(first, name)
		}
	}
	all := distinctNames(append(first, words.Parameters(schemas.ParamSize)...))
	return slices.DeleteFunc(all, func(name string) bool { return nestsPage(name, hint.Page) || nestsPage(hint.Page, name) })
}

// nestsPage reports whether one of two names is a member of what the other is:
// page[size] and page, say. No request has both.
func nestsPage(a, b string) bool {
	in, _, ok := strings.Cut(a, "[")
	return ok && in == b
}

// largestPage is the most records that a page is ever asked for.
const largestPage = 1000

// everything is what a list would have to go by if it had pages at all: the flat
// names in one request, those with brackets in another. The size is one more than
// came: of pages of that size, the second begins later.
func (p *pagerProbe) everything() []string {
	flat, nested := make(query), make(query)
	add := func(name, value string) {
		if strings.HasPrefix(name, "page[") {
			nested.add(name, value)
		} else if !p.fixed(name) {
			flat.add(name, value)
		}
	}
	groups := [][]pagerCandidate{p.numbered("page"), p.numbered("offset"), p.since()}
	if c, ok := p.hinted(); ok {
		groups = append(groups, []pagerCandidate{c})
	}
	for _, g := range groups {
		for _, c := range g {
			if c.at.param != "" {
				add(c.at.param, c.at.at)
			}
		}
	}
	for _, name := range p.sizeNames() {
		add(name, strconv.Itoa(p.first.batch.n+1))
	}
	if !round(p.first.batch.n) {
		return []string{flat.encode()}
	}
	return []string{flat.encode(), nested.encode()}
}

// query is parameters that a probe adds.
type query map[string]string

func (q query) add(name, value string) {
	if _, ok := q[name]; !ok && value != "" {
		q[name] = value
	}
}

func (q query) encode() string {
	v := make(url.Values, len(q))
	for name, value := range q {
		v.Set(name, value)
	}
	return v.Encode()
}

func (q query) names() string { return strings.Join(slices.Sorted(maps.Keys(q)), ", ") }
