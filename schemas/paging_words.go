package schemas

import (
	"regexp"
	"slices"
	"strings"
)

// Incomplete reports whether a word says that an answer is not whole.
func (v *Vocabulary) Incomplete(word string) bool { return v.states[FoldName(word)] }

// Beside reports whether an object of this name beside the records speaks of pages.
func (v *Vocabulary) Beside(name string) bool { return v.beside[FoldName(name)] }

// Ignored reports whether an object of this name beside the records says nothing of
// the list.
func (v *Vocabulary) Ignored(name string) bool { return v.ignored[FoldName(name)] }

// PageRelation reports whether a link of this relation, prev or first, is one between
// the pages of a list.
func (v *Vocabulary) PageRelation(relation string) bool {
	return slices.Contains(v.file.Relations, FoldName(relation))
}

// LinkRelations and LinkTargets are the members of a link object that hold its
// relation and its target, LinkMarks those that show that it is a link. The usual ones
// come first, as they are spelled.
func (v *Vocabulary) LinkRelations() []string { return v.file.Links.Relation }

// LinkTargets is described with [Vocabulary.LinkRelations].
func (v *Vocabulary) LinkTargets() []string { return v.file.Links.Target }

// LinkMarks is described with [Vocabulary.LinkRelations].
func (v *Vocabulary) LinkMarks() []string { return v.file.Links.Marks }

// Address reports whether a member of an object for the next page holds its address.
func (v *Vocabulary) Address(name string) bool {
	return slices.Contains(v.file.Addresses.Members, FoldName(name))
}

// NamesAddress reports whether the name of a member for the next page says that it is
// an address: nextPageUrl.
func (v *Vocabulary) NamesAddress(name string) bool {
	return containsAny(FoldName(name), v.file.Addresses.Parts)
}

// TotalMembers are the members of an object for the total that hold it.
func (v *Vocabulary) TotalMembers() []string { return v.file.Totals.Members }

// LowerBound reports whether a total's relation says that there may be more records.
func (v *Vocabulary) LowerBound(relation string) bool {
	return slices.Contains(v.file.Totals.LowerBounds, FoldName(relation))
}

// CountsPages reports whether a member of this name shows that number and size beside
// it are those of the page.
func (v *Vocabulary) CountsPages(name string) bool {
	return slices.Contains(v.file.PageCounts, FoldName(name))
}

// NoToken reports whether a value in the place of a token says that there is no next
// page.
func (v *Vocabulary) NoToken(value string) bool {
	return slices.Contains(v.file.NoToken, strings.ToLower(value))
}

// FirstToken reports whether a value of a parameter for tokens only says where a list
// begins: ?cursor=*.
func (v *Vocabulary) FirstToken(value string) bool {
	return slices.Contains(v.file.FirstTokens, strings.ToLower(value))
}

// Estimates reports whether a number of this name is a guess of how many records there
// are.
func (v *Vocabulary) Estimates(name string) bool {
	return containsAny(FoldName(name), v.file.Estimates)
}

// Continues reports whether a name without a role speaks of more records.
func (v *Vocabulary) Continues(name string) bool {
	word, c := FoldName(name), v.file.Continuation
	return containsAny(word, c.Parts) && !containsAny(word, c.Without) && !beginsWithAny(word, c.NotFirst)
}

// NeverCounts reports whether a number under this name is not a number of records, but
// says who something is, when it was or what it is worth.
func (v *Vocabulary) NeverCounts(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")), func(c rune) bool { return strings.ContainsRune("_-. ", c) })
	return len(words) > 0 && slices.Contains(v.file.NotCounts.Last, words[len(words)-1]) ||
		slices.ContainsFunc(words, func(w string) bool { return slices.Contains(v.file.NotCounts.Anywhere, w) })
}

var camel = regexp.MustCompile("([a-z0-9])([A-Z])")

// Lists are the usual names of the member that holds the records, and Wrappers
// those of the member that holds the payload, in the order in which they are tried.
func (v *Vocabulary) Lists() []string { return v.file.Lists }

// Wrappers is described with [Vocabulary.Lists].
func (v *Vocabulary) Wrappers() []string { return v.file.Wrappers }

// NamesList reports whether a member of this name usually holds the records.
func (v *Vocabulary) NamesList(name string) bool {
	return slices.Contains(v.file.Lists, FoldName(name))
}

// NamesPayload reports whether a member of this name usually holds the payload.
func (v *Vocabulary) NamesPayload(name string) bool {
	return slices.Contains(v.file.Wrappers, FoldName(name))
}

// NotRecords reports whether a list of this name, as it is spelled, is beside the
// records and holds none.
func (v *Vocabulary) NotRecords(name string) bool {
	return slices.Contains(v.file.NotRecords.Names, name) || beginsWithAny(strings.ToLower(name), v.file.NotRecords.First)
}

// TypeMembers are the members in which an object states its type, as they are
// spelled.
func (v *Vocabulary) TypeMembers() []string { return v.file.ListTypes.Members }

// ListType reports whether a type that an object states is one of lists.
func (v *Vocabulary) ListType(name string) bool {
	return containsAny(strings.ToLower(name), v.file.ListTypes.Parts)
}

// ListMembers are members, as they are spelled, that an object with an id has only if
// it is a list.
func (v *Vocabulary) ListMembers() []string { return v.file.ListMembers }

// EnvelopeMembers are members, as they are spelled, that an object without an id has
// only if it is an envelope.
func (v *Vocabulary) EnvelopeMembers() []string { return v.file.EnvelopeMembers }

// EnvelopeWord reports whether a member of this name is usual beside records, and says
// nothing of pages.
func (v *Vocabulary) EnvelopeWord(name string) bool {
	return slices.Contains(v.file.EnvelopeWords, FoldName(name))
}

// RecordTokens are the members of a record, as they are spelled, after whose value a
// list may go on.
func (v *Vocabulary) RecordTokens() []string { return v.file.RecordTokens }

// HeaderOfPages reports whether a header of this name may state pages.
func (v *Vocabulary) HeaderOfPages(name string) bool {
	name = strings.ToLower(name)
	return containsAny(name, v.file.HeaderParts.Paging) && !containsAny(name, v.file.HeaderParts.Other)
}

// Drawn are the names that the sandbox draws from for one kind of name; the usual ones
// are repeated.
func (v *Vocabulary) Drawn(kind string) []string { return v.file.Sandbox[kind] }

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

func beginsWithAny(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}
