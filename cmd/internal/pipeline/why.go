package pipeline

import (
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/extract"
)

// why is a verdict's reasons in words: the proof of a proven pass, what another
// lacks or what speaks against it.
func (r reading) why(v Verdict, before *reading) string {
	var words []string
	switch v {
	case Proven:
		return r.proof(before)
	case Contradicted:
		words = r.contradictions()
	case Unproven:
		words = r.losses()
		if words == nil {
			words = r.lacks(before)
		}
	default:
		words = r.lacks(before)
	}
	return strings.Join(words, ", ")
}

// proof names the witness that settled it.
func (r reading) proof(before *reading) string {
	n := r.listed()
	switch {
	case r.end.Rule == extract.RuleSingle:
		return "there is one object by definition"
	case r.fanOut():
		return fmt.Sprintf("every one of %d parents of a proven list was asked", r.end.Parents)
	case r.end.LastTotal >= 0 && r.filtered == 0 && !r.same(before):
		return fmt.Sprintf("the list states a total of %d and gave as many different records", r.end.LastTotal)
	case r.same(before):
		return fmt.Sprintf("two readings found the same %d records", n)
	}
	return fmt.Sprintf("the list came whole, and the same %d records came again", n)
}

// contradictions are what the list says against the pass.
func (r reading) contradictions() []string {
	first, last := r.end.FirstTotal, r.end.LastTotal
	if first >= 0 && last >= 0 && first != last {
		return []string{fmt.Sprintf("the list stated a total of %d at first and of %d at the end, and gave %d records", first, last, r.listed())}
	}
	text := fmt.Sprintf("the list states a total of %d and gave %d different records", last, r.listed())
	if n := r.gaps(); n > 0 {
		text += fmt.Sprintf(", %d others could not be had", n)
	}
	return []string{text}
}

// losses are what is known to be missing, or to have moved.
func (r reading) losses() []string {
	var words []string
	if n := r.gaps(); n > 0 {
		words = append(words, fmt.Sprintf("%s could not be had: %s", recordsOf(n, "", nil), r.end.Gaps[0]))
	}
	if r.twin.lacking() {
		words = append(words, fmt.Sprintf("%s has %s that this list lacks",
			r.twin.stream, recordsOf(r.twin.there, "", r.twin.examples)))
	}
	if n := r.repeats(); n > 0 {
		words = append(words, fmt.Sprintf("%s came on two pages each", recordsOf(n, "", nil)))
	}
	if r.end.Drift.Shifted > 0 {
		words = append(words, "its end had changed when it was asked for again")
	}
	if n := r.end.Drift.Moved; n > 0 {
		words = append(words, fmt.Sprintf("the total changed %d times while the list was read", n))
	}
	return words
}

// lacks are the witnesses that are missing.
func (r reading) lacks(before *reading) []string {
	if r.fanOut() {
		return r.lacksOfParents()
	}
	e := r.end
	if r.windowed() {
		return r.lacksOfWindows()
	}
	if e.Partial {
		return []string{"an incremental reading leaves out what has not changed"}
	}
	var words []string
	switch {
	case e.LastTotal < 0:
		words = append(words, "no total")
	case r.filtered > 0:
		words = append(words, "the filter left out records that cannot be told apart")
	}
	words = append(words, endings[e.Rule])
	if r.empty() {
		words = append(words, "nothing came, as where one may not read it")
	}
	if r.cut() {
		words = append(words, fmt.Sprintf("it may have been cut at %d records", r.listed()))
	}
	if n := e.Drift.Uneven; n > 0 && e.LastTotal < 0 {
		words = append(words, fmt.Sprintf("%d pages on the way held fewer records than others", n))
	}
	if e.LastTotal < 0 && r.earlier > 0 && !r.differs(before) {
		words = append(words, "an earlier reading found "+recordsOf(r.earlier, "other ", nil))
	}
	if e.Drift.Stale > 0 {
		words = append(words, "some pages came from a cache")
	}
	return append(words, r.readings(before))
}

// endings are the rules by which a pass ends, in words.
var endings = map[string]string{
	extract.RuleOnePage:   "ended with its only page",
	extract.RuleLastPage:  "ended with the last page it names",
	extract.RuleTotal:     "ended at its total",
	extract.RuleNoNext:    "ended where it names no next page",
	extract.RuleEmptyPage: "ended by an empty page",
	extract.RuleRepeat:    "ended where its last page came again",
}

// readings tells how often the list was read, and what came of it.
func (r reading) readings(before *reading) string {
	switch {
	case !r.whole:
		return "begun by an earlier run"
	case !r.comparable(before) && r.end.Reread:
		return "read twice alike"
	case !r.comparable(before):
		return "read once"
	case r.same(before):
		return "a second reading found the same"
	}
	switch here, there := r.unlike.here, r.unlike.there; {
	case there == 0:
		return "second reading found " + recordsOf(here, "other ", nil)
	case here == 0:
		return "second reading lacked " + recordsOf(there, "", r.unlike.examples) + " of the first"
	default:
		return fmt.Sprintf("second reading found %s and lacked %d of the first", recordsOf(here, "other ", nil), there)
	}
}

func (r reading) lacksOfWindows() []string {
	words := []string{fmt.Sprintf("%d windows of time were asked for, and nothing is said of others", r.end.Windows)}
	if r.end.Short > 0 {
		words = append(words, fmt.Sprintf("the lists of %d of them may not have come whole", r.end.Short))
	}
	if !r.whole {
		words = append(words, "begun by an earlier run")
	}
	return words
}

func (r reading) lacksOfParents() []string {
	e := r.end
	var words []string
	switch {
	case e.Gone == e.Parents && e.Parents > 0:
		words = append(words, fmt.Sprintf("all of %d parents are gone", e.Parents))
	case r.parent == "":
		words = append(words, "nothing is known of the list of parents")
	case r.parent != Proven:
		words = append(words, fmt.Sprintf("the list of parents is only %s", r.parent))
	}
	if e.Short > 0 {
		words = append(words, fmt.Sprintf("the lists of %d parents may not have come whole", e.Short))
	}
	if !r.whole {
		words = append(words, "begun by an earlier run")
	}
	return words
}
