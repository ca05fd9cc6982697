package proof

import (
	"fmt"
	"strconv"
	"strings"
)

// Doubt is a rule that allows no better verdict than Most while it holds.
type Doubt struct {
	Name    string
	Most    Verdict
	lasting bool // whether it stays when the list is read again
	holds   func(*Facts) bool
	says    func(*Facts) string // why, for people
}

// applies reports whether the doubt holds, unless f is without it.
func (d *Doubt) applies(f *Facts) bool { return d.Name != f.without && d.holds(f) }

const (
	passing = false // another reading of the list may be without it
	lasts   = true  // another reading would have it as well
)

// doubts are all there are. To add one, add a field to [Facts], a line here, and
// a property to the tests of this package.
var doubts = []Doubt{
	{"total changed", Contradicted, passing, totalChanged, func(f *Facts) string {
		return fmt.Sprintf("the source states %d records at first and %d at the end, and %d distinct records arrived", int64(f.FirstTotal), int64(f.LastTotal), f.Listed())
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
			return "the list ended by a rule that proves nothing: " + strconv.Quote(f.Rule)
		}
		return "the answer holds a sign of more records that nothing explains: " + f.openSignal()
	}},
	{"usual length", Unproven, lasts, usualLength, func(f *Facts) string {
		return fmt.Sprintf("the list has %d records, as a page has by habit, and nothing shows that there are no more", f.Listed())
	}},
	{"overlapping pages", Unproven, passing, func(f *Facts) bool { return f.Alike > 0 }, func(f *Facts) string {
		return Count(int64(f.Alike), "") + " came on two pages in a row, and no key tells them apart"
	}},
	{"twin has more", Unproven, passing, func(f *Facts) bool { return f.Twin != nil && f.Twin.There > 0 }, func(f *Facts) string {
		return fmt.Sprintf("%s has %s that this list lacks", f.Twin.Of, Count(f.Twin.There, "", f.Twin.Examples...))
	}},
	{"doubtful parents", Unproven, passing, func(f *Facts) bool { return f.OfParents() && f.Parent != "" && f.Parent.Doubtful() }, func(f *Facts) string {
		return fmt.Sprintf("the list of parents is only %s", f.Parent)
	}},
	{"refuted key", Unproven, lasts, func(f *Facts) bool { return f.Clashes > 0 }, func(f *Facts) string {
		return fmt.Sprintf("the key does not tell all records apart: %s, as another record has the key (%s)", wereRejected(f.Clashes), f.Clash)
	}},
	{"duplicates not compared", Unproven, lasts, func(f *Facts) bool { return f.Uncompared > 0 }, func(f *Facts) string {
		return Count(f.Uncompared, "") + " came twice, and there were too many keys to compare their content"
	}},
	{"repeated records", Unproven, passing, func(f *Facts) bool { return f.Differing > 0 || f.Repeats() > 0 }, (*Facts).repeated},
	{"end changed", Unproven, passing, func(f *Facts) bool { return f.Shifted > 0 }, func(*Facts) string {
		return "its end had changed when it was requested again"
	}},
	{"total moved", Unproven, passing, func(f *Facts) bool { return f.Moved > 0 }, func(f *Facts) string {
		return fmt.Sprintf("the total changed %d times while the list was read", f.Moved)
	}},
	{"readings differ", Unproven, passing, readingsDiffer, (*Facts).compared},

	{"part of the list", Consistent, passing, func(f *Facts) bool { return !f.whole() || f.OfWindows() }, (*Facts).part},
	{"nothing shown", Consistent, passing, (*Facts).Empty, func(*Facts) string { return "nothing came, as for a user who may not read it" }},
	{"round size", Consistent, lasts, (*Facts).Cut, func(f *Facts) string {
		if f.steady() {
			return fmt.Sprintf("it has %d records again although some are others, and may have been cut there", f.Listed())
		}
		return fmt.Sprintf("it may have been cut at %d records", f.Listed())
	}},
	{"uneven pages", Consistent, lasts, func(f *Facts) bool { return f.Uneven > 0 && f.LastTotal < 0 }, func(f *Facts) string {
		return fmt.Sprintf("%d pages on the way held fewer records than others", f.Uneven)
	}},
	{"pages not shown", Consistent, lasts, func(f *Facts) bool { return f.Unshown && !f.settled() }, func(*Facts) string {
		return "no page but the first ever held a record, so that nothing shows how further pages are requested"
	}},
	{"earlier reading", Consistent, lasts, func(f *Facts) bool { return f.Earlier > 0 && f.LastTotal < 0 }, func(f *Facts) string {
		return "an earlier reading found " + Count(f.Earlier, "other ")
	}},
	{"cache", Consistent, lasts, func(f *Facts) bool { return f.Stale > 0 }, func(*Facts) string { return "some pages came from a cache" }},
}

// repeated says which records came twice.
func (f *Facts) repeated() string {
	var words []string
	if f.Differing > 0 {
		words = append(words, Count(f.Differing, "")+" came twice with other content, and may have changed while they were read")
	}
	if f.Repeats() > 0 {
		words = append(words, Count(f.Repeats(), "")+" came on two pages each")
	}
	return strings.Join(words, ", ")
}

// part says which part of the list the pass did not read itself.
func (f *Facts) part() string {
	var words []string
	if f.Partial {
		words = append(words, "an incremental reading leaves out what has not changed")
	}
	if f.OfWindows() {
		words = append(words, fmt.Sprintf("%d windows of time were requested, and nothing is known of others", f.Windows))
	}
	if f.Resumed {
		words = append(words, "begun by an earlier run")
	}
	return strings.Join(words, ", ")
}

func wereRejected(n int64) string {
	if n == 1 {
		return "1 record was rejected"
	}
	return fmt.Sprintf("%d records were rejected", n)
}

// totalChanged holds where the source states two different totals. A total that
// changed while the list was read is wrong once at least.
func totalChanged(f *Facts) bool { return !f.FirstTotal.agrees(f.LastTotal) }

// totalNotMet holds where a whole pass did not find what the source states.
func totalNotMet(f *Facts) bool {
	return f.stated() >= 0 && !f.Resumed && int64(f.stated()) != f.Listed()+f.Gaps
}

// stated is the total of the last page, or of the first where later pages do not
// repeat it.
func (f *Facts) stated() Total {
	if f.LastTotal < 0 {
		return f.FirstTotal
	}
	return f.LastTotal
}

// usualLength holds for a single page that may be the first of several: it is as
// long as pages are by habit, and only probes say that there are no others. That the
// list was longer once excuses it, unless it may have been read in another way then.
func usualLength(f *Facts) bool {
	return f.Guessed && f.Rule == "one_page" && f.Round && f.LastTotal < 0 && (f.Cut() || f.Unshown)
}

// readingsDiffer holds where two whole readings found different records, and the
// source's own statement does not settle which of them is right.
func readingsDiffer(f *Facts) bool {
	return f.Second == OtherRecords && !f.settled() && !oneObject(f)
}

// openSignal is the first unexplained signal that the total does not explain: a
// list that has given as many records as it states has no more of them. A number
// larger than that is another statement, and contradicts it.
func (f *Facts) openSignal() string {
	for _, s := range f.Unexplained {
		if !f.settled() || beyond(s, f.Distinct) {
			return s
		}
	}
	return ""
}

// beyond reports whether a signal, as "/meta/remaining: 63", is an integer
// larger than n.
func beyond(signal string, n int64) bool {
	at := strings.LastIndex(signal, ": ")
	if at < 0 {
		return false
	}
	value, err := strconv.ParseInt(strings.Trim(signal[at+2:], `"`), 10, 64)
	return err == nil && value > n
}
