package load

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Checker is implemented by destinations that can check the rows of tables. Such a destination also tests the checks of
// [Pass].Hold in each commit.
type Checker interface {
	// CheckRows runs a check on the current rows of a stream's table, and changes nothing. If the table is shared, only rows
	// of k.Source are checked. The second result is false if the table does not exist. CheckRows does not run checks of the
	// kind [schemas.CheckSQL]: see [Querier].
	CheckRows(ctx context.Context, k state.Key, table string, c schemas.Check, now time.Time) (CheckOutcome, bool, error)
}

// TableRowChecker is implemented by queriers that can check the rows of tables which their caller describes. See [Checker].
type TableRowChecker interface {
	CheckTable(ctx context.Context, k state.Key, t schemas.Table, c schemas.Check, now time.Time) (CheckOutcome, error)
}

// CheckOutcome is the outcome of a check. The check has passed if Failing is 0.
type CheckOutcome struct {
	Failing  int64    // number of rows that fail; 1 if a table fails as a whole
	Rows     int64    // number of current rows; -1: not counted
	Examples []string // some of the failing rows: their keys as JSON arrays; for unique, the values that occur several times
	Detail   string   // what was found, for a check of a table as a whole
}

// MostExamples is the greatest number of rows in [CheckOutcome].Examples.
const MostExamples = 5

// FailedCheck is a check that rows of a commit have failed.
type FailedCheck struct {
	schemas.Check
	CheckOutcome
}

// CheckError is returned by [Tx].Commit if rows of the transaction fail a check of [Pass].Hold. The commit has kept
// nothing.
type CheckError struct {
	Table  string
	Failed []FailedCheck
}

// Error names the checks, and the number of rows that fail them. It leaves out [CheckOutcome].Examples, because an error
// also reaches people who may not see rows.
func (e *CheckError) Error() string {
	parts := make([]string, len(e.Failed))
	for i, f := range e.Failed {
		parts[i] = f.Name + ": " + f.Describe()
	}
	return "checks hold back rows of " + e.Table + ": " + strings.Join(parts, "; ")
}

// Describe returns the outcome of a failed check in words, without the examples.
func (o CheckOutcome) Describe() string {
	if o.Detail != "" {
		return o.Detail
	}
	if o.Failing == 1 {
		return "1 row fails"
	}
	return fmt.Sprintf("%d rows fail", o.Failing)
}
