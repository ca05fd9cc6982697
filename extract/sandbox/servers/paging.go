package servers

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (l *List) cut(q request, all []row) (part, *answer) {
	s := l.spec
	p := part{allRows: all}
	if deep := s.Paging.Deep; deep > 0 {
		all = all[:min(deep, len(all))]
	}
	var refused *answer
	if p.size, refused = s.Size.of(q); refused != nil {
		return p, refused
	}
	switch s.Paging.Kind {
	case KindWhole:
		p.size = max(len(all), 1)
	case KindCap:
		all = all[:min(p.size, len(all))]
	case KindRange:
		if refused := p.byRange(q.header.Get("Range"), s.Size); refused != nil {
			return p, refused
		}
	default:
		if v, asked := q.values[s.Paging.Param]; asked && v != "" {
			if p.from, refused = l.start(v, p); refused != nil {
				return p, refused
			}
		}
	}
	if p.from >= len(all) && p.from > 0 {
		switch s.Paging.Beyond {
		case Beyond204, Beyond400, Beyond404:
			status, _ := strconv.Atoi(s.Paging.Beyond)
			a := refuse(status, "no such page")
			return p, &a
		case BeyondFirst:
			p.from = 0
		case BeyondLast:
			p.from = max(len(all)-1, 0) / p.size * p.size
		}
	}
	p.from = min(p.from, len(all))
	p.to = min(p.from+p.size, len(all))
	p.page, p.rows, p.end = p.from/p.size, all[p.from:p.to], p.to >= len(p.allRows)
	if s.Records.Order == OrderTies && p.page%2 == 1 && len(p.rows) > 0 {
		p.rows = append([]row{all[p.from-1]}, p.rows[1:]...)
	}
	return p, nil
}

func (s Size) of(q request) (int, *answer) {
	n, err := strconv.Atoi(q.values[s.Param])
	if s.Param == "" || err != nil || n < 1 {
		return s.Default, nil
	}
	if s.Max == 0 || n <= s.Max {
		return n, nil
	}
	switch s.Over {
	case "400":
		a := refuse(http.StatusBadRequest, fmt.Sprintf("%s: at most %d", s.Param, s.Max))
		return 0, &a
	case "default":
		return s.Default, nil
	}
	return s.Max, nil
}

func (p *part) byRange(header string, s Size) *answer {
	_, span, ok := strings.Cut(header, "=")
	if !ok {
		return nil
	}
	first, last, _ := strings.Cut(span, "-")
	from, err := strconv.Atoi(first)
	if err != nil || from < 0 || from > 0 && from >= len(p.allRows) {
		a := refuse(http.StatusRequestedRangeNotSatisfiable, "no such range")
		return &a
	}
	p.from = from
	if to, err := strconv.Atoi(last); err == nil && to >= from {
		p.size = to - from + 1
	}
	if s.Max > 0 {
		p.size = min(p.size, s.Max)
	}
	return nil
}

func (l *List) start(v string, p part) (int, *answer) {
	g := l.spec.Paging
	switch g.Kind {
	case KindPage, KindOffset:
		n, err := strconv.Atoi(v)
		if err != nil || n < g.Base {
			return 0, nil // an invalid number means the first page
		}
		if g.Kind == KindOffset {
			return n - g.Base, nil
		}
		return (n - g.Base) * p.size, nil
	case KindMoment:
		return l.afterMoment(v, p)
	case KindKeyset:
		return l.afterID(v, p)
	}
	switch g.Form {
	case "id":
		return l.afterID(v, p)
	case "offset":
		if n, err := strconv.Atoi(v); err == nil && n >= 0 {
			return n, nil
		}
	default:
		if at, ok := untoken(v); ok {
			return at, nil
		}
	}
	return l.bad(p)
}

func (l *List) bad(p part) (int, *answer) {
	switch l.spec.Paging.Bad {
	case "first":
		return 0, nil
	case "empty":
		return len(p.allRows), nil
	}
	a := refuse(http.StatusBadRequest, "invalid cursor")
	return 0, &a
}

func (l *List) afterID(v string, p part) (int, *answer) {
	i := slices.IndexFunc(p.allRows, func(r row) bool { return l.spec.Records.idText(r.id) == v })
	if i < 0 {
		return l.bad(p)
	}
	return i + 1, nil
}

func (l *List) afterMoment(v string, p part) (int, *answer) {
	at, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return l.bad(p)
	}
	minutes := int(at.Sub(epoch) / time.Minute)
	for i, r := range p.allRows {
		if created := 7 * r.n; l.spec.Records.Order == OrderOldest && created > minutes || l.spec.Records.Order == OrderNewest && created < minutes {
			return i, nil
		}
	}
	return len(p.allRows), nil
}

func (l *List) token(at int, p part) string {
	g := l.spec.Paging
	switch {
	case g.Kind == KindPage:
		return strconv.Itoa(at/p.size + g.Base)
	case g.Kind == KindOffset:
		return strconv.Itoa(at + g.Base)
	case g.Kind == KindMoment && at > 0:
		return moment(7 * p.allRows[at-1].n)
	case (g.Kind == KindKeyset || g.Form == "id") && at > 0:
		return l.spec.Records.idText(p.allRows[at-1].id)
	case g.Form == "offset":
		return strconv.Itoa(at)
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "at:%d", at))
}

func untoken(v string) (int, bool) {
	b, err := base64.RawURLEncoding.DecodeString(v)
	text, ok := strings.CutPrefix(string(b), "at:")
	at, bad := strconv.Atoi(text)
	return at, err == nil && ok && bad == nil && at >= 0
}
