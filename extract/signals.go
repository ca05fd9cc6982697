package extract

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// signals are what an answer says about the pages of its list. Numbers are -1
// and texts empty where it says nothing.
type signals struct {
	total    int64 // records in all
	lastPage int64
	page     int64 // which page this is, as the server sees it
	offset   int64
	limit    int64 // records to a page, as the server sees it

	more      tristate // has_more and its kin
	linked    bool     // there is a member for the next link, maybe null
	next      url.Values
	opaque    bool // there is a next link, and nothing in it that a request could take over
	tokened   bool // there is a member for the next cursor, maybe null
	token     string
	tokenName string // as the body calls it
	sizeName  string // ditto, of the limit
}

type tristate int8

const (
	unsaid tristate = iota
	yes
	no
)

// signalsOf reads what stands above and beside the records, and the header.
func signalsOf(d *doc, f found, n int, h http.Header) signals {
	s := signals{total: -1, lastPage: -1, page: -1, offset: -1, limit: -1}
	for _, v := range f.above {
		s.object(d, v, n, 0)
	}
	s.header(h)
	return s
}

// asides are the objects beside the records that tell about pages.
var asides = []string{
	"meta", "_meta", "metadata", "_metadata", "pagination", "paging", "paginator", "page_info", "pageInfo", "links", "_links",
	"cursors", "cursor", "next", "response_metadata", "responseMetadata", "page",
}

// maxAside is how deep asides are looked into.
const maxAside = 5

// object reads the members of one object, and of the asides in it.
func (s *signals) object(d *doc, v value, n, depth int) {
	sized := false
	for raw, m := range d.members(v) {
		name := unquote(raw)
		if d.isObject(m) && depth < maxAside && slices.Contains(asides, name) {
			s.object(d, m, n, depth+1)
			continue
		}
		if m.node < 0 {
			s.scalar(d, name, m, n, depth)
			word := plainWord(name)
			sized = sized || word == "totalpages" || word == "totalelements"
		}
	}
	if sized { // elsewhere, these words could mean anything
		s.number(d, d.get(v, "number"), &s.page)
		s.number(d, d.get(v, "size"), &s.limit)
		s.sized(d.get(v, "size"), "size")
	}
}

// plainWord is a member's name without what spellings differ in.
func plainWord(name string) string {
	name = strings.TrimPrefix(strings.ToLower(name), "@odata.")
	return strings.NewReplacer("_", "", "-", "", "@", "").Replace(name)
}

// scalar reads one member by its name, spelled with or without underscores.
func (s *signals) scalar(d *doc, name string, v value, n, depth int) {
	switch word := plainWord(name); word {
	case "total", "totalcount", "totalrecords", "totalitems", "totalresults", "totalelements", "totalentries", "totalrows", "recordstotal", "numfound":
		s.number(d, v, &s.total)
	case "count":
		// The number of all records here, of those on this page there.
		if i, err := d.integer(v); err == nil && s.total < 0 && i != int64(n) {
			s.total = i
		}
	case "lastpage", "totalpages", "totalpage", "pages", "pagecount", "pagestotal", "numpages":
		s.number(d, v, &s.lastPage)
	case "currentpage", "page", "pagenumber", "pageindex", "pageno":
		s.number(d, v, &s.page)
	case "offset", "skip":
		s.number(d, v, &s.offset)
	case "perpage", "limit", "pagesize":
		s.number(d, v, &s.limit)
		s.sized(v, name)
	case "hasmore", "hasnext", "hasnextpage", "hasmorepages", "more", "morerecords", "moreavailable":
		s.flag(d, v, yes, no)
	case "islast", "islastpage", "last":
		s.flag(d, v, no, yes)
	case "href":
		if depth > 0 { // else it is the list's own
			s.link(d, v)
		}
	case "nextpageurl", "nexturl", "nextlink", "nexthref", "nexturi", "next":
		s.nextMember(d, name, v, depth)
	case "nextcursor", "nextpagetoken", "nexttoken", "continuationtoken", "endcursor", "nextpage", "nextoffset", "nextstart",
		"nextpageid", "nextid", "scrollid", "bookmark", "paginationtoken", "cursor", "after":
		s.cursor(d, name, v, depth)
	}
}

// sized keeps what the body calls the size of its pages: a parameter may have
// the same name.
func (s *signals) sized(v value, name string) {
	if v.ok() {
		s.sizeName = name
	}
}

// nextMember reads "next", which is a link, or a cursor, or a page number.
func (s *signals) nextMember(d *doc, name string, v value, depth int) {
	t := d.text(v)
	if t == "" && d.kind(v) != '"' && d.kind(v) != 'n' && name == "next" || t != "" && !strings.ContainsAny(t, "/?") {
		s.cursor(d, name, v, depth)
		return
	}
	s.link(d, v)
}

// cursor reads a token for the next page. "cursor" and "after" are tokens only
// among their kind; elsewhere they may be anything.
func (s *signals) cursor(d *doc, name string, v value, depth int) {
	if depth == 0 && (name == "cursor" || name == "after") {
		return
	}
	t := d.text(v)
	if k := d.kind(v); k != '"' && k != 'n' && k != 'f' {
		t = string(d.raw(v))
	}
	if s.tokened && (s.token != "" || t == "") {
		return
	}
	s.tokened, s.token, s.tokenName = true, t, name
}

func (s *signals) number(d *doc, v value, to *int64) {
	if i, err := d.integer(v); err == nil && i >= 0 {
		*to = i
	}
}

// flag reads a yes or no; last may as well be a link.
func (s *signals) flag(d *doc, v value, ifTrue, ifFalse tristate) {
	switch string(d.raw(v)) {
	case "true", "1", `"true"`:
		s.more = ifTrue
	case "false", "0", `"false"`:
		s.more = ifFalse
	}
}

// link keeps the query of a next link. Scheme, host and path are never looked
// at: behind a proxy they are often wrong, and they could be anyone's.
// Invariant 10
func (s *signals) link(d *doc, v value) {
	s.linked = true
	t := d.text(v)
	s.query(t)
	s.opaque = t != "" && s.next == nil
}

func (s *signals) query(link string) {
	_, q, ok := strings.Cut(link, "?")
	if !ok {
		return
	}
	q, _, _ = strings.Cut(q, "#")
	if values, err := url.ParseQuery(q); err == nil && len(values) > 0 {
		s.next = values
	}
}

// totalHeaders and pagesHeaders are where bare lists tell their totals.
var (
	totalHeaders = []string{"X-Total-Count", "X-Total", "X-Wp-Total", "X-Pagination-Total-Count", "Total-Count"}
	pagesHeaders = []string{"X-Total-Pages", "X-Wp-Totalpages", "X-Pagination-Page-Count"}
)

// header reads Link and the headers that bare lists tell their pages in.
func (s *signals) header(h http.Header) {
	fill := func(names []string, to *int64) {
		for _, name := range names {
			if i, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && i >= 0 && *to < 0 {
				*to = i
			}
		}
	}
	fill(totalHeaders, &s.total)
	fill(pagesHeaders, &s.lastPage)
	if _, total, ok := strings.Cut(h.Get("Content-Range"), "/"); ok && s.total < 0 {
		if i, err := strconv.ParseInt(total, 10, 64); err == nil && i >= 0 {
			s.total = i
		}
	}
	if len(h.Values("Link")) == 0 || s.linked {
		return
	}
	s.linked = true
	for _, link := range strings.Split(strings.Join(h.Values("Link"), ","), "<")[1:] {
		target, attributes, _ := strings.Cut(link, ">")
		if strings.Contains(strings.ReplaceAll(attributes, `"`, ""), "rel=next") {
			s.query(target)
		}
	}
}
