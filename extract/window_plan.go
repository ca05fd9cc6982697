package extract

import (
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// windowPlan is what a pass that goes window by window is about. It stands in the
// cursor, fixed at the beginning of the pass: one that is resumed, in whichever
// month, asks for the same windows.
type windowPlan struct {
	At     time.Time `json:"at,omitzero"`      // when the pass began; the months are counted from there
	From   time.Time `json:"from,omitzero"`    // nothing before; zero: back to where months are empty
	Until  time.Time `json:"until,omitzero"`   // nothing from there on
	Part   bool      `json:"part,omitempty"`   // the pass leaves out what is before or after
	Barren int       `json:"barren,omitempty"` // windows without a record, in a row, up to the place
	Found  bool      `json:"found,omitempty"`  // some window had one
}

// newFrame is the frame of a pass over all of a stream's months, or over the range
// that is asked for; the zero value for a list that is not read by windows.
func newFrame(s schemas.Stream, now time.Time) windowPlan {
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

// recent narrows f to the months that every pass reads.
func (f *windowPlan) recent(m schemas.Months) {
	from := month(f.At).AddDate(0, -m.Back(), 0)
	if from.After(f.From) {
		f.From, f.Part = from, true
	}
}

// walks reports whether nobody has said how far back to go.
func (f windowPlan) walks() bool { return f.From.IsZero() }

// note takes down how many records one more window had.
func (f *windowPlan) note(records int64) {
	if f.Barren++; records > 0 {
		f.Barren, f.Found = 0, true
	}
}

// spent reports whether there is nothing to be expected of the months before.
func (f windowPlan) spent() bool {
	return f.Found && f.Barren >= barrenMonths || f.Barren >= idleMonths
}

// Where nobody says how far back to go, a pass goes back until a year of months
// was empty, or five up to the first one with records, and never further than 20
// years. // Invariant 15
const (
	barrenMonths = 12
	idleMonths   = 60
	maxMonths    = 240
)

// clocksAhead is how far the clocks of some places are ahead of UTC: there it may be
// the next month.
const clocksAhead = 14 * time.Hour

// months are the beginnings of the months that f is about, the latest first.
func (f windowPlan) months() []time.Time {
	at := month(f.At.Add(clocksAhead))
	if !f.Until.IsZero() && !f.Until.After(at) {
		at = month(f.Until.Add(-1))
	}
	oldest := at.AddDate(0, 1-maxMonths, 0)
	if !f.walks() {
		oldest = month(f.From)
	}
	var all []time.Time
	for ; !at.Before(oldest); at = at.AddDate(0, -1, 0) {
		all = append(all, at)
	}
	return all
}

// cuts are the bounds of the windows that f is made of, cut at months. What was
// changed while the pass is under way is found in a later window, so the latest
// comes last, and has no end where f has none.
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

// month is the beginning of the month in which a moment lies, in UTC.
func month(at time.Time) time.Time {
	y, m, _ := at.UTC().Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
}
