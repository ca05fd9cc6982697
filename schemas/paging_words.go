package schemas

import (
	"regexp"
	"slices"
	"strings"
)

// Incomplete reports whether word, the value of a member such as status, means that the answer is incomplete:
// {"status": "partial"}.
func (v *Vocabulary) Incomplete(word string) bool { return v.states[FoldName(word)] }

// Beside reports whether an object with this name, next to the records, is about paging.
func (v *Vocabulary) Beside(name string) bool { return v.beside[FoldName(name)] }

// Ignored reports whether an object with this name, next to the records, is unrelated to the list.
func (v *Vocabulary) Ignored(name string) bool { return v.ignored[FoldName(name)] }

// PageRelation reports whether a link relation leads to a page of the list other than the next one: prev, previous,
// first or last.
func (v *Vocabulary) PageRelation(relation string) bool {
	return slices.Contains(v.file.Relations, FoldName(relation))
}

// LinkRelations returns the names of the members that hold a link's relation (rel), LinkTargets of those that
// hold its target (href), and LinkMarks of those that show that an object is a link. The names are spelled as in
// answers, the usual ones first.
func (v *Vocabulary) LinkRelations() []string { return v.file.Links.Relation }

// LinkTargets is described at [Vocabulary.LinkRelations].
func (v *Vocabulary) LinkTargets() []string { return v.file.Links.Target }

// LinkMarks is described at [Vocabulary.LinkRelations].
func (v *Vocabulary) LinkMarks() []string { return v.file.Links.Marks }

// Address reports whether a member with this name holds the address in an object for the next page:
// {"next": {"href": …}}.
func (v *Vocabulary) Address(name string) bool {
	return slices.Contains(v.file.Addresses.Members, FoldName(name))
}

// NamesAddress reports whether the name of a next-page member means an address: nextPageUrl.
func (v *Vocabulary) NamesAddress(name string) bool {
	return containsAny(FoldName(name), v.file.Addresses.Parts)
}

// TotalMembers returns the names of the members that hold the number in an object for the total:
// {"total": {"value": 87}}.
func (v *Vocabulary) TotalMembers() []string { return v.file.Totals.Members }

// LowerBound reports whether a relation beside a total makes the total a lower bound:
// {"value": 10000, "relation": "gte"}.
func (v *Vocabulary) LowerBound(relation string) bool {
	return slices.Contains(v.file.Totals.LowerBounds, FoldName(relation))
}

// CountsPages reports whether a member with this name shows that the members "number" and "size" of the same
// object are the page number and the page size.
func (v *Vocabulary) CountsPages(name string) bool {
	return slices.Contains(v.file.PageCounts, FoldName(name))
}

// NoToken reports whether the value of a token means that there is no next page: "", "0" or "none".
func (v *Vocabulary) NoToken(value string) bool {
	return slices.Contains(v.file.NoToken, strings.ToLower(value))
}

// FirstToken reports whether the value of a token parameter means the beginning of the list: ?cursor=*.
func (v *Vocabulary) FirstToken(value string) bool {
	return slices.Contains(v.file.FirstTokens, strings.ToLower(value))
}

// Estimates reports whether a number with this name is an estimated total.
func (v *Vocabulary) Estimates(name string) bool {
	return containsAny(FoldName(name), v.file.Estimates)
}

// Continues reports whether the name of a member without a role suggests that there are more records: resumeKey.
func (v *Vocabulary) Continues(name string) bool {
	word, c := FoldName(name), v.file.Continuation
	return containsAny(word, c.Parts) && !containsAny(word, c.Without) && !beginsWithAny(word, c.NotFirst)
}

// NeverCounts reports whether a number with this name is no count of records, but an id, a time or an amount.
func (v *Vocabulary) NeverCounts(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")), func(c rune) bool { return strings.ContainsRune("_-. ", c) })
	return len(words) > 0 && slices.Contains(v.file.NotCounts.Last, words[len(words)-1]) ||
		slices.ContainsFunc(words, func(w string) bool { return slices.Contains(v.file.NotCounts.Anywhere, w) })
}

var camel = regexp.MustCompile("([a-z0-9])([A-Z])")

// Lists returns the usual names of the member that holds the records, and Wrappers of the member that holds the
// payload, in the order in which they are tried.
func (v *Vocabulary) Lists() []string { return v.file.Lists }

// Wrappers is described at [Vocabulary.Lists].
func (v *Vocabulary) Wrappers() []string { return v.file.Wrappers }

// NamesList reports whether a member of this name usually holds the records.
func (v *Vocabulary) NamesList(name string) bool {
	return slices.Contains(v.file.Lists, FoldName(name))
}

// NamesPayload reports whether a member of this name usually holds the payload.
func (v *Vocabulary) NamesPayload(name string) bool {
	return slices.Contains(v.file.Wrappers, FoldName(name))
}

// NotRecords reports whether a list with this exact name, next to the records, does not contain records.
func (v *Vocabulary) NotRecords(name string) bool {
	return slices.Contains(v.file.NotRecords.Names, name) || beginsWithAny(strings.ToLower(name), v.file.NotRecords.First)
}

// TypeMembers returns the names, as spelled, of the members in which an object states its type.
func (v *Vocabulary) TypeMembers() []string { return v.file.ListTypes.Members }

// ListType reports whether the stated type of an object means a list.
func (v *Vocabulary) ListType(name string) bool {
	return containsAny(strings.ToLower(name), v.file.ListTypes.Parts)
}

// ListMembers returns the names, as spelled, of the members that mark an object with an id as a list.
func (v *Vocabulary) ListMembers() []string { return v.file.ListMembers }

// EnvelopeMembers returns the names, as spelled, of the members that mark an object without an id as an envelope: an
// object around the payload.
func (v *Vocabulary) EnvelopeMembers() []string { return v.file.EnvelopeMembers }

// EnvelopeWord reports whether a member with this name is common next to records, and unrelated to paging.
func (v *Vocabulary) EnvelopeWord(name string) bool {
	return slices.Contains(v.file.EnvelopeWords, FoldName(name))
}

// RecordTokens returns the names, as spelled, of record members. The value of such a member in the last record may
// request the next page.
func (v *Vocabulary) RecordTokens() []string { return v.file.RecordTokens }

// HeaderOfPages reports whether a header with this name may be about paging.
func (v *Vocabulary) HeaderOfPages(name string) bool {
	name = strings.ToLower(name)
	return containsAny(name, v.file.HeaderParts.Paging) && !containsAny(name, v.file.HeaderParts.Other)
}

// Drawn returns the names of one kind from which the sandbox chooses at random. The kinds are listed under `sandbox`
// in the vocabulary. Usual names are repeated, so that they are chosen more often.
func (v *Vocabulary) Drawn(kind string) []string { return v.file.Sandbox[kind] }

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

func beginsWithAny(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}
