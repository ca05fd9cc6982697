package schemas

import "time"

// Incremental says how a list is asked for what has changed since an earlier
// pass. The zero value reads the whole list every time.
type Incremental struct {
	// Field is the top-level field of a record that tells when it was last
	// changed, and Format how: one of the Moment constants.
	Field, Format string

	// Param is the parameter that leaves out what was changed earlier. Where
	// there is none, the list comes with the latest change first, and is read up
	// to a page of records that were all changed before the last passes.
	Param string

	// Until is the parameter that leaves out what was changed at that moment or
	// later, for backfills of a range; "" where there is none.
	Until string

	Lookback time.Duration // before the latest change that was seen; 0: DefaultLookback
	Full     time.Duration // after which the whole list is read again; 0: DefaultFull

	Auto bool // as probes of the endpoint find out; the rest is then filled in
}

// Defaults of an Incremental.
const (
	DefaultLookback = 10 * time.Minute
	DefaultFull     = 7 * 24 * time.Hour
)

// The ways in which a moment is written.
const (
	MomentUnix     = "unix"     // seconds since 1970
	MomentUnixMS   = "unix_ms"  // milliseconds since 1970
	MomentRFC3339  = "rfc3339"  // 2026-11-21T10:05:00Z
	MomentDateTime = "datetime" // 2026-11-21 10:05:00, of no zone
	MomentDate     = "date"     // 2026-11-21
)

// MomentFormats are the names of the formats, as pipelines.yaml takes them.
func MomentFormats() []string {
	return []string{MomentRFC3339, MomentUnix, MomentUnixMS, MomentDateTime, MomentDate}
}

// Set reports whether anything but the whole list is ever read.
func (i Incremental) Set() bool { return i.Field != "" }

// Overlap is how far before the latest change a pass begins: the lookback, and
// never less than the step in which the source tells the time, so that records of
// one moment are never parted.
func (i Incremental) Overlap() time.Duration {
	d := i.Lookback
	if d == 0 {
		d = DefaultLookback
	}
	step := time.Second
	if i.Format == MomentDate {
		step = 24 * time.Hour
	}
	return max(d, step)
}

// Every is how long after a whole reading the next one is due.
func (i Incremental) Every() time.Duration {
	if i.Full == 0 {
		return DefaultFull
	}
	return i.Full
}
