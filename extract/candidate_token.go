package extract

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/penstock-data/penstock/schemas"
)

// tokenParams returns the parameters that may take the answer's token, the likeliest first: the
// parameters with the same value in the next link, the token's own name, that name as a member of
// the object around the token, such as page[cursor], that name without "next", and the usual
// parameters.
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
		if words.PageObject(in) {
			names = append(names, in+"[cursor]", in+"["+plain+"]")
		}
	}
	names = append(names, words.Spellings(schemas.ParamToken, plain)...)
	if bare != "" {
		names = append(append(names, bare), words.Spellings(schemas.ParamToken, bare)...)
	}
	return distinctNames(append(names, words.TokenParameters(own)...))
}

// withoutNext removes "next" from the beginning of a name and keeps its spelling: nextPageToken
// becomes pageToken. It returns "" for other names.
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

// plainIdentifier reports whether a name can be used before brackets: it has only letters and
// underscores.
func plainIdentifier(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}
