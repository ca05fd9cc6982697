package proof

import (
	"cmp"
	"fmt"
)

// Action is what to do about the rows which a finished pass did not carry.
type Action int

// The actions.
const (
	Keep   Action = iota // there are none, or they stay
	Remove               // mark all of them as deleted
	Repeat               // read the stream again: that may prove that they are gone
	Ask                  // request each of them from the source
	Bury                 // mark those as deleted that the source says are gone
)

// Decision is the end of a pass: what happens to the rows that it did not carry,
// and why the stream is held, if it is.
type Decision struct {
	Action  Action
	Held    string // why the stream waits for a person; "" where it does not
	Confirm bool   // --confirm-shrink releases it
	Parents Scope  // with Repeat: which parents are requested beside those that have changed
	Rule    string // the rule that has decided
}

// Scope says which parents a repeated pass requests.
type Scope int

// The scopes.
const (
	Changed   Scope = iota // those that have changed, or whose turn it is
	OfMissing              // and those that the missing rows are from
	Every                  // all of them
)

// rule is one reason to decide about the missing rows.
type rule struct {
	name string
	when func(*Table) bool
	then func(*Table) Decision
}

// rules are all there are; the first that applies decides. The last one is the
// only one that deletes without asking the source. // Invariant 12
var rules = []rule{
	{"rows unknown", func(t *Table) bool { return !t.Swept }, (*Table).unknownRows},
	{"rest of a resumed pass", restOfList, repeat},
	{"better verdict", betterVerdict, repeat},
	{"doubtful", func(t *Table) bool { return t.verdict.Doubtful() }, (*Table).doubtful},
	{"none missing", func(t *Table) bool { return t.Missing == 0 }, func(*Table) Decision { return Decision{} }},
	{"parents not requested", func(t *Table) bool {
		return t.Skipped > 0 && (t.verdict != Proven || t.Elsewhere > 0)
	}, (*Table).otherParents},
	{"empty list", func(t *Table) bool { return t.Empty() && t.Second == SameRecords && t.verdict == Consistent }, (*Table).emptyList},
	{"not proven", func(t *Table) bool { return t.verdict != Proven && !(t.Confirm && t.ofOneLength()) }, func(t *Table) Decision {
		d := t.hold(fmt.Sprintf("%d rows are missing from a reading that is only %s: %s", t.Missing, t.verdict, Reasons(t.Facts)))
		d.Confirm = d.Confirm || d.Held != "" && t.ofOneLength()
		return d
	}},
	{"no witness", func(t *Table) bool { return !t.witnessed() }, (*Table).unwitnessed},
	{"rejected records", func(t *Table) bool { return t.Rejected > 0 && !t.Sorted }, func(t *Table) Decision {
		return t.hold(fmt.Sprintf("%d rows are missing and %d records were rejected, which may be the same", t.Missing, t.Rejected))
	}},
	{"brake", func(t *Table) bool { return t.braked() && !t.Confirm }, func(t *Table) Decision {
		return Decision{Confirm: true, Held: fmt.Sprintf("%d of %d rows are missing; they were kept until --confirm-shrink", t.Missing, t.Alive)}
	}},
	{"gone", func(*Table) bool { return true }, func(*Table) Decision { return Decision{Action: Remove} }},
}

// Decide applies the rules of deletion: only rows that a proven pass did not
// carry, and that another witness does not have either, are gone; and many at
// once wait for a person. // Invariant 12
func Decide(t Table) Decision { return decide(&t, rules) }

func decide(t *Table, rules []rule) Decision {
	if t.Subset || t.AppendTo {
		t.Missing, t.Swept = 0, true
	}
	t.verdict = Judge(t.Facts)
	for _, r := range rules {
		if r.name != t.without && r.when(t) {
			d := r.then(t)
			d.Rule = r.name
			return d
		}
	}
	return Decision{}
}

func repeat(*Table) Decision { return Decision{Action: Repeat} }

// restOfList holds for the rest of a pass that an earlier process began: records
// may have moved to pages that were read before.
func restOfList(t *Table) bool {
	return t.Resumed && !t.Last && !t.OfParents() && !t.Partial && !t.OfWindows()
}

// betterVerdict holds where a second reading can lead to a better verdict, and
// something depends on it; and where only a second reading shows that the list moved.
func betterVerdict(t *Table) bool {
	switch moved := t.Unwatched() && t.Inserted > 0 && !t.OfWindows(); {
	case t.Last:
		return false
	case Repeatable(t.Facts):
		return t.verdict.Doubtful() || t.Missing > 0 || t.Wanted || moved
	default:
		return moved && t.Second == ""
	}
}

func (t *Table) doubt() string { return Reasons(t.Facts) + "; nothing was deleted" }

// unknownRows reads the list again where nobody knows which rows the pass carried,
// and holds the stream where that has led to nothing.
func (t *Table) unknownRows() Decision {
	switch {
	case !t.Last:
		return repeat(t)
	case t.verdict.Doubtful():
		return Decision{Held: t.doubt()}
	}
	return Decision{Held: "cannot tell which rows the pass carried; none was deleted"}
}

// doubtful holds the stream even if the source says that all missing rows are gone:
// others may be missing from the table.
func (t *Table) doubtful() Decision {
	if t.Missing == 0 {
		return Decision{Held: t.doubt()}
	}
	d := t.hold(fmt.Sprintf("%s; %d rows are missing from it", Reasons(t.Facts), t.Missing))
	if d.Action != Ask {
		d.Held = cmp.Or(d.Held, t.doubt())
	}
	return d
}

// unwitnessed reads the list again for a witness, and keeps the missing rows where
// there is none.
func (t *Table) unwitnessed() Decision {
	switch {
	case t.Refused && !t.Confirm && !t.accounted():
		d := t.hold(fmt.Sprintf("%d rows are missing, and the source refuses the page after the last full one, which may not be the end", t.Missed))
		d.Confirm = d.Held != ""
		return d
	case t.Last:
		return t.hold(fmt.Sprintf("%d rows are missing, and no second reading agrees: the list may be changing", t.Missed))
	case t.Skipped > 0:
		return Decision{Action: Repeat, Parents: OfMissing}
	}
	return Decision{Action: Repeat, Parents: Every}
}

// otherParents decides about rows that the requested parents no longer have, and
// that others may have: the source is asked for each, and if that settles
// nothing, every parent is requested.
func (t *Table) otherParents() Decision {
	d := t.hold(fmt.Sprintf("%d rows are missing, and not every parent was requested", t.Missing))
	if d.Held != "" && !t.Last && t.Parent == Proven {
		return Decision{Action: Repeat, Parents: Every}
	}
	return d
}

// emptyList is the end of a list that was empty twice over a table that is not:
// only a person knows whether all is gone, or no longer shown.
func (t *Table) emptyList() Decision {
	if t.Confirm {
		return Decision{Action: Remove}
	}
	return Decision{Confirm: true, Held: fmt.Sprintf("the list is empty, and %d rows are there; they were kept until --confirm-shrink", t.Missing)}
}

// hold keeps the missing rows for a reason, except those that the source says are
// gone when it is asked for them. It is not asked for many at once: they wait
// for a person in any case. // Invariant 12
func (t *Table) hold(reason string) Decision {
	switch {
	case t.braked():
		return Decision{Held: reason + "; they were kept"}
	case !t.Asked && t.Askable:
		return Decision{Action: Ask}
	case !t.Asked || t.Answered == 0:
		return Decision{Held: reason + "; they were kept"}
	case t.NotFound == t.Missing:
		return Decision{Action: Bury}
	}
	d := Decision{Held: fmt.Sprintf("%s; asked for %d of them, the source says that %d are gone and has the others; those were kept", reason, t.Answered, t.NotFound)}
	if t.NotFound > 0 {
		d.Action = Bury
	}
	return d
}

// Mixed reports whether the table would have rows of this pass beside others
// which they should have replaced: a pass of one transaction is given up then.
func Mixed(t Table, d Decision) bool {
	return t.AtOnce && t.Missing > 0 && d.Action != Remove && !t.AppendTo && (t.Keyless || !t.Subset)
}
