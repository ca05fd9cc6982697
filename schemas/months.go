package schemas

import "time"

// Months says that a list shows only the records of one month. Two request parameters, the numbers of the month and
// the year, select it. The zero value means a list of all records.
type Months struct {
	Month, Year string // names of the parameters

	Recent int           // months before the current one that every pass reads again; 0: DefaultRecent
	First  time.Time     // first month with records; zero: as far back as there are records
	Full   time.Duration // interval between readings of all months; 0: DefaultFull
}

// DefaultRecent is how many months before the current one each pass reads, since people add and correct past
// records.
const DefaultRecent = 2

// Set reports whether the list is read month by month.
func (m Months) Set() bool { return m.Month != "" }

// Back returns how many months before the current one every pass reads.
func (m Months) Back() int {
	if m.Recent == 0 {
		return DefaultRecent
	}
	return m.Recent
}

// Every returns the interval between readings of all months.
func (m Months) Every() time.Duration { return Incremental{Full: m.Full}.Every() }

// Range is the part of a list that one reading requests. If it is zero, the stream's Incremental and Months decide
// what is requested.
type Range struct {
	// From and Until bound the range. Until is exclusive, and the zero time means no end. A list by months is
	// requested for the months that overlap the range, any other list for the records last changed in the range, or since From if the source accepts no end.
	From, Until time.Time

	Whole bool // the whole list, regardless of earlier readings
}

// Set reports whether only a part of the list is read.
func (r Range) Set() bool { return !r.From.IsZero() }

// Ranged reports whether a part of the list of s can be requested: see [Range].
func (s Stream) Ranged() bool { return s.Parent == "" && (s.Months.Set() || s.Incremental.Param != "") }
