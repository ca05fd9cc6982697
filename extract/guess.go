package extract

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// guess is a parameter by which a list may go on, with the value that would
// bring its second page.
type guess struct {
	typ string // as [schemas.Pagination] calls it
	at  position
}

// The parameters by which lists go on, the usual ones first.
var (
	pageNames   = []string{"page", "p", "page_number", "pageNumber", "page[number]", "_page", "pageNo", "paged", "page_no", "currentPage", "current_page", "pageIndex"}
	offsetNames = []string{"offset", "skip", "start", "page[offset]", "_start", "startIndex", "$skip", "startAt", "start_at"}
	sinceNames  = []string{"starting_after", "after_id", "since_id", "after", "last_id", "max_id", "cursor", "before_id", "from_id"}
	tokenNames  = []string{
		"cursor", "after", "page_token", "pageToken", "next_token", "nextToken", "starting_after", "next_cursor", "nextCursor", "page[cursor]",
		"page[after]", "token", "start_cursor", "continuation_token", "continuationToken", "next", "bookmark", "scroll_id", "marker", "page",
	}
	sizeNames = []string{"per_page", "limit", "page_size", "size", "pageSize", "perPage", "_limit", "page[size]", "take", "count", "max_results", "maxResults", "$top", "page[limit]"}
)

// groups are the candidates in the order of what speaks for them. Those of one
// group are first tried together, if they are many.
func (h *hunt) groups() [][]guess {
	s, hint := h.first.signals, h.l.pager.hint
	var all [][]guess
	if c, ok := h.hinted(); ok {
		all = append(all, []guess{c})
	}
	switch {
	case s.token != "":
		next, _ := h.l.pager.token(s)
		all = append(all, []guess{{"cursor", next}}, h.named("cursor", tokenNames))
	case s.next != nil:
		all = append(all, h.inLink())
	}
	page, offset := h.named("page", pageNames), h.named("offset", offsetNames)
	since := h.named("since_id", sinceNames)
	switch {
	case hint.Type == "offset", s.offset >= 0 && s.page < 0:
		all = append(all, offset[:1], offset[1:], page[:1], page[1:])
	case s.more == yes && s.page < 0 && len(since) > 0:
		all = append(all, since[:1], page[:1], offset[:1], page[1:], offset[1:])
	default:
		all = append(all, page[:1], offset[:1], page[1:], offset[1:])
	}
	return append(all, since)
}

// hinted is what the stream itself says.
func (h *hunt) hinted() (guess, bool) {
	p := h.l.pager.hint
	if p.Page == "" || p.Type == "none" {
		return guess{}, false
	}
	c := h.named(p.Type, []string{p.Page})
	if len(c) == 0 {
		return guess{}, false
	}
	return c[0], true
}

// named makes candidates of one type; none where the type has no value to go on
// with.
func (h *hunt) named(typ string, names []string) []guess {
	var out []guess
	for _, name := range names {
		c := guess{typ: typ, at: position{param: name}}
		switch typ {
		case "page":
			c.at.kind, c.at.at = pagerPage, strconv.FormatInt(max(h.first.signals.page, 1)+1, 10)
			if h.first.signals.page == 0 {
				c.at.at = "1"
			}
		case "offset":
			c.at.kind, c.at.at = pagerOffset, strconv.FormatInt(max(h.first.signals.offset, 0)+int64(h.first.batch.n), 10)
		case "since_id":
			c.at.kind, c.at.at = pagerCursor, h.l.lastID
		default:
			c.at.kind, c.at.at = pagerCursor, h.first.signals.token
		}
		if c.at.at != "" {
			out = append(out, c)
		}
	}
	return out
}

// inLink are the parameters of the next link, those first that usually say where
// it goes, without those that were sent anyway.
func (h *hunt) inLink() []guess {
	q := h.first.signals.next
	names := slices.Sorted(maps.Keys(q))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	var out []guess
	for _, name := range names {
		sent := slices.ContainsFunc(h.l.params, func(b bound) bool { return b.Name == name })
		if v := q.Get(name); v != "" && !sent && !slices.Contains(sizeNames, name) {
			out = append(out, guess{"link", linkPosition(name, v)})
		}
	}
	return out
}

func rank(name string) int {
	if i := slices.Index(linkParams, name); i >= 0 {
		return i
	}
	return len(linkParams)
}

// sizeNames are the parameters that may set the size of a page, those first that
// the answer itself speaks of.
func (h *hunt) sizeNames() []string { return sizeNamesFor(h.l.s.Pagination.Size, h.first.signals) }

func sizeNamesFor(hint string, s signals) []string {
	first := []string{hint, s.sizeName}
	for _, name := range sizeNames {
		if s.next.Has(name) {
			first = append(first, name)
		}
	}
	var out []string
	for _, name := range append(first, sizeNames...) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// largestPage is the most records that a page is ever asked for.
const largestPage = 1000

// everything is what a list would have to go by if it had pages at all. The size
// is one more than came: of pages of that size, the second begins later.
func (h *hunt) everything() string {
	all := make(query)
	groups := [][]guess{h.named("page", pageNames), h.named("offset", offsetNames), h.named("since_id", sinceNames[:4])}
	if c, ok := h.hinted(); ok {
		groups = append(groups, []guess{c})
	}
	for _, g := range groups {
		for _, c := range g {
			all.add(c.at.param, c.at.at)
		}
	}
	for _, name := range h.sizeNames() {
		all.add(name, strconv.Itoa(h.first.batch.n+1))
	}
	for _, b := range h.l.params {
		delete(all, b.Name) // it is what makes the list this one
	}
	return all.encode()
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
