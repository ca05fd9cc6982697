package paging

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

func (r *signalReader) header(h http.Header) {
	s := r.s
	for _, name := range slices.Sorted(maps.Keys(h)) { // sorted, so that the result is always the same
		low, values := strings.ToLower(name), h[name]
		if len(values) == 0 || values[0] == "" && !strings.Contains(low, "next") || !r.words.HeaderOfPages(name) {
			continue
		}
		r.headerField(name, low, values[0])
	}
	if unit, total, ok := strings.Cut(h.Get("Content-Range"), "/"); ok {
		r.contentRange(unit, total)
	}
	if unit := h.Get("Accept-Ranges"); s.rangeUnit == "" && unit != "" && unit != "bytes" && unit != "none" && !strings.Contains(unit, ",") && h.Get("Content-Range") != "" {
		s.rangeUnit = unit
	}
	links := strings.Join(h.Values("Link"), ",")
	if links == "" {
		return
	}
	before := s.Linked
	for _, link := range strings.Split(links, "<")[1:] {
		target, attributes, _ := strings.Cut(link, ">")
		plain := strings.ToLower(strings.ReplaceAll(attributes, `"`, ""))
		relations := relationsOf(plain)
		s.Linked = s.Linked || slices.ContainsFunc(relations, func(rel string) bool { return leadsOn(rel) || r.words.Relations.Has(rel) })
		if !slices.ContainsFunc(relations, leadsOn) {
			continue
		}
		if strings.Contains(plain, "results=false") { // the link leads to no records; some servers send such a link at the end
			s.More = No
			continue
		}
		if !before || s.Next == nil {
			r.link(target)
		}
	}
}

func leadsOn(relation string) bool { return relation == "next" || relation == "next-page" }

func relationsOf(attributes string) []string {
	_, rest, ok := strings.Cut(attributes, "rel=")
	if !ok {
		return nil
	}
	rest, _, _ = strings.Cut(rest, ";")
	rest, _, _ = strings.Cut(rest, ",")
	return strings.Fields(rest)
}

func (r *signalReader) headerField(name, low, text string) {
	s := r.s
	if strings.HasPrefix(text, "{") {
		r.inHeader(name, text)
		return
	}
	number, err := strconv.ParseInt(text, 10, 64)
	fill := func(to *int64) {
		if err == nil {
			*to = max(*to, number)
		}
	}
	switch r.words.HeaderRole(name) {
	case schemas.RoleTotal:
		if number > int64(r.n) || !strings.HasSuffix(low, "count") || strings.Contains(low, "total") {
			fill(&s.Total)
		}
		return
	case schemas.RolePages:
		fill(&s.LastPage)
		return
	case schemas.RolePage:
		fill(&s.Page)
		return
	case schemas.RoleSize:
		fill(&s.Limit)
		return
	}
	plain := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(low, "x-"), "ms-"), "pagination-")
	if low == "next-range" {
		s.Tokened, s.Token, s.ranged, s.tokenName = true, text, true, named{name: name}
		return
	}
	switch role := r.words.Role(plain); {
	case role == schemas.RoleMore && parseFlag(text) == unstated:
		s.addUnread(Unread{Pointer: "header " + name, Value: text, Number: -1})
	case role == schemas.RoleMore:
		s.More = parseFlag(text)
	case role == schemas.RoleLast && parseFlag(text) == Yes:
		s.More = No
	case role == schemas.RoleNext && isLink(text):
		r.link(text)
	case role == schemas.RoleNext || role == schemas.RoleToken && !strings.Contains(plain, "page"):
		if r.words.NoToken(text) {
			text = ""
		}
		r.take(text, named{name: plain})
	case role == schemas.RolePartial && strings.EqualFold(text, "true"):
		s.addIncomplete("header " + name + ": " + text)
	case role == "" && err != nil && r.words.Continues(plain):
		s.addUnread(Unread{Pointer: "header " + name, Value: text, Number: -1})
	case role == "" && err == nil && number > int64(r.n) && (strings.Contains(plain, "total") || strings.Contains(plain, "count")):
		s.addUnread(Unread{Pointer: "header " + name, Value: text, Number: number})
	}
}

func (r *signalReader) inHeader(name, text string) {
	d := new(jsondoc.Doc)
	if d.Scan([]byte(text)) != nil {
		return
	}
	inner := *r
	inner.d, inner.skip = d, map[int]bool{}
	inner.object(d.Root(), "header "+name, scope{name: name, trusted: true, top: true})
}

func (r *signalReader) contentRange(part, total string) {
	s := r.s
	if i, err := strconv.ParseInt(total, 10, 64); err == nil && i >= 0 && s.Total < 0 {
		s.Total = i
	}
	if unit, rest, ok := strings.Cut(part, " "); ok {
		part = rest
		if unit != "bytes" {
			s.rangeUnit = unit
		}
	}
	from, _, ok := strings.Cut(part, "-")
	if i, err := strconv.ParseInt(from, 10, 64); ok && err == nil && s.offset < 0 {
		s.offset = i
	}
}
