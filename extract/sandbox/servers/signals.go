package servers

import (
	"fmt"
	"net/url"
	"strconv"
)

var sayings = map[string]func(l *List, p part, shown int) any{
	"total":         func(l *List, p part, _ int) any { return len(l.shown(p.allRows)) },
	"total here":    func(_ *List, _ part, shown int) any { return shown },
	"total rounded": func(_ *List, p part, _ int) any { return (len(p.allRows) + 9) / 10 * 10 },
	"total low":     func(_ *List, p part, _ int) any { return max(len(p.allRows)-3, 0) },
	"count":         func(_ *List, _ part, shown int) any { return shown },
	"page":          func(l *List, p part, _ int) any { return p.page + l.spec.Paging.Base },
	"page stuck":    func(l *List, _ part, _ int) any { return l.spec.Paging.Base }, // always the first page
	"pages":         func(_ *List, p part, _ int) any { return max((len(p.allRows)+p.size-1)/p.size, 1) },
	"size":          func(_ *List, p part, _ int) any { return p.size },
	"offset":        func(l *List, p part, _ int) any { return p.from + l.spec.Paging.Base },
	"remaining":     func(_ *List, p part, _ int) any { return len(p.allRows) - p.to },
	"more":          func(_ *List, p part, _ int) any { return !p.end },
	"last":          func(_ *List, p part, _ int) any { return p.end },
	"from":          func(_ *List, p part, _ int) any { return min(p.from+1, p.to) },
	"to":            func(_ *List, p part, _ int) any { return p.to },
	"range":         contentRange,
	"request":       func(l *List, _ part, _ int) any { return fmt.Sprintf("req_%06x", 0x9E37*(l.requests+1)) },
}

func contentRange(_ *List, p part, _ int) any {
	if len(p.rows) == 0 {
		return fmt.Sprintf("items */%d", len(p.allRows))
	}
	return fmt.Sprintf("items %d-%d/%d", p.from, p.to-1, len(p.allRows))
}

func (l *List) say(s Signal, q request, p part, shown int) (v any, said bool) {
	if l.run < s.Run || s.Every > 0 && p.page%s.Every != 0 {
		return nil, false
	}
	if s.Says == "constant" {
		return s.Value, true
	}
	if f := sayings[s.Says]; f != nil {
		return encodeValue(f(l, p, shown), s.As), true
	}
	at := p.to
	if p.end {
		switch s.End {
		case "":
			if s.Says == "next links" {
				return []any{l.link(s, q, p, "self", p.from)}, true
			}
			if s.Says == "next header" {
				return nil, false
			}
			return nil, true
		case "absent":
			return nil, false
		case "empty":
			return "", true
		case "false":
			return false, true
		case "zero":
			return "0", true
		case "self": // a cursor that leads to the same page
			at = p.from
		}
	}
	return l.next(s, q, p, at), true
}

func (l *List) next(s Signal, q request, p part, at int) any {
	switch s.Says {
	case "next":
		if s.As == "number" {
			if n, err := strconv.Atoi(l.token(at, p)); err == nil {
				return n
			}
		}
		return l.token(at, p)
	case "next links":
		return []any{l.link(s, q, p, "self", p.from), l.link(s, q, p, "next", at)}
	case "next object":
		return map[string]any{"href": l.address(s, q, p, at)}
	case "next header":
		return fmt.Sprintf(`<%s>; rel="next"`, l.address(s, q, p, at))
	}
	return l.address(s, q, p, at) // next url
}

func (l *List) link(s Signal, q request, p part, rel string, at int) any {
	return map[string]any{"rel": rel, "href": l.address(s, q, p, at)}
}

func (l *List) address(s Signal, q request, p part, at int) string {
	v := url.Values{}
	if l.spec.Size.Param != "" && q.values[l.spec.Size.Param] != "" {
		v.Set(l.spec.Size.Param, q.values[l.spec.Size.Param])
	}
	if at > 0 || l.spec.Paging.Kind == KindPage || l.spec.Paging.Kind == KindOffset {
		v.Set(l.spec.Paging.Param, l.token(at, p))
	}
	base := q.url
	switch s.Host {
	case "inner":
		base = "http://inner.example:8080" + q.path
	case "relative":
		base = q.path
	case "query":
		base = ""
	}
	if len(v) == 0 {
		return base
	}
	return base + "?" + v.Encode()
}

func encodeValue(v any, as string) any {
	yes, isBool := v.(bool)
	switch {
	case as == "text":
		return fmt.Sprint(v)
	case as == "number" && isBool:
		if yes {
			return 1
		}
		return 0
	case as == "yesno" && isBool:
		if yes {
			return "Y"
		}
		return "N"
	}
	return v
}
