// Package loadtest checks that destinations fulfil the contract of package load.
//
// [Run] runs the suite that every destination must pass. [Memory] is the simplest destination that passes it. The
// suite compares other destinations with it, and tests of other packages use it instead of a real destination.
package loadtest

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Driver gives the suite access to the destination under test.
type Driver struct {
	// Open opens the destination that belongs to the test t. A further call with the same t opens the same destination
	// again, as another process would. The function step, which is never nil, is called before each named step of a
	// commit. If it returns an error, the step fails. The suite closes what it opens.
	Open func(t testing.TB, step func(name string) error) load.Destination

	// Rows reads a table or a view. If no table or view has that name, it returns no rows.
	Rows func(t testing.TB, d load.Destination, table string) []Row

	// Alter changes a table by hand, as a user would. If newType is nil, Alter drops the column; otherwise it changes
	// the column to newType. The field Alter may be nil if this is impossible.
	Alter func(t testing.TB, d load.Destination, table, column string, newType arrow.DataType)

	// Drop drops a table by hand. The field Drop may be nil if the destination does not keep the cursors and the
	// recorded changes in tables.
	Drop func(t testing.TB, d load.Destination, table string)

	// Comment returns the comment on a column; if column is "", the comment on the table. It returns "" if there is
	// none.
	Comment func(t testing.TB, d load.Destination, table, column string) string

	// Views is set if the destination creates views of the current rows.
	Views bool

	// Surveys is set if the destination is a [load.Surveyor] and supports surveys.
	Surveys bool

	// Escape returns the stored form of a text with a zero byte, for a destination that cannot store zero bytes. The
	// value is then also recorded as a reject. Escape may be nil.
	Escape func(text string) string

	// LastTime returns the stored form of a time, for a destination that cannot store the year 10000. The value is then
	// also recorded as a reject. LastTime may be nil.
	LastTime func(text string) string

	// Skip excludes cases by name. A driver sets Skip if it would only repeat what another driver has already tested.
	// Skip may be nil.
	Skip func(name string) bool

	// Thorough is set for one of the destinations that share a merge algorithm: the destination with the fastest
	// commits. For this destination, even with -short, the suite runs every story in every mode and creates a table for
	// every hostile name. See [Driver.brief].
	Thorough bool

	// Reserved are names that the destination uses for its own columns. No column of a stream gets one of them: see
	// [schemas.Column].
	Reserved []string
}

// brief reports whether the suite leaves out tests, because another destination with the same merge algorithm runs
// them. In a brief suite, each story runs in one mode, most random stories are half as long, and there are fewer tables
// with hostile names.
func (d Driver) brief() bool { return testing.Short() && !d.Thorough }

// modesOf returns the modes in which the n-th story runs: all modes. If the suite is brief, it returns one mode, and
// another mode for the next story.
func (d Driver) modesOf(n int) []schemas.Mode {
	if d.brief() {
		return modes[n%len(modes):][:1]
	}
	return modes
}

// kinds returns the kinds of tables to test in the n-th mode. The value true means a table with a key, and false means
// a table without a key. If the suite is brief, kinds returns only one of the two.
func (d Driver) kinds(n int) []bool {
	if d.brief() {
		return []bool{n%2 == 0}
	}
	return []bool{true, false}
}

// runs returns the number of runs of a random story: n, or half of it if the suite is brief.
func (d Driver) runs(n int) int {
	if d.brief() {
		return n / 2
	}
	return n
}

func memoryDriver() Driver {
	opened := map[testing.TB]*Memory{}
	return Driver{
		Thorough: true,
		Surveys:  true,
		Open: func(t testing.TB, step func(string) error) load.Destination {
			m, ok := opened[t]
			if ok {
				m = m.Reopen(step)
			} else {
				m = NewMemory(step)
			}
			opened[t] = m
			return m
		},
		Rows: func(_ testing.TB, d load.Destination, table string) []Row { return d.(*Memory).Rows(table) },
		Alter: func(_ testing.TB, d load.Destination, table, column string, to arrow.DataType) {
			d.(*Memory).Alter(table, column, to)
		},
		Comment: func(_ testing.TB, d load.Destination, table, column string) string {
			return d.(*Memory).Comment(table, column)
		},
	}
}

// Run runs the suite.
func Run(t *testing.T, d Driver) {
	for _, c := range append(cases(), sharedCases()...) {
		if d.Skip != nil && d.Skip(c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, d) })
	}
}

type testCase struct {
	name string
	run  func(*testing.T, Driver)
}

func cases() []testCase {
	return slices.Concat(valueCases, mergeCases, modeCases, commitCases)
}

func sharedCases() []testCase {
	return []testCase{
		{"shared by sources", testShared},
		{"sources side by side", testNeighbours},
		{"penstock's own tables, shared by two sources", testNeighbourLedger},
		{"old rows of sources are removed", testTrimShared},
		{"checks of shared tables", testChecksShared},
		{"many sources commit at once", testNeighbourRace},
		{"a survey of shared tables", testSurveyNeighbours},
		{"a table is either shared or not shared", testUnshared},
	}
}

var (
	valueCases = []testCase{
		{"values of all types are stored and read back", testTypes},
		{"nulls", testNulls},
		{"empty batch", testEmptyBatch},
		{"nothing to write", testNothing},
		{"columns are added", testAddColumns},
		{"columns widen", testWiden},
		{"columns widen twice", testWidenChain},
		{"batches with different columns", testShapes},
		{"records are written again after an inexact widening", testInexact},
		{"a long text", testLongText},
		{"descriptions", testDescriptions},
		{"hostile columns", testHostileColumns},
		{"hostile tables", testHostileTables},
		{"hostile values", testHostileValues},
	}

	mergeCases = []testCase{
		{"unchanged rows stay", testUnchanged},
		{"a key occurs twice in a batch", testDuplicates},
		{"a key occurs twice in a pass", testDuplicatesInPass},
		{"composite key", testCompositeKey},
		{"null key", testNullKey},
		{"the key changes its type", testKeyWidens},
		{"children follow their parent", testChildren},
		{"grandchildren", testGrandchildren},
		{"children of a composite key", testCompositeChildren},
		{"children of a composite key that changes type", testCompositeKeyWidens},
		{"keys that differ only in leading zeros have separate child rows", testKeyWidensChildrenStay},
		{"tombstone and revival", testTombstone},
		{"a sweep only counts", testSweepCounts},
		{"an incremental pass", testIncrementalPass},
		{"a sweep after several commits of a pass", testSweepCommits},
		{"a sweep of a resumed pass", testSweepResumed},
		{"a sweep of a pass that was interrupted by another pass", testSweepPassBetween},
		{"a sweep of a missing table, and of a pass without rows", testSweepNothing},
		{"rows without a key", testKeyless},
		{"child rows of records without a key", testKeylessChildren},
		{"child rows of equal records without a key", testKeylessTwins},
		{"columns of child rows without a key widen inexactly", testKeylessInexact},
		{"child tables keep the place of their list in the record", testPlace},
	}

	modeCases = []testCase{
		{"modes", testModes},
		{"modes without a key", testModesKeyless},
		{"modes at random", testRandom},
		{"lists paged by key", testPaged},
		{"modes, applied in parts", testParts},
		{"modes change", testTurns},
		{"views of current rows", testViews},
		{"rows delivered again", testRedelivered},
		{"a sweep lists the keys of missing rows", testList},
		{"rows with given keys are deleted", testSweepKeys},
		{"rows with given keys of other types are deleted", testSweepKeysOfOthers},
		{"log of rows", testLog},
		{"log of rows without a key", testLogKeyless},
		{"log of values", testLogValues},
		{"scan", testScan},
		{"a scan ends early", testScanEnds},
		{"accept", testAccept},
		{"changes by hand that cannot be accepted", testAcceptRefuses},
		{"recorded changes are lost", testChangesLost},
	}

	commitCases = []testCase{
		{"penstock's own tables", testOwnTables},
		{"rows of penstock's own tables are replaced", testOwnOrder},
		{"rejects found again", testRejectsMetAgain},
		{"longest keys", testLongestKeys},
		{"times come from the clock of the pass", testClock},
		{"readers that follow the changes", testFollow},
		{"the next commit is later than all rows, even if the cursors are lost", testTimesLost},
		{"a table has one owner", testOwner},
		{"allowed writers", testOwnerControls},
		{"a table is adopted", testAdopt},
		{"a table that is dropped", testStanding},
		{"old rows are removed", testTrim},
		{"many old rows are removed in parts", testTrimParts},
		{"a removal of old rows fails at every step", testTrimFails},
		{"old rows are removed during a pass", testTrimMeanwhile},
		{"checks of rows", testChecks},
		{"checks of whole tables", testChecksOfTables},
		{"checks hold rows back", testChecksHold},
		{"a survey", testSurvey},
		{"a survey of penstock's own tables", testSurveyOwn},
		{"settlements", testSettle},
		{"settlements that fail", testSettleStops},
		{"one of two settlements fails", testSettleEach},
		{"settlements whose context ends", testSettleEnds},
		{"a destination describes its tables", testTables},
		{"a cursor that was moved", testMoved},
		{"a cursor that moved and moved back", testMovedABA},
		{"a cursor that another process has moved", testMovedElsewhere},
		{"concurrent streams", testConcurrent},
		{"concurrent commits of one stream", testRace},
		{"a rollback leaves nothing behind", testRollback},
		{"a transaction that is over", testUsedUp},
		{"failure at every step", testEveryStep},
		{"cancelled at every step", testCancelled},
	}
)
