package schemas

import (
	"regexp"
	"slices"
	"strings"
)

// NamesAddress reports whether the name of a member for the next page says that the value is an address, as nextPageUrl
// does.
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

// Continues reports whether a name without a role suggests that there are more records, as resumeKey does.
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

// ListType reports whether an object is a list because of the type that it states, such as {"kind": "customerList"}.
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

// Pagers returns the types of paging, as they are named in the configuration.
func (v *Vocabulary) Pagers() []string {
	all := []string{"none"}
	for _, p := range v.PagerTypes {
		all = append(all, p.Type)
	}
	return all
}

// Parameters returns the request parameters with this meaning, such as [ParamPage]. The usual ones come first.
func (v *Vocabulary) Parameters(meaning string) []string { return v.Meanings[meaning] }

// Parameter reports whether a request parameter has this meaning. The spelling of its name does not matter.
func (v *Vocabulary) Parameter(meaning, name string) bool {
	return v.parameters[meaning][FoldName(name)]
}

// Spellings returns the parameters with this meaning that are spellings of name, such as pageSize for page_size. The
// usual ones come first.
func (v *Vocabulary) Spellings(meaning, name string) []string {
	word := FoldName(name)
	return slices.DeleteFunc(slices.Clone(v.Meanings[meaning]), func(p string) bool { return FoldName(p) != word })
}

// TokenParameters returns the request parameters that may send a token. The argument is the name of the token in the
// answer. The two names may differ: for example, the token endCursor is sent as ?after= or as ?cursor=.
func (v *Vocabulary) TokenParameters(name string) []string {
	return v.SentTokens[FoldName(name)]
}

// TimeField reports whether a field with this name contains times.
func (v *Vocabulary) TimeField(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(v.Fields.Times, func(end string) bool { return strings.HasSuffix(name, end) })
}

// ChangeField reports whether a time field with this name is the time of the last change.
func (v *Vocabulary) ChangeField(name string) bool {
	return containsAny(withoutExchange(name), v.Fields.Changed)
}

// CreationField reports whether a time field with this name is the time of creation.
func (v *Vocabulary) CreationField(name string) bool {
	return containsAny(withoutExchange(name), v.Fields.Created) && !v.ChangeField(name)
}

// MoneyField reports whether a field with this name contains amounts of money.
func (v *Vocabulary) MoneyField(name string) bool { return beginsWithAny(name, v.Fields.Money) }

// withoutExchange removes "exchange" from a name. This word contains "chang", but does not mean a change.
func withoutExchange(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "exchange", "")
}
