package paging

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

func (p *Progress) tokenParams(s Signals) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Next)) {
		if s.Next.Get(name) == s.Token {
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
	return records.Unique(append(names, words.TokenParameters(own)...))
}

// withoutNext turns nextPageToken into pageToken, and next_cursor into cursor. It returns "" for names without
// "next".
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

func plainIdentifier(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}
