package schemas

import "time"

// Incremental says how to request only the records that changed since an earlier pass. With the zero value, every
// pass reads the whole list.
type Incremental struct {
	// Field is the top-level field with the time of a record's last change. Format is the form of these times, one of
	// the Moment constants.
	Field, Format string

	// Param is the request parameter with a time. The source leaves out records that changed before this time. If Param is
	// empty, the list must begin with the latest change. A pass then stops at the first page that has only records from
	// earlier passes.
	Param string

	// Until is the request parameter with the end of a range of time. The source leaves out records that changed at this
	// time or later. Only backfills send the parameter. Until is "" if the source has no such parameter.
	Until string

	Lookback time.Duration // how far before the latest known change a pass begins; 0: DefaultLookback
	Full     time.Duration // interval between readings of the whole list; 0: DefaultFull

	Auto bool // probes determine Field, Format and Param
}

// Defaults of an Incremental.
const (
	DefaultLookback = 10 * time.Minute
	DefaultFull     = 7 * 24 * time.Hour
)

// Forms of times.
const (
	MomentUnix     = "unix"     // seconds since 1970
	MomentUnixMS   = "unix_ms"  // milliseconds since 1970
	MomentRFC3339  = "rfc3339"  // 2026-11-21T10:05:00Z
	MomentDateTime = "datetime" // 2026-11-21 10:05:00, without a zone
	MomentDate     = "date"     // 2026-11-21
)

// MomentFormats returns the formats that pipelines.yaml may name.
func MomentFormats() []string {
	return []string{MomentRFC3339, MomentUnix, MomentUnixMS, MomentDateTime, MomentDate}
}

// Set reports whether incremental passes are possible.
func (i Incremental) Set() bool { return i.Field != "" }

// Overlap returns how far before the latest change a pass begins. This is the lookback, but at least the resolution
// of the source's times. So if several records have the time of the latest change, the pass reads all of them again.
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

// Every returns the interval between readings of the whole list.
func (i Incremental) Every() time.Duration {
	if i.Full == 0 {
		return DefaultFull
	}
	return i.Full
}
