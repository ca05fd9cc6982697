package schemas

import (
	"regexp"
	"slices"
	"strings"
)

// NamesAddress reports whether the name of a member for the next page says that its value is an address: nextPageUrl.
func (v *Vocabulary) NamesAddress(name string) bool {
	return containsAny(FoldName(name), v.Addresses.Parts)
}

// NoToken reports whether a token with this value means that there is no next page: "", "0" or "none".
func (v *Vocabulary) NoToken(value string) bool {
	return slices.Contains(v.NoTokens, strings.ToLower(value))
}

// FirstToken reports whether a token parameter with this value requests the beginning of the list: ?cursor=*.
func (v *Vocabulary) FirstToken(value string) bool {
	return slices.Contains(v.FirstTokens, strings.ToLower(value))
}

// Estimates reports whether a number with this name is an estimate of the total.
func (v *Vocabulary) Estimates(name string) bool {
	return containsAny(FoldName(name), v.EstimateParts)
}

// Continues reports whether a name suggests that there are more records, although it has no role: resumeKey.
func (v *Vocabulary) Continues(name string) bool {
	word, c := FoldName(name), v.Continuation
	return containsAny(word, c.Parts) && !containsAny(word, c.Without) && !beginsWithAny(word, c.NotFirst)
}

// NeverCounts reports whether a number with this name cannot be a count of records, because it is an id, a time or an
// amount.
func (v *Vocabulary) NeverCounts(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")), func(c rune) bool { return strings.ContainsRune("_-. ", c) })
	return len(words) > 0 && slices.Contains(v.NotCounts.Last, words[len(words)-1]) ||
		slices.ContainsFunc(words, func(w string) bool { return slices.Contains(v.NotCounts.Anywhere, w) })
}

var camel = regexp.MustCompile("([a-z0-9])([A-Z])")

// NotRecords reports whether a list with this exact name, beside the records, contains no records.
func (v *Vocabulary) NotRecords(name string) bool {
	return slices.Contains(v.NoRecords.Names, name) || beginsWithAny(strings.ToLower(name), v.NoRecords.First)
}

// ListType reports whether an object that states this type is a list.
func (v *Vocabulary) ListType(name string) bool {
	return containsAny(strings.ToLower(name), v.ListTypes.Parts)
}

// HeaderOfPages reports whether a header with this name may be about paging.
func (v *Vocabulary) HeaderOfPages(name string) bool {
	name = strings.ToLower(name)
	return containsAny(name, v.HeaderParts.Paging) && !containsAny(name, v.HeaderParts.Other)
}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

func beginsWithAny(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}
