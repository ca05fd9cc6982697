package proof

import (
	"cmp"
	"fmt"
)

// Action is what a decision does with the missing rows, which are the rows of the table that a finished pass did not
// contain.
type Action int

// The actions.
const (
	Keep            Action = iota // delete nothing
	Remove                        // mark all missing rows as deleted
	Repeat                        // read the stream again, which may prove that the rows are gone
	RequestMissing                // request each missing record from the source
	RemoveConfirmed               // mark as deleted only the rows whose records the source reports as gone
)

// Decision says what happens to the missing rows after a finished pass, and whether the stream is held.
type Decision struct {
	Action  Action
	Held    string // why the stream waits for a person; "" if it is not held
	Confirm bool   // --confirm-shrink ends the hold
	Parents Scope  // if the action is Repeat: which parents the repeated pass requests
	Rule    string // name of the rule that applied
}

// Scope selects the parents that a repeated pass requests.
type Scope int

// The scopes.
const (
	Changed   Scope = iota // changed parents, and those due for a regular check
	OfMissing              // also the parents of the missing rows
	Every                  // all parents
)

type rule struct {
	name string
	when func(*Table) bool
	then func(*Table) Decision
}

// NoneMissing is the rule of a pass that has found all rows of the table.
const NoneMissing = "none missing"

// rules are in order of precedence; the first rule that applies decides. There are three ways to delete missing rows.
// The last rule deletes all of them, because the pass is proven or a person has confirmed that its list is complete.
// The rule "empty list" deletes all of them if a person confirms it. Other rules request each missing record, and
// delete only the rows whose records the source reports as gone. // Invariant 12
var rules = []rule{
	{"rows unknown", func(t *Table) bool { return !t.Swept }, (*Table).unknownRows},
	{"rest of a resumed pass", restOfList, repeat},
	{"better verdict", betterVerdict, repeat},
	{"doubtful", func(t *Table) bool { return t.verdict.Doubtful() }, (*Table).doubtful},
	{NoneMissing, func(t *Table) bool { return t.Missing == 0 }, func(*Table) Decision { return Decision{} }},
	{"parents not requested", func(t *Table) bool {
		return t.Skipped > 0 && (t.verdict != Proven || t.Elsewhere > 0)
	}, (*Table).otherParents},
	{"empty list", func(t *Table) bool { return t.Empty() && t.Second == SameRecords && t.verdict == Consistent }, (*Table).emptyList},
	{"not proven", func(t *Table) bool { return t.verdict != Proven && !(t.Confirm && t.ofOneLength()) }, func(t *Table) Decision {
		d := t.hold(fmt.Sprintf("%d rows are missing from a reading that is %s, not proven: %s", t.Missing, t.verdict, Reasons(t.Facts)))
		d.Confirm = d.Confirm || d.Held != "" && t.ofOneLength()
		return d
	}},
	{"no witness", func(t *Table) bool { return !t.witnessed() }, (*Table).unwitnessed},
	{"rejected records", func(t *Table) bool { return t.Rejected > 0 && !t.Sorted }, func(t *Table) Decision {
		return t.hold(fmt.Sprintf("%d rows are missing and %d records were rejected; they may be the same records", t.Missing, t.Rejected))
	}},
	{"brake", func(t *Table) bool { return t.braked() && !t.Confirm }, func(t *Table) Decision {
		return Decision{Confirm: true, Held: fmt.Sprintf("%d of %d rows are missing; they are kept until a run with --confirm-shrink", t.Missing, t.Alive)}
	}},
	{"gone", func(*Table) bool { return true }, func(*Table) Decision { return Decision{Action: Remove} }},
}

// Decide applies the rules of deletion. A row is deleted if a proven pass did not contain it and a witness confirms
// that it is gone. After a pass that is not proven, there are two ways to delete a row: the source reports the record
// as gone when this record is requested, or a person confirms the deletion. To delete many rows at once, a person must
// always confirm. Invariant 12
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

// restOfList reports whether this process read only the rest of a pass that another process began. Meanwhile, records
// may have moved to pages that the other process had already read.
func restOfList(t *Table) bool {
	return t.Resumed && !t.Last && !t.OfParents() && !t.Partial && !t.OfWindows()
}

// betterVerdict reports whether the list must be read again. Only a second reading shows whether records have moved to
// other pages while the list was read.
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

func (t *Table) unknownRows() Decision {
	switch {
	case !t.Last:
		return repeat(t)
	case t.verdict.Doubtful():
		return Decision{Held: t.doubt()}
	}
	return Decision{Held: "it is unknown which rows the pass contained; nothing was deleted"}
}

// doubtful holds the stream even if the source reports all missing rows as gone, because the table may lack
// other records.
func (t *Table) doubtful() Decision {
	if t.Missing == 0 {
		return Decision{Held: t.doubt()}
	}
	d := t.hold(fmt.Sprintf("%s; %d rows are missing from this pass", Reasons(t.Facts), t.Missing))
	if d.Action != RequestMissing {
		d.Held = cmp.Or(d.Held, t.doubt())
	}
	return d
}

// unwitnessed repeats the pass to get a witness. If the run makes no further pass, the missing rows are kept.
func (t *Table) unwitnessed() Decision {
	switch {
	case t.Refused && !t.Confirm && !t.accounted():
		d := t.hold(fmt.Sprintf("%d rows are missing, and the source refuses the page after the last full page, so the list may go on", t.Missed))
		d.Confirm = d.Held != ""
		return d
	case t.Last:
		return t.hold(fmt.Sprintf("%d rows are missing, and no second reading confirms this: the list may be changing", t.Missed))
	case t.Skipped > 0:
		return Decision{Action: Repeat, Parents: OfMissing}
	}
	return Decision{Action: Repeat, Parents: Every}
}

// otherParents decides about missing rows that may belong to parents that were not requested. Missing records are
// requested one by one. If that does not explain all missing rows, the pass is repeated with every parent.
func (t *Table) otherParents() Decision {
	d := t.hold(fmt.Sprintf("%d rows are missing, and not every parent was requested", t.Missing))
	if d.Held != "" && !t.Last && t.Parent == Proven {
		return Decision{Action: Repeat, Parents: Every}
	}
	return d
}

// emptyList decides about a list that was empty in two readings although the table has rows. Only a person can know
// whether the records are gone, or whether the user of the credential may no longer see them.
func (t *Table) emptyList() Decision {
	if t.Confirm {
		return Decision{Action: Remove}
	}
	return Decision{Confirm: true, Held: fmt.Sprintf("the list is empty, and the table has %d rows; they are kept until a run with --confirm-shrink", t.Missing)}
}

// hold keeps the missing rows and holds the stream. If few rows are missing, their records are first requested one by
// one, and those that the source reports as gone are deleted. If many are missing, none is requested, because a
// person must decide in any case. // Invariant 12
func (t *Table) hold(reason string) Decision {
	switch {
	case t.braked():
		return Decision{Held: reason + "; they were kept"}
	case !t.Requested && t.Requestable:
		return Decision{Action: RequestMissing}
	case !t.Requested || t.Answered == 0:
		return Decision{Held: reason + "; they were kept"}
	case t.NotFound == t.Missing:
		return Decision{Action: RemoveConfirmed}
	}
	d := Decision{Held: fmt.Sprintf("%s; the source answered for %d of them: %d are gone, and the others still exist and were kept", reason, t.Answered, t.NotFound)}
	if t.NotFound > 0 {
		d.Action = RemoveConfirmed
	}
	return d
}

// Mixed reports whether the table would contain the new rows of this pass and old rows that the pass should have
// replaced. Mixed is true only for a pass that is one transaction; the transaction is then rolled back.
func Mixed(t Table, d Decision) bool {
	return t.AtOnce && t.Missing > 0 && d.Action != Remove && !t.AppendTo && (t.Keyless || !t.Subset)
}
