package schemas

import "time"

// CheckKind is what a [Check] tests.
type CheckKind string

// The kinds of checks.
const (
	CheckNotNull  CheckKind = "not_null" // the columns have a value
	CheckUnique   CheckKind = "unique"   // no two rows have the same values in the columns
	CheckAccepted CheckKind = "accepted" // the column has one of the values, or none
	CheckRange    CheckKind = "range"    // the column's value is not outside of the limits
	CheckFresh    CheckKind = "fresh"    // the newest time in the column is not too old
	CheckRows     CheckKind = "rows"     // the number of rows is within the limits, and has not changed by too much
	CheckSQL      CheckKind = "sql"      // a query of the user returns no rows
)

// CheckKinds returns all kinds of checks.
func CheckKinds() []CheckKind {
	return []CheckKind{CheckNotNull, CheckUnique, CheckAccepted, CheckRange, CheckFresh, CheckRows, CheckSQL}
}

// OfRows reports whether the check is about single rows, so that it can test the rows of one commit. The other kinds
// are about a table as a whole.
func (k CheckKind) OfRows() bool {
	return k == CheckNotNull || k == CheckUnique || k == CheckAccepted || k == CheckRange
}

// Check is a rule for the current rows of a stream's table. Current rows are neither marked as deleted nor replaced by
// a later version.
type Check struct {
	Name string
	Kind CheckKind
	Hold bool // a commit whose rows fail the check keeps nothing

	Columns  []string      // of all kinds except rows and sql
	Values   []string      // accepted: the values
	Min, Max string        // range and rows: the limits, which are allowed themselves; "": none
	Within   time.Duration // fresh: the greatest age
	Change   float64       // rows: the greatest change since the last run, in percent; 0: any
	SQL      string        // sql: the query
}

// OnFail returns what happens if the check fails, as the configuration calls it.
func (c Check) OnFail() string {
	if c.Hold {
		return "hold"
	}
	return "warn"
}
