package extract

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

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
	all := records.Unique(append(first, words.Parameters(schemas.ParamSize)...))
	return slices.DeleteFunc(all, func(name string) bool { return nestsPage(name, hint.Page) || nestsPage(hint.Page, name) })
}

// nestsPage reports whether a is a member of b: page[size] is a member of page. A request with both is invalid.
func nestsPage(a, b string) bool {
	in, _, ok := strings.Cut(a, "[")
	return ok && in == b
}

func cutBracket(name string) (in, member string, ok bool) {
	in, rest, ok := strings.Cut(name, "[")
	return in, strings.TrimSuffix(rest, "]"), ok && strings.HasSuffix(rest, "]") && in != "" && !strings.Contains(rest[:len(rest)-1], "]")
}

const largestPage = 1000
