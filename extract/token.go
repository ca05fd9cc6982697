package extract

import (
	"net/url"
	"strconv"
	"strings"
)

// tokenParams are the parameters that take a token, by what the body calls it.
var tokenParams = map[string]string{
	"nextcursor": "cursor", "cursor": "cursor", "next": "cursor", "after": "after", "endcursor": "after",
	"nexttoken": "next_token", "continuationtoken": "continuation_token", "nextpage": "page", "nextoffset": "offset",
	"nextstart": "start", "nextpageid": "page_id", "nextid": "after_id", "scrollid": "scroll_id", "bookmark": "bookmark",
	"paginationtoken": "pagination_token",
}

// token is the position a token leads to. Its parameter is the one that carries
// it in the next link, which is sure, else it goes by the token's name.
func (p *pager) token(s signals) (next position, sure bool) {
	for name := range s.next {
		if s.next.Get(name) == s.token {
			return linkPosition(name, s.token), true
		}
	}
	usual, ok := tokenParams[plainWord(s.tokenName)]
	if !ok { // next_page_token, nextPageToken
		usual = "page_token"
		if !strings.Contains(s.tokenName, "_") {
			usual = "pageToken"
		}
	}
	return linkPosition(p.named(usual, "cursor", "link", "page", "offset", "since_id"), s.token), false
}

// linkParams are the parameters of a next link that say where it goes, the more
// telling ones first. All others are the server's idea of what was asked for
// and stay behind. // Invariant 10
var linkParams = []string{
	"cursor", "page[cursor]", "page[after]", "starting_after", "after", "page_token", "pageToken", "next_token",
	"offset", "skip", "start", "_start", "page[offset]", "page[number]", "page", "_page", "pageNumber", "page_number", "pageNo", "paged", "p",
	"page[before]", "since_id", "max_id", "after_id", "last_id", "continuation_token", "token", "bookmark", "scroll_id", "$skiptoken", "$skip",
}

func (p *pager) linked(q url.Values) (position, bool) {
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
	if _, err := strconv.ParseUint(v, 10, 62); err == nil {
		switch name {
		case "page", "p", "page[number]", "pageNumber", "page_number", "_page", "pageNo", "paged":
			kind = pagerPage
		case "offset", "skip", "start", "_start", "page[offset]":
			kind = pagerOffset
		}
	}
	return position{kind: kind, param: name, at: v}
}
