package proof

// Table is what is known about a table when a pass over its stream has ended. The comment of each field begins with
// the component that observes it.
type Table struct {
	Facts

	Swept    bool  // the destination: it knows which rows the pass did not contain
	Missing  int64 // the destination: live rows that the pass did not contain, except those whose records were rejected
	Alive    int64 // the destination: live rows before any is marked as deleted
	Inserted int64 // the destination: rows that the pass added
	Missed   int64 // the destination: Missing, plus the rows whose records were rejected

	Rejected  int64 // the transformer: records of the pass that no table could store
	Sorted    bool  // the pipeline: it has sorted the missing rows into rows of rejected records and other rows
	Elsewhere int64 // the pipeline: missing rows that may belong to a parent that was not requested

	SureBefore   bool  // the pipeline: this run has read the stream before, and this earlier reading can be a witness (see Confirms)
	MissedBefore int64 // the destination: live rows that the previous reading did not contain

	Requestable bool  // the catalogue: it has a stream that requests a single record
	Requested   bool  // the pipeline: the missing records were requested one by one
	Answered    int64 // the source: how many of these requests it answered
	NotFound    int64 // the source: how many of these records it reports as gone

	AtOnce   bool // the pipeline: the pass is one transaction
	AppendTo bool // the configuration: mode append, where no row can be missing
	Subset   bool // the configuration: the list is designed to show only some of the records
	Wanted   bool // the pipeline: child streams need this stream to be proven
	Last     bool // the pipeline: the run makes no further pass
	Confirm  bool // the user: --confirm-shrink

	verdict Verdict // this package: the verdict on Facts
}

// A deletion needs a person's confirmation if it exceeds both BrakeRows rows and BrakeShare percent of the table.
const (
	BrakeRows  = 100
	BrakeShare = 10 // percent of the table
)

// brakeHalf is a number of rows. If a table has at least this many, the loss of half of them needs a person's
// confirmation.
const brakeHalf = 10

// braked reports whether a person must confirm the deletion. In a table without a key, a changed row appears as one
// missing row and one new row. In such a table, the loss is the number of missing rows minus the number of new rows.
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

// witnessed reports whether a fact besides the pass itself confirms that the missing rows are gone. Such a fact is
// needed because one wrong answer can make a list short. Two readings that miss the same number of rows are enough. For
// a list of one page, the source's total is enough, or the same answer to a second request.
//
// For several pages, a total is not enough. Example: a record on a page that was already read is deleted, so the
// first record of the next page moves to that page and is missed. At the same time another record is created. Then
// the total equals the number of records that arrived.
func (t *Table) witnessed() bool {
	switch {
	case t.accounted():
		return true
	case t.Refused && !t.Confirm: // the next page is refused in every reading, so a second reading confirms nothing
		return false
	case readTwice(&t.Facts):
		return true
	case t.Pages <= 1 && !t.OfParents() && (statedTotal(&t.Facts) || sentTwice(&t.Facts)):
		return true
	}
	return t.SureBefore && t.MissedBefore == t.Missed
}

// ofOneLength reports whether the only doubt is that the list keeps its length while its records change. A person may
// know that the list is complete nevertheless.
func (t *Table) ofOneLength() bool {
	f := t.Facts
	f.Steady = false
	return t.Steady && Judge(f) == Proven
}

// accounted reports whether each requested parent returned its one record, or its endpoint reported that there is none.
func (t *Table) accounted() bool {
	return t.OfParents() && t.OnePerItem && t.Distinct >= int64(t.Parents-t.Gone)
}

// Confirms reports whether a reading can be a witness for the next reading. Its verdict must be proven without the help
// of other readings. For a child stream, it does not matter whether the reading skipped unchanged parents.
func (f Facts) Confirms() bool {
	if f = f.WithoutOthers(); f.OfParents() {
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
