package schemas

import "time"

// Months says that a list shows the records of one month, which two parameters
// name by their numbers. The zero value is a list that shows all of its records.
type Months struct {
	Month, Year string // the parameters

	Recent int           // months before the present one that every pass reads again; 0: DefaultRecent
	First  time.Time     // the first month with records; zero: so far back as months have some
	Full   time.Duration // after which all months are read again; 0: DefaultFull
}

// DefaultRecent is how many months before the present one are read by each pass:
// people enter and correct what is past.
const DefaultRecent = 2

// Set reports whether the list is read month by month.
func (m Months) Set() bool { return m.Month != "" }

// Back is how many months before the present one every pass reads.
func (m Months) Back() int {
	if m.Recent == 0 {
		return DefaultRecent
	}
	return m.Recent
}

// Every is how long after a reading of all months the next one is due.
func (m Months) Every() time.Duration { return Incremental{Full: m.Full}.Every() }

// Range is the part of a list that one reading asks for. The zero value leaves it
// to the stream's Incremental and Months.
type Range struct {
	// From and Until are moments: what lies at Until or later is left out. A list
	// by months is asked for those that the range touches, any other for what was
	// last changed in it. Until zero: there is no end.
	From, Until time.Time

	Whole bool // the whole list, whatever was read before
}

// Set reports whether the reading is about a part of the list.
func (r Range) Set() bool { return !r.From.IsZero() }

// Ranged reports whether a part of s can be asked for.
func (s Stream) Ranged() bool { return s.Parent == "" && (s.Months.Set() || s.Incremental.Param != "") }
