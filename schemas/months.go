package schemas

import "time"

// Months says that a list returns only the records of one month. Two request parameters select the month: the number of
// the month, and the year. The zero value means that the list returns all records.
type Months struct {
	Month, Year string // names of the parameters

	Recent int           // number of months before the current month that every pass reads again; 0: DefaultRecent
	First  time.Time     // first month with records; zero: unknown
	Full   time.Duration // interval between readings of all months; 0: DefaultFull
}

// DefaultRecent is the number of months before the current month that every pass reads again. People still add and
// correct records of these months.
const DefaultRecent = 2

// Set reports whether the list is read month by month.
func (m Months) Set() bool { return m.Month != "" }

// Back returns the number of months before the current month that every pass reads again.
func (m Months) Back() int {
	if m.Recent == 0 {
		return DefaultRecent
	}
	return m.Recent
}

// Every returns the interval between readings of all months.
func (m Months) Every() time.Duration { return Incremental{Full: m.Full}.Every() }

// Range is the part of a list that one pass requests. If it is zero, the fields Incremental and Months of the stream
// determine this part.
type Range struct {
	// From and Until bound the range. Until is exclusive. If Until is zero, the range has no end.
	//
	// For a list by months, the pass requests the months that overlap the range. For any other list, it requests the
	// records that changed in the range. If the source accepts no end, it requests all records that changed since From.
	From, Until time.Time

	Whole bool // read the whole list, regardless of earlier passes
}

// Set reports whether only a part of the list is read.
func (r Range) Set() bool { return !r.From.IsZero() }

// Ranged reports whether a part of the stream's list can be requested: see [Range].
func (s Stream) Ranged() bool { return s.Parent == "" && (s.Months.Set() || s.Incremental.Param != "") }
