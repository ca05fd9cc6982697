package proof

import (
	"fmt"
	"strconv"
	"strings"
)

// Doubt is a reason not to trust a pass. The field Most is the best verdict that a pass can get while the doubt
// applies.
type Doubt struct {
	Name    string
	Most    Verdict
	lasting bool // the doubt remains if the list is read again
	holds   func(*Facts) bool
	reason  func(*Facts) string // the reason, as text for users
}

const (
	passing = false // if the list is read again, the doubt may be gone
	lasts   = true  // if the list is read again, the doubt remains
)

// doubts lists all doubts. A new doubt needs a field in [Facts], a line here, and a property in the tests of this
// package.
var doubts = []Doubt{
	{"total changed", Contradicted, passing, totalChanged, func(f *Facts) string {
		return fmt.Sprintf("the source states %d records on the first page and %d on the last, and %d distinct records arrived", int64(f.FirstTotal), int64(f.LastTotal), f.Listed())
	}},
	{"total not met", Contradicted, passing, totalNotMet, func(f *Facts) string {
		text := fmt.Sprintf("the source states %d records, and %d distinct records arrived", int64(f.stated()), f.Listed())
		if f.Gaps > 0 {
			text += fmt.Sprintf(", %d others cannot be read", f.Gaps)
		}
		return text
	}},

	{"unreadable records", Unproven, lasts, func(f *Facts) bool { return f.Gaps > 0 }, func(f *Facts) string {
		return fmt.Sprintf("%s cannot be read: %s", Count(f.Gaps, ""), f.Gap)
	}},
	{"unstored records", Unproven, lasts, func(f *Facts) bool { return f.Unstored > 0 }, func(f *Facts) string {
		return Count(f.Unstored, "") + " could not be stored"
	}},
	{"incomplete answer", Unproven, passing, func(f *Facts) bool { return len(f.Incomplete) > 0 }, func(f *Facts) string {
		return "the source says that its answer is incomplete: " + strings.Join(f.Incomplete, ", ")
	}},
	{"unexplained signal", Unproven, lasts, func(f *Facts) bool { return f.openSignal() != "" || ends[f.Rule].known == "" }, func(f *Facts) string {
		if f.openSignal() == "" {
			return "the list ended by a rule that penstock does not know: " + strconv.Quote(f.Rule)
		}
		return "the answer contains an unexplained sign of more records: " + f.openSignal()
	}},
	{"usual length", Unproven, lasts, usualLength, func(f *Facts) string {
		return fmt.Sprintf("the list has %d records, a usual page size, and nothing shows that there are no more", f.Listed())
	}},
	{"overlapping pages", Unproven, passing, func(f *Facts) bool { return f.Alike > 0 }, func(f *Facts) string {
		return Count(int64(f.Alike), "") + " appeared on two consecutive pages, and there is no key to tell them apart"
	}},
	{"twin has more", Unproven, passing, func(f *Facts) bool { return f.Twin != nil && f.Twin.There > 0 }, func(f *Facts) string {
		return fmt.Sprintf("%s has %s that this list lacks", f.Twin.Of, Count(f.Twin.There, "", f.Twin.Examples...))
	}},
	{"doubtful parents", Unproven, passing, func(f *Facts) bool { return f.OfParents() && f.Parent != "" && f.Parent.Doubtful() }, func(f *Facts) string {
		return fmt.Sprintf("the list of parents is only %s", f.Parent)
	}},
	{"refuted key", Unproven, lasts, func(f *Facts) bool { return f.Clashes > 0 }, func(f *Facts) string {
		return fmt.Sprintf("the key is not unique: %s because another record has the same key (%s)", wereRejected(f.Clashes), f.Clash)
	}},
	{"duplicates not compared", Unproven, lasts, func(f *Facts) bool { return f.Uncompared > 0 }, func(f *Facts) string {
		return Count(f.Uncompared, "") + " arrived twice, and there were too many keys to compare their content"
	}},
	{"repeated records", Unproven, passing, func(f *Facts) bool { return f.Differing > 0 || f.Repeats() > 0 }, (*Facts).repeated},
	{"end changed", Unproven, passing, func(f *Facts) bool { return f.Shifted > 0 }, func(*Facts) string {
		return "the end of the list had changed when it was requested again"
	}},
	{"total moved", Unproven, passing, func(f *Facts) bool { return f.Moved > 0 }, func(f *Facts) string {
		return fmt.Sprintf("the total changed %d times while the list was read", f.Moved)
	}},
	{"readings differ", Unproven, passing, readingsDiffer, (*Facts).compared},

	{"part of the list", Consistent, passing, func(f *Facts) bool { return !f.whole() || f.OfWindows() }, (*Facts).part},
	{"nothing shown", Consistent, passing, (*Facts).Empty, func(*Facts) string { return "no records arrived (a user without permission gets none either)" }},
	{"round size", Consistent, lasts, (*Facts).Cut, func(f *Facts) string {
		if f.steady() {
			return fmt.Sprintf("the list has %d records again although some of them are new, so it may have been cut at this number", f.Listed())
		}
		return fmt.Sprintf("the list may have been cut at %d records", f.Listed())
	}},
	{"uneven pages", Consistent, lasts, func(f *Facts) bool { return f.Uneven > 0 && f.LastTotal < 0 }, func(f *Facts) string {
		return fmt.Sprintf("%d pages before the last had fewer records than an earlier page", f.Uneven)
	}},
	{"pages not shown", Consistent, lasts, func(f *Facts) bool { return f.Unshown && !f.settled() }, func(*Facts) string {
		return "only the first page ever had records, so it is unknown how further pages are requested"
	}},
	{"earlier reading", Consistent, lasts, func(f *Facts) bool { return f.Earlier > 0 && f.LastTotal < 0 }, func(f *Facts) string {
		return "an earlier reading found " + Count(f.Earlier, "other ")
	}},
	{"cache", Consistent, lasts, func(f *Facts) bool { return f.Stale > 0 }, func(*Facts) string { return "some pages came from a cache" }},
}

func (d *Doubt) applies(f *Facts) bool { return d.Name != f.without && d.holds(f) }

func (f *Facts) repeated() string {
	var words []string
	if f.Differing > 0 {
		words = append(words, Count(f.Differing, "")+" arrived twice with different content, and may have changed while they were read")
	}
	if f.Repeats() > 0 {
		words = append(words, Count(f.Repeats(), "")+" appeared on two pages each")
	}
	return strings.Join(words, ", ")
}

func (f *Facts) part() string {
	var words []string
	if f.Partial {
		words = append(words, "an incremental pass leaves out unchanged records")
	}
	if f.OfWindows() {
		words = append(words, fmt.Sprintf("only %d time windows were requested", f.Windows))
	}
	if f.Resumed {
		words = append(words, "an earlier run began the pass")
	}
	return strings.Join(words, ", ")
}

func wereRejected(n int64) string {
	if n == 1 {
		return "1 record was rejected"
	}
	return fmt.Sprintf("%d records were rejected", n)
}

func totalChanged(f *Facts) bool { return !f.FirstTotal.agrees(f.LastTotal) }

// totalNotMet reports whether the stated total differs from the number of records that arrived. Records that could not
// be read count as arrived. A resumed pass is not compared.
func totalNotMet(f *Facts) bool {
	return f.stated() >= 0 && !f.Resumed && int64(f.stated()) != f.Listed()+f.Gaps
}

// stated returns the total of the last page. If the last page states none, it returns the total of the first page.
func (f *Facts) stated() Total {
	if f.LastTotal < 0 {
		return f.FirstTotal
	}
	return f.LastTotal
}

// usualLength reports whether a single page may be the first of several: its number of records is a usual page size,
// and only probes say that no other page exists. If the list was longer in an earlier pass, it was not cut at this page
// size. Then the list is in doubt only if no page except the first has ever had records.
func usualLength(f *Facts) bool {
	return f.Guessed && f.Rule == "one_page" && f.Round && f.LastTotal < 0 && (f.Cut() || f.Unshown)
}

// readingsDiffer reports whether two whole readings found different records. If the stated total equals the records
// of this reading, the difference does not matter.
func readingsDiffer(f *Facts) bool {
	return f.Second == OtherRecords && !f.settled() && !oneObject(f)
}

// openSignal returns the first unexplained signal; "" if there is none. A total that was met explains every signal,
// except a signal that states a larger number.
func (f *Facts) openSignal() string {
	for _, s := range f.Unexplained {
		if !f.settled() || beyond(s, f.Distinct) {
			return s
		}
	}
	return ""
}

func beyond(signal string, n int64) bool {
	at := strings.LastIndex(signal, ": ")
	if at < 0 {
		return false
	}
	value, err := strconv.ParseInt(strings.Trim(signal[at+2:], `"`), 10, 64)
	return err == nil && value > n
}
