package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

type item struct {
	key  string
	json json.RawMessage
}

type paging struct {
	items []item
	p     params
	size  int
	fixed bool
	keyed int
	url   string // URL of the list, with innerHost
	path  string // URL of the list, without the host
	shown func(key string)
}

type served struct {
	data   any
	beside object
	whole  bool // the array is the whole body, without an envelope
	header http.Header
}

type pager func(paging) (served, *refusal)

// slice returns an array. From page q.keyed on, it returns an object with numeric keys. PHP writes an array in this
// form if its keys do not begin at 0.
func (q paging) slice(from, to, page int) any {
	from, to = min(max(from, 0), len(q.items)), min(max(to, 0), len(q.items))
	for i := from; i < to && q.shown != nil; i++ {
		q.shown(q.items[i].key)
	}
	if q.keyed > 0 && page >= q.keyed && from < to {
		o := object{}
		for i := from; i < to; i++ {
			o = append(o, member{strconv.Itoa(i), q.items[i].json})
		}
		return o
	}
	raw := make([]json.RawMessage, 0, to-from)
	for _, it := range q.items[from:to] {
		raw = append(raw, it.json)
	}
	return raw
}

func (q paging) page() int {
	n, err := strconv.Atoi(q.p["page"])
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// perPage returns the page size. It takes the first of the named parameters that the request sets. Zero or an invalid
// size means the default. A negative size means the whole list.
func (q paging) perPage(names ...string) int {
	for _, name := range names {
		n, err := strconv.Atoi(q.p[name])
		switch {
		case q.fixed || err != nil || n == 0:
		case n < 0:
			return max(len(q.items), 1)
		default:
			return n
		}
	}
	return q.size
}

type bounds struct {
	page, size, last, total int
	from, to                any // counted from 1; null on an empty page
}

func (q paging) bounds() bounds {
	b := bounds{page: q.page(), size: q.perPage("per_page"), total: len(q.items)}
	b.last = max((b.total+b.size-1)/b.size, 1)
	if first := (b.page-1)*b.size + 1; first <= b.total {
		b.from, b.to = first, min(first+b.size-1, b.total)
	}
	return b
}

func (q paging) cut(b bounds) any { return q.slice((b.page-1)*b.size, b.page*b.size, b.page) }

func (q paging) pageURL(page, last int) any {
	if page < 1 || page > last {
		return nil
	}
	return fmt.Sprintf("%s?page=%d", q.url, page)
}

func whole(q paging) (served, *refusal) {
	return served{data: q.slice(0, len(q.items), 1)}, nil
}

func itemsPager(q paging) (served, *refusal) {
	b := q.bounds()
	return served{data: obj("items", q.cut(b),
		"pagination", obj("total", b.total, "per_page", b.size, "current_page", b.page, "last_page", b.last))}, nil
}

func laravelPager(q paging) (served, *refusal) {
	b := q.bounds()
	links := list{obj("url", q.pageURL(b.page-1, b.last), "label", "&laquo; Previous", "active", false)}
	for n := 1; n <= b.last && n <= 10; n++ {
		links = append(links, obj("url", q.pageURL(n, b.last), "label", strconv.Itoa(n), "active", n == b.page))
	}
	links = append(links, obj("url", q.pageURL(b.page+1, b.last), "label", "Next &raquo;", "active", false))
	return served{data: obj("current_page", b.page, "data", q.cut(b), "first_page_url", q.pageURL(1, b.last), "from", b.from,
		"last_page", b.last, "last_page_url", q.pageURL(b.last, b.last), "links", links,
		"next_page_url", q.pageURL(b.page+1, b.last), "path", q.url, "per_page", b.size,
		"prev_page_url", q.pageURL(b.page-1, b.last), "to", b.to, "total", b.total)}, nil
}

func barePager(q paging) (served, *refusal) {
	s, t := laravelPager(q)
	s.whole = true
	return s, t
}

func simplePager(q paging) (served, *refusal) {
	b := q.bounds()
	return served{data: obj("current_page", b.page, "current_page_url", fmt.Sprintf("%s?page=%d", q.url, b.page), "data", q.cut(b),
		"first_page_url", q.pageURL(1, b.last), "from", b.from, "next_page_url", q.pageURL(b.page+1, b.last), "path", q.url,
		"per_page", b.size, "prev_page_url", q.pageURL(b.page-1, b.last), "to", b.to)}, nil
}

func resourcePager(q paging) (served, *refusal) {
	b := q.bounds()
	return served{data: q.cut(b), beside: obj(
		"links", obj("first", q.pageURL(1, b.last), "last", q.pageURL(b.last, b.last),
			"prev", q.pageURL(b.page-1, b.last), "next", q.pageURL(b.page+1, b.last)),
		"meta", obj("current_page", b.page, "from", b.from, "last_page", b.last, "links", list{}, "path", q.url,
			"per_page", b.size, "to", b.to, "total", b.total))}, nil
}

func fractalPager(q paging) (served, *refusal) {
	b := q.bounds()
	count := max(min(b.size, b.total-(b.page-1)*b.size), 0)
	links := object{}
	if next := q.pageURL(b.page+1, b.last); next != nil {
		links = links.put("next", next)
	}
	return served{data: q.cut(b), beside: obj("meta", obj("pagination", obj("total", b.total, "count", count,
		"per_page", b.size, "current_page", b.page, "total_pages", b.last, "links", links)))}, nil
}

func numberedPager(q paging) (served, *refusal) {
	b := q.bounds()
	return served{data: q.cut(b), beside: obj("page", b.page, "total_pages", b.last, "count", b.total)}, nil
}

func cursorPager(q paging) (served, *refusal) {
	size := q.perPage("per_page")
	start := q.after(q.p["cursor"])
	end := min(start+size, len(q.items))
	var next, nextURL, prev any
	if end < len(q.items) {
		token := q.token(end)
		next, nextURL = token, q.url+"?cursor="+token
	}
	if start > 0 {
		prev = q.token(max(start-size, 0))
	}
	return served{data: obj("data", q.slice(start, end, 1), "path", q.url, "per_page", size, "next_cursor", next,
		"next_page_url", nextURL, "prev_cursor", prev, "prev_page_url", nil)}, nil
}

func nextPager(q paging) (served, *refusal) {
	size, t := q.limit()
	if t != nil {
		return served{}, t
	}
	start := q.after(q.p["cursor"])
	end := min(start+size, len(q.items))
	var next any
	if end < len(q.items) {
		next = q.token(end)
	}
	return served{data: q.slice(start, end, 1), beside: obj("next_cursor", next)}, nil
}

func offsetPager(q paging) (served, *refusal) {
	size := q.perPage("limit")
	offset, _ := strconv.Atoi(q.p["offset"])
	offset = max(offset, 0)
	var next, previous any
	if offset+size < len(q.items) {
		next = fmt.Sprintf("%s?limit=%d&offset=%d", q.url, size, offset+size)
	}
	if offset > 0 {
		previous = fmt.Sprintf("%s?limit=%d&offset=%d", q.url, size, max(offset-size, 0))
	}
	return served{data: obj("count", len(q.items), "next", next, "previous", previous, "results", q.slice(offset, offset+size, 1)), whole: true}, nil
}

func stripePager(q paging) (served, *refusal) {
	size, t := q.limit()
	if t != nil {
		return served{}, t
	}
	start := 0
	if after, ok := q.p["starting_after"]; ok {
		start = -1
		for i := range q.items {
			if q.items[i].key == after {
				start = i + 1
				break
			}
		}
		if start < 0 {
			return served{}, &refusal{kind: missing, what: "object: " + after}
		}
	}
	end := min(start+size, len(q.items))
	return served{data: obj("object", "list", "url", q.path, "has_more", end < len(q.items), "data", q.slice(start, end, 1)), whole: true}, nil
}

func linkPager(q paging) (served, *refusal) {
	b := q.bounds()
	link := fmt.Sprintf(`<%s?page=%d>; rel="last"`, q.url, b.last)
	if b.page < b.last {
		link = fmt.Sprintf(`<%s?page=%d>; rel="next", `, q.url, b.page+1) + link
	}
	return served{data: q.cut(b), whole: true, header: http.Header{"Link": {link}, "X-Total-Count": {strconv.Itoa(b.total)}}}, nil
}

const maxLimit = 100

func (q paging) limit() (int, *refusal) {
	text, ok := q.p["limit"]
	if !ok {
		return q.size, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, &refusal{kind: invalid, fields: []string{"limit"}}
	}
	return min(n, maxLimit), nil
}

// token returns a token for a position in the list. The token has the key of the item before the position. It also has
// the index of the position, because that item may be deleted.
func (q paging) token(at int) string {
	after := ""
	if at > 0 {
		after = q.items[at-1].key
	}
	return base64.URLEncoding.EncodeToString(fmt.Appendf(nil, `{"id":%q,"at":%d,"_pointsToNextItems":true}`, after, at))
}

func (q paging) after(token string) int {
	text, err := base64.URLEncoding.DecodeString(token)
	var place struct {
		ID string `json:"id"`
		At int    `json:"at"`
	}
	if err != nil || json.Unmarshal(text, &place) != nil {
		return 0
	}
	for i := range q.items {
		if q.items[i].key == place.ID && place.ID != "" {
			return i + 1
		}
	}
	return min(max(place.At, 0), len(q.items))
}
