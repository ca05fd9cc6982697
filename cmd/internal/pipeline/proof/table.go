package proof

// Table is what is known about the rows of a table when a pass over its stream
// has ended. Each field says who observes it.
type Table struct {
	Facts

	Swept    bool  // the destination: it knows which rows the pass did not carry
	Missing  int64 // the destination: live rows that the pass did not carry, without those whose records were rejected
	Alive    int64 // the destination: live rows before any is marked as deleted
	Inserted int64 // the destination: rows that the pass added
	Missed   int64 // the destination: Missing, with those whose records were rejected

	Rejected  int64 // the transformer: records of the pass that no table could take
	Sorted    bool  // the pipeline: it knows for each missing row whether its record was rejected
	Elsewhere int64 // the pipeline: of the missing rows, those that a parent may have which was not requested

	SureBefore   bool  // the pipeline: the reading before this one, in the same run, can confirm what it missed
	MissedBefore int64 // the destination: what that reading missed

	Askable  bool  // the catalogue: single records can be requested
	Asked    bool  // the pipeline: it has requested the missing records one by one
	Answered int64 // the source: of those, the records that it gave an answer about
	NotFound int64 // the source: of those, the records that it says are gone

	AtOnce   bool // the pipeline: the pass is one transaction
	AppendTo bool // the configuration: mode append, where no row is ever missing
	Subset   bool // the configuration: the list shows some of its records by design
	Wanted   bool // the pipeline: streams below this one need its proof
	Last     bool // the pipeline: the run makes no further pass
	Confirm  bool // the user: --confirm-shrink

	verdict Verdict // this package: on Facts
}

// Above both of these a pass may not delete unless a person confirms it.
const (
	BrakeRows  = 100
	BrakeShare = 10 // per cent of the table
)

// A table of so many rows may not lose half of them unless a person confirms it.
const brakeHalf = 10

// braked reports whether the table would shrink suspiciously. Without a key a
// changed row is a missing one and a new one, so there the net loss counts.
func (t *Table) braked() bool {
	if t.Distinct == 0 && (t.Skipped == 0 || t.Missing >= t.Alive) {
		return true
	}
	loss, rows := t.Missing, t.Alive
	if t.Keyless {
		loss, rows = loss-t.Inserted, rows-t.Inserted
	}
	return loss > BrakeRows && loss*100 > rows*BrakeShare || rows >= brakeHalf && loss*2 >= rows
}

// witnessed reports whether something else than the pass itself says that the
// missing rows are gone. One wrong answer can make a list short. A total that
// the source states says so for a list of one page. On several pages, a record
// that is deleted from a page that was read moves the next one up to it, and one
// that is created meanwhile makes the total good again: there, and below parents, a
// second reading must have missed as much. A source that refuses the page after a full
// one shows the same rows in each reading, whether they are all or not. Where each parent has one record, its
// endpoint is the witness.
func (t *Table) witnessed() bool {
	switch {
	case t.accounted():
		return true
	case t.Refused && !t.Confirm: // it refuses the same in each reading
		return false
	case readTwice(&t.Facts):
		return true
	case t.Pages <= 1 && !t.OfParents() && (statedTotal(&t.Facts) || sentTwice(&t.Facts)):
		return true
	}
	return t.SureBefore && t.MissedBefore == t.Missed
}

// ofOneLength reports whether nothing speaks against the pass but that the list keeps
// its length while its records change. A person may know that it is whole.
func (t *Table) ofOneLength() bool {
	f := t.Facts
	f.Steady = false
	return t.Steady && Judge(f) == Proven
}

// accounted reports whether each requested parent has given its one record, or
// its endpoint has said that there is none.
func (t *Table) accounted() bool {
	return t.OfParents() && t.OnePerItem && t.Distinct >= int64(t.Parents-t.Gone)
}

// Confirms reports whether a reading can be the witness of the one after it: it
// is proven without the help of others, or it is one below proven parents that
// left out only those about which nothing has changed.
func (f Facts) Confirms() bool {
	if f = f.Alone(); f.OfParents() {
		f.Skipped = 0
	}
	return Judge(f) == Proven
}

// Repeatable reports whether another reading can lead to a better verdict.
func Repeatable(f Facts) bool {
	if f.OfParents() || f.OfWindows() {
		return false
	}
	best := Proven
	for _, d := range doubts {
		if d.lasting && d.Most.Worse(best) && d.applies(&f) {
			best = d.Most
		}
	}
	return Judge(f).Worse(best)
}
