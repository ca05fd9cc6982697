package proof

import (
	"fmt"
	"strings"
)

func (f *Facts) lacks() []string {
	var words []string
	switch {
	case f.Partial:
	case f.OfWindows():
		words = f.shortLists("of them")
	case f.OfParents():
		words = f.lacksOfParents()
	default:
		switch {
		case f.LastTotal < 0:
			words = append(words, "no total")
		case f.Filtered > 0:
			words = append(words, "the filter left out records, so distinct records cannot be counted")
		case f.Keyless:
			words = append(words, "no key to identify the records that the total counts")
		}
		words = append(words, ends[f.Rule].words)
	}
	words = append(words, f.against(Consistent)...)
	if compared := f.compared(); compared != "" && !f.Partial && !f.OfParents() && !f.OfWindows() && !f.Resumed {
		words = append(words, compared)
	}
	return words
}

func (f *Facts) lacksOfParents() []string {
	var words []string
	switch {
	case f.Gone == f.Parents && f.Parents > 0:
		words = append(words, fmt.Sprintf("all %d parents are gone", f.Parents))
	case f.Parent == "":
		words = append(words, "the list of parents was not judged")
	case f.Parent != Proven:
		words = append(words, fmt.Sprintf("the list of parents is only %s", f.Parent))
	case f.Skipped > 0 && !f.OnePerItem:
		words = append(words, fmt.Sprintf("%d unchanged parents were not requested", f.Skipped))
	}
	return append(words, f.shortLists("parents")...)
}

func (f *Facts) shortLists(of string) []string {
	if f.ShortLists == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the lists of %d %s may have been cut", f.ShortLists, of)}
}

func (f *Facts) compared() string {
	switch {
	case f.Second == "" && f.Reread:
		return "read twice with the same result"
	case f.Second == "":
		return "read once"
	case f.Second == SameRecords:
		return "a second reading found the same records"
	case f.Others == nil:
		return "a second reading found different records"
	}
	switch here, there := f.Others.Here, f.Others.There; {
	case there == 0:
		return "a second reading found " + Count(here, "other ")
	case here == 0:
		return "a second reading lacked " + Count(there, "", f.Others.Examples...) + " of the first reading"
	default:
		return fmt.Sprintf("a second reading found %s and lacked %d records of the first reading", Count(here, "other "), there)
	}
}

// Count formats a number of records, with examples of their keys: "3 other records (7, 9, …)".
func Count(n int64, other string, examples ...string) string {
	text := fmt.Sprintf("%d %srecords", n, other)
	if n == 1 {
		text = "1 " + other + "record"
	}
	if len(examples) > 0 {
		text += " (" + strings.Join(examples, ", ")
		if int64(len(examples)) < n {
			text += ", …"
		}
		text += ")"
	}
	return text
}
