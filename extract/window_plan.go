package extract

import (
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// windowPlan is the time range of a pass over time windows. The cursor stores it, so a resumed pass requests the same
// windows, even in a later month.
type windowPlan struct {
	At     time.Time `json:"at,omitzero"`      // when the pass began; the newest window is the month of this time
	From   time.Time `json:"from,omitzero"`    // beginning of the range; zero: the pass goes back until several months are empty
	Until  time.Time `json:"until,omitzero"`   // end of the range, exclusive; zero: no end
	Part   bool      `json:"part,omitempty"`   // the pass leaves out records before or after the range
	Barren int       `json:"barren,omitempty"` // consecutive windows without records, up to the current one
	Found  bool      `json:"found,omitempty"`  // a window had records
}

func newWindowPlan(s schemas.Stream, now time.Time) windowPlan {
	now = now.UTC().Truncate(time.Second)
	switch {
	case s.Range.Set() && (s.Months.Set() || s.Incremental.Until != ""):
		return windowPlan{At: now, From: s.Range.From.UTC(), Until: s.Range.Until.UTC(), Part: true}
	case s.Months.Set():
		return windowPlan{At: now, From: s.Months.First}
	}
	return windowPlan{}
}

func (f windowPlan) set() bool { return !f.At.IsZero() }

func (f *windowPlan) recent(m schemas.Months) {
	from := month(f.At).AddDate(0, -m.Back(), 0)
	if from.After(f.From) {
		f.From, f.Part = from, true
	}
}

// openStart reports whether the range has no beginning. Then the pass goes back until several months are empty.
func (f windowPlan) openStart() bool { return f.From.IsZero() }

func (f *windowPlan) note(records int64) {
	if f.Barren++; records > 0 {
		f.Barren, f.Found = 0, true
	}
}

func (f windowPlan) exhausted() bool {
	return f.Found && f.Barren >= emptyMonths || f.Barren >= leadingEmptyMonths
}

// A pass over a range without a beginning ends after emptyMonths empty months in a row. If no month had records yet,
// the pass ends after leadingEmptyMonths. // Invariant 15
const (
	emptyMonths        = 12
	leadingEmptyMonths = 60
	maxMonths          = 240
)

// clocksAhead is how far a local time can be ahead of UTC. So the next month may already have begun in some place.
const clocksAhead = 14 * time.Hour

func (f windowPlan) months() []time.Time {
	at := month(f.At.Add(clocksAhead))
	if !f.Until.IsZero() && !f.Until.After(at) {
		at = month(f.Until.Add(-1))
	}
	oldest := at.AddDate(0, 1-maxMonths, 0)
	if !f.openStart() {
		oldest = month(f.From)
	}
	var all []time.Time
	for ; !at.Before(oldest); at = at.AddDate(0, -1, 0) {
		all = append(all, at)
	}
	return all
}

// cuts() returns the bounds of one window per month. The latest window comes last, so that it finds records that change
// during the pass. If the range has no end, the last window has none.
func (f windowPlan) cuts() []time.Time {
	end := f.Until
	if end.IsZero() {
		end = f.At
	}
	all := []time.Time{f.From}
	for at := month(f.From).AddDate(0, 1, 0); at.Before(end); at = at.AddDate(0, 1, 0) {
		all = append(all, at)
	}
	return append(all, f.Until)
}

func month(at time.Time) time.Time {
	y, m, _ := at.UTC().Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
}
