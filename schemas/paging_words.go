package schemas

import (
	"regexp"
	"slices"
	"strings"
)

// Incomplete reports whether a word means that the answer is incomplete. The word is the value of a member such as
// status: {"status": "partial"}.
func (v *Vocabulary) Incomplete(word string) bool { return v.states[FoldName(word)] }

// Beside reports whether an object with this name, beside the records, is about paging.
func (v *Vocabulary) Beside(name string) bool { return v.beside[FoldName(name)] }

// Ignored reports whether an object with this name, beside the records, is unrelated to the list.
func (v *Vocabulary) Ignored(name string) bool { return v.ignored[FoldName(name)] }

// PageRelation reports whether a link with this relation leads to a page of the list other than the next one. Such
// relations are prev, previous, first and last.
func (v *Vocabulary) PageRelation(relation string) bool {
	return slices.Contains(v.file.Relations, FoldName(relation))
}

// LinkRelations returns the names of members that hold the relation of a link, such as rel. They are spelled as in
// answers, the usual ones first.
func (v *Vocabulary) LinkRelations() []string { return v.file.Links.Relation }

// LinkTargets returns the names of members that hold the target of a link, such as href. They are spelled as in
// answers, the usual ones first.
func (v *Vocabulary) LinkTargets() []string { return v.file.Links.Target }

// LinkMarks returns the names of members that show that an object is a link. They are spelled as in answers, the
// usual ones first.
func (v *Vocabulary) LinkMarks() []string { return v.file.Links.Marks }

// Address reports whether a member with this name holds the address of the next page, inside an object for the next
// page: {"next": {"href": …}}.
func (v *Vocabulary) Address(name string) bool {
	return slices.Contains(v.file.Addresses.Members, FoldName(name))
}

// NamesAddress reports whether the name of a member for the next page says that its value is an address: nextPageUrl.
func (v *Vocabulary) NamesAddress(name string) bool {
	return containsAny(FoldName(name), v.file.Addresses.Parts)
}

// TotalMembers returns the names of members that hold the number inside an object for the total: {"total": {"value":
// 87}}.
func (v *Vocabulary) TotalMembers() []string { return v.file.Totals.Members }

// LowerBound reports whether a relation beside a total means that the list has at least that many records: {"value":
// 10000, "relation": "gte"}.
func (v *Vocabulary) LowerBound(relation string) bool {
	return slices.Contains(v.file.Totals.LowerBounds, FoldName(relation))
}

// CountsPages reports whether a member with this name is a sign of paging. If an object has such a member, its
// members "number" and "size" are the page number and the page size.
func (v *Vocabulary) CountsPages(name string) bool {
	return slices.Contains(v.file.PageCounts, FoldName(name))
}

// NoToken reports whether a token with this value means that there is no next page: "", "0" or "none".
func (v *Vocabulary) NoToken(value string) bool {
	return slices.Contains(v.file.NoToken, strings.ToLower(value))
}

// FirstToken reports whether a token parameter with this value requests the beginning of the list: ?cursor=*.
func (v *Vocabulary) FirstToken(value string) bool {
	return slices.Contains(v.file.FirstTokens, strings.ToLower(value))
}

// Estimates reports whether a number with this name is an estimate of the total.
func (v *Vocabulary) Estimates(name string) bool {
	return containsAny(FoldName(name), v.file.Estimates)
}

// Continues reports whether a name suggests that there are more records, although it has no role: resumeKey.
func (v *Vocabulary) Continues(name string) bool {
	word, c := FoldName(name), v.file.Continuation
	return containsAny(word, c.Parts) && !containsAny(word, c.Without) && !beginsWithAny(word, c.NotFirst)
}

// NeverCounts reports whether a number with this name cannot be a count of records, because it is an id, a time or an
// amount.
func (v *Vocabulary) NeverCounts(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")), func(c rune) bool { return strings.ContainsRune("_-. ", c) })
	return len(words) > 0 && slices.Contains(v.file.NotCounts.Last, words[len(words)-1]) ||
		slices.ContainsFunc(words, func(w string) bool { return slices.Contains(v.file.NotCounts.Anywhere, w) })
}

var camel = regexp.MustCompile("([a-z0-9])([A-Z])")

// Lists returns the usual names of the member that holds the records, in the order in which they are tried.
func (v *Vocabulary) Lists() []string { return v.file.Lists }

// Wrappers returns the usual names of the member that holds the payload, in the order in which they are tried.
func (v *Vocabulary) Wrappers() []string { return v.file.Wrappers }

// NamesList reports whether a member of this name usually holds the records.
func (v *Vocabulary) NamesList(name string) bool {
	return slices.Contains(v.file.Lists, FoldName(name))
}

// NamesPayload reports whether a member of this name usually holds the payload.
func (v *Vocabulary) NamesPayload(name string) bool {
	return slices.Contains(v.file.Wrappers, FoldName(name))
}

// NotRecords reports whether a list with this exact name, beside the records, contains no records.
func (v *Vocabulary) NotRecords(name string) bool {
	return slices.Contains(v.file.NotRecords.Names, name) || beginsWithAny(strings.ToLower(name), v.file.NotRecords.First)
}

// TypeMembers returns the names of the members in which an object states its type. They are spelled as in answers.
func (v *Vocabulary) TypeMembers() []string { return v.file.ListTypes.Members }

// ListType reports whether an object that states this type is a list.
func (v *Vocabulary) ListType(name string) bool {
	return containsAny(strings.ToLower(name), v.file.ListTypes.Parts)
}

// ListMembers returns the names of the members that mark an object with an id as a list. They are spelled as in
// answers.
func (v *Vocabulary) ListMembers() []string { return v.file.ListMembers }

// EnvelopeMembers returns the names of the members that mark an object without an id as an envelope: an object around
// the payload. They are spelled as in answers.
func (v *Vocabulary) EnvelopeMembers() []string { return v.file.EnvelopeMembers }

// EnvelopeWord reports whether a member with this name is common beside the records and unrelated to paging.
func (v *Vocabulary) EnvelopeWord(name string) bool {
	return slices.Contains(v.file.EnvelopeWords, FoldName(name))
}

// RecordTokens returns the names of members of records whose value may request the next page: the value of the last
// record is sent. They are spelled as in answers.
func (v *Vocabulary) RecordTokens() []string { return v.file.RecordTokens }

// HeaderOfPages reports whether a header with this name may be about paging.
func (v *Vocabulary) HeaderOfPages(name string) bool {
	name = strings.ToLower(name)
	return containsAny(name, v.file.HeaderParts.Paging) && !containsAny(name, v.file.HeaderParts.Other)
}

// Drawn returns the names of one kind from which the sandbox chooses at random. The kinds are listed under `sandbox`
// in the vocabulary. Common names are repeated, so that the sandbox chooses them more often.
func (v *Vocabulary) Drawn(kind string) []string { return v.file.Sandbox[kind] }

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

func beginsWithAny(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}
