// Package loadtest holds destinations to the contract of package load.
//
// [Run] is the suite which every destination passes; [Memory] is the reference
// that passes it in the plainest way, and stands in for a destination in the
// tests of whatever lies left of load.
package loadtest

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
)

// Driver is how the suite reaches the destination under test.
type Driver struct {
	// Open opens the destination of t. Called again with the same t it opens
	// what the first call filled, as another process would. Each named step of a
	// commit calls step, which is never nil, and fails with its error. The suite
	// closes what it opens.
	Open func(t testing.TB, step func(name string) error) load.Destination

	// Rows reads a table, or a view; no rows where there is none.
	Rows func(t testing.TB, d load.Destination, table string) []Row

	// Alter changes a table by hand, as somebody would who has no penstock: it
	// drops the column where to is nil, else gives it that type. It may be left
	// out where nobody can.
	Alter func(t testing.TB, d load.Destination, table, column string, to arrow.DataType)

	// Drop drops a table by hand. It may be left out where the destination keeps
	// its account of tables elsewhere than in one.
	Drop func(t testing.TB, d load.Destination, table string)

	// Comment is what readers are told of a column, or of the table where it has
	// no name; "" where nothing is.
	Comment func(t testing.TB, d load.Destination, table, column string) string

	// Views says that tables have views of the rows that stand.
	Views bool

	// Escape is how a text with a zero byte reads where none can be stored; the
	// value is then among the rejects. It may be left out where one can.
	Escape func(text string) string

	// Skip leaves cases out by name, where a driver has told the same story before
	// and this telling would only be slow. It may be left out.
	Skip func(name string) bool

	// Reserved are names that the destination keeps for columns of its own. No
	// mapper gives a column one of them, see [schemas.Column].
	Reserved []string
}

// memoryDriver is the driver of the reference.
func memoryDriver() Driver {
	opened := map[testing.TB]*Memory{}
	return Driver{
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

// testCase is one story that every destination tells in the same way.
type testCase struct {
	name string
	run  func(*testing.T, Driver)
}

// cases is the suite.
func cases() []testCase {
	return slices.Concat(valueCases, mergeCases, modeCases, commitCases)
}

// sharedCases are about several sources in one place.
func sharedCases() []testCase {
	return []testCase{
		{"shared by sources", testShared},
		{"sources side by side", testNeighbours},
		{"ledgers of sources side by side", testNeighbourLedger},
		{"many sources commit at once", testNeighbourRace},
		{"shared and unshared do not mix", testUnshared},
	}
}

var (
	valueCases = []testCase{
		{"types round trip", testTypes},
		{"nulls", testNulls},
		{"empty batch", testEmptyBatch},
		{"nothing to write", testNothing},
		{"columns are added", testAddColumns},
		{"columns widen", testWiden},
		{"columns widen twice", testWidenChain},
		{"batches of several shapes", testShapes},
		{"inexact widening writes again", testInexact},
		{"a long text", testLongText},
		{"descriptions", testDescriptions},
		{"hostile columns", testHostileColumns},
		{"hostile tables", testHostileTables},
		{"hostile values", testHostileValues},
	}

	mergeCases = []testCase{
		{"unchanged rows stay", testUnchanged},
		{"duplicates in a batch", testDuplicates},
		{"duplicates in a pass", testDuplicatesInPass},
		{"composite key", testCompositeKey},
		{"null key", testNullKey},
		{"key changes type", testKeyWidens},
		{"children follow their parent", testChildren},
		{"grandchildren", testGrandchildren},
		{"children of a composite key", testCompositeChildren},
		{"children of a composite key that changes type", testCompositeKeyWidens},
		{"children of a key that is spelled in two ways", testKeyWidensChildrenStay},
		{"tombstone and revival", testTombstone},
		{"sweep counts only", testSweepCounts},
		{"an incremental pass", testIncrementalPass},
		{"sweep over commits", testSweepCommits},
		{"sweep after resume", testSweepResumed},
		{"sweep after another pass came between", testSweepPassBetween},
		{"sweep of nothing", testSweepNothing},
		{"keyless rows", testKeyless},
		{"keyless children", testKeylessChildren},
		{"keyless children of twins", testKeylessTwins},
		{"keyless children, inexact widening", testKeylessInexact},
		{"child tables know their place", testPlace},
	}

	modeCases = []testCase{
		{"modes", testModes},
		{"modes without a key", testModesKeyless},
		{"modes at random", testRandom},
		{"lists paged by key", testPaged},
		{"modes, applied in parts", testParts},
		{"modes turn", testTurns},
		{"views of what stands", testViews},
		{"rows handed in again", testRedelivered},
		{"sweep lists", testList},
		{"sweep of named rows", testSweepKeys},
		{"sweep of rows named in other types", testSweepKeysOfOthers},
		{"log of rows", testLog},
		{"log of rows without a key", testLogKeyless},
		{"log of values", testLogValues},
		{"scan", testScan},
		{"scan ends", testScanEnds},
		{"accept", testAccept},
		{"accept refuses", testAcceptRefuses},
		{"account is lost", testAccountLost},
	}

	commitCases = []testCase{
		{"own tables", testOwnTables},
		{"own rows written again", testOwnOrder},
		{"rejects met again", testRejectsMetAgain},
		{"longest keys", testLongestKeys},
		{"times of day", testClock},
		{"readers that follow", testFollow},
		{"times after cursors are lost", testTimesLost},
		{"a table has one owner", testOwner},
		{"writers that may write", testOwnerControls},
		{"a table is adopted", testAdopt},
		{"a table that is dropped", testStanding},
		{"tables describe themselves", testTables},
		{"moved cursor", testMoved},
		{"moved cursor, same again", testMovedABA},
		{"moved by another process", testMovedElsewhere},
		{"concurrent streams", testConcurrent},
		{"concurrent commits of one stream", testRace},
		{"rollback leaves nothing", testRollback},
		{"used up", testUsedUp},
		{"failure at every step", testEveryStep},
		{"cancelled at every step", testCancelled},
	}
)
