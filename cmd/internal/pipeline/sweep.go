package pipeline

import (
	"cmp"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
)

// Above both of these a pass may not delete unless it is told to.
const (
	brakeRows  = 100
	brakeShare = 10 // per cent of the table
)

// verb is what to do about the rows of a table which a finished pass did not
// carry.
type verb int

const (
	keep   verb = iota // there are none, or nothing may be done about them
	remove             // delete them
	repeat             // read the stream again: that may prove that they are gone
	ask                // ask the source for each of them
	bury               // delete those that the source says are gone
	giveUp             // nothing of the pass is kept
)

// decision is the end of a pass: what happens to the missing rows, and why
// the stream is held, if it is.
type decision struct {
	verb  verb
	held  string
	shut  bool                // held by the brake alone
	whole bool                // with repeat: ask every parent
	keys  []arrow.RecordBatch // the only rows to delete; nil: all that are missing
}

// ending is all that a decision depends on.
type ending struct {
	reading
	before   *reading // the pass before in the same run
	verdict  Verdict
	outcome  load.Outcome // of the counting sweep
	inserted int64        // rows the whole pass added
	keyed    bool
	atOnce   bool // the pass is one transaction
	adds     bool // mode append: nothing is ever missing
	askable  bool // single records can be asked for
	found    *findings
	sorted   bool                // of the missing rows, those whose records were rejected are known, and count as missing no more
	others   []arrow.RecordBatch // the keys of the others
	last     bool                // no further pass in this run
	confirm  bool
	wanted   bool  // streams that hang from this one need its proof
	window   bool  // the list shows some of its records: see schemas.Stream
	foreign  int64 // of the missing rows, those that a parent which was not asked may have
}

// decide applies the rules of deletion: only what a proven pass did not carry
// is gone, and much at once waits for a person. // Invariant 12
func (e ending) decide() decision {
	again := !e.last && e.worthRepeating(e.verdict)
	if e.window || e.adds {
		e.outcome.Missing, e.outcome.Known = 0, true
	}
	switch {
	case !e.outcome.Known && !e.last:
		return decision{verb: repeat} // resumed: what the first part carried is forgotten
	case !e.whole && !e.last && !e.fanOut() && !e.met() && !e.end.Partial && !e.windowed():
		return decision{verb: repeat} // resumed: records may have moved to pages that were read before
	case again && (e.doubtful() || e.outcome.Missing > 0 || e.wanted || e.unwatched() && e.inserted > 0):
		return decision{verb: repeat}
	case e.doubtful() && e.outcome.Known && e.outcome.Missing > 0:
		d := e.hold(fmt.Sprintf("%s; %d rows are missing from it", e.why(e.verdict, e.before), e.outcome.Missing))
		if d.verb != ask {
			d.held = cmp.Or(d.held, e.doubt()) // however many of them are gone, others may be missing
		}
		return d
	case e.doubtful():
		return decision{held: e.doubt()}
	case !e.outcome.Known:
		return decision{held: "cannot tell which rows the pass carried; none was deleted"}
	case e.outcome.Missing == 0:
		return decision{}
	case e.end.Skipped > 0 && (e.verdict != Proven || e.foreign > 0):
		return e.elsewhere()
	case e.verdict == Consistent && e.empty() && e.same(e.before):
		return e.hollow()
	case e.verdict != Proven:
		return e.hold(fmt.Sprintf("%d rows are missing from a reading that is only %s: %s", e.outcome.Missing, e.verdict, e.why(e.verdict, e.before)))
	case !e.confirmed(e.before) && !e.last:
		return decision{verb: repeat}
	case !e.confirmed(e.before):
		return e.hold(fmt.Sprintf("%d rows are missing, and not as many were in the reading before: the list is changing", e.missed))
	case e.counts.Rejected > 0 && !e.sorted:
		return e.hold(fmt.Sprintf("%d rows are missing and %d records were rejected, which may be the same", e.outcome.Missing, e.counts.Rejected))
	case e.braked() && !e.confirm:
		return decision{shut: true, held: fmt.Sprintf("%d of %d rows are missing; they were kept until --confirm-shrink", e.outcome.Missing, e.outcome.Alive)}
	default:
		return decision{verb: remove, keys: e.others}
	}
}

// elsewhere decides about rows that parents which were asked have no more, and
// others may have: the source is asked for each, and if that does not settle it,
// every parent.
func (e ending) elsewhere() decision {
	d := e.hold(fmt.Sprintf("%d rows are missing, and not every parent was asked", e.outcome.Missing))
	if d.held != "" && !e.last && e.parent == Proven {
		return decision{verb: repeat, whole: true}
	}
	return d
}

// hollow is the end of a list that was empty twice over a table that is not: only
// a person can tell whether all is gone, or is shown no more.
func (e ending) hollow() decision {
	if e.confirm {
		return decision{verb: remove, keys: e.others}
	}
	return decision{shut: true, held: fmt.Sprintf("the list is empty, and %d rows are there; they were kept until --confirm-shrink", e.outcome.Missing)}
}

// hold keeps the missing rows for a reason, but for those that the source itself
// says are gone when it is asked for them. Many at once it is not asked for:
// they wait for a person in any case. // Invariant 12
func (e ending) hold(reason string) decision {
	f := e.found
	switch {
	case f == nil && e.askable && !e.braked():
		return decision{verb: ask}
	case f == nil || f.asked == 0:
		return decision{held: reason + "; they were kept"}
	case f.gone == e.outcome.Missing:
		return decision{verb: bury, keys: f.keys}
	}
	d := decision{held: fmt.Sprintf("%s; asked for %d of them, the source says that %d are gone and has the others; those were kept", reason, f.asked, f.gone)}
	if f.gone > 0 {
		d.verb, d.keys = bury, f.keys
	}
	return d
}

// mixed reports whether the table would have rows of this pass beside others
// which they should have replaced: a pass of one transaction is given up then.
func (e ending) mixed(d decision) bool {
	return e.atOnce && e.outcome.Missing > 0 && d.verb != remove && !e.adds && !(e.keyed && e.window)
}

// met reports whether a resumed pass has led to as many rows as the list has by
// its own account, then and now, and to no others.
func (e ending) met() bool {
	total := e.end.LastTotal
	return total >= 0 && total == e.end.FirstTotal && total == e.outcome.Alive && e.outcome.Missing == 0
}

// doubtful reports whether the reading itself is in doubt, missing rows or not.
func (e ending) doubtful() bool { return e.verdict == Unproven || e.verdict == Contradicted }

func (e ending) doubt() string {
	return e.why(e.verdict, e.before) + "; nothing was deleted"
}

// braked reports whether the table would shrink suspiciously: by more than 100
// rows and 10 %, or to nothing. Without a key a changed row is a missing one
// and a new one, so there the net loss counts.
func (e ending) braked() bool {
	if e.end.Skipped > 0 && e.outcome.Missing < e.outcome.Alive {
		return e.outcome.Missing > brakeRows && e.outcome.Missing*100 > e.outcome.Alive*brakeShare
	}
	if e.distinct() == 0 {
		return true
	}
	loss, rows := e.outcome.Missing, e.outcome.Alive
	if !e.keyed {
		loss, rows = loss-e.inserted, rows-e.inserted
	}
	return loss > brakeRows && loss*100 > rows*brakeShare
}
