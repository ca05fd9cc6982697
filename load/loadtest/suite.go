// Package loadtest holds destinations to the contract of package load.
//
// [Run] is the suite which every destination passes; [Memory] is the reference
// that passes it in the plainest way, and stands in for a destination in the
// tests of whatever lies left of load.
package loadtest

import (
	"testing"

	"github.com/penstock-data/penstock/load"
)

// Driver is how the suite reaches the destination under test.
type Driver struct {
	// Open opens the destination of t. Called again with the same t it opens
	// what the first call filled, as another process would. Each named step of a
	// commit calls step, which is never nil, and fails with its error. The suite
	// closes what it opens.
	Open func(t testing.TB, step func(name string) error) load.Destination

	// Rows reads a table; no rows where there is none.
	Rows func(t testing.TB, d load.Destination, table string) []Row
}

// Run runs the suite.
func Run(t *testing.T, d Driver) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Driver)
	}{
		{"types round trip", testTypes},
		{"nulls", testNulls},
		{"empty batch", testEmptyBatch},
		{"nothing to write", testNothing},
		{"columns are added", testAddColumns},
		{"columns widen", testWiden},
		{"columns widen twice", testWidenChain},
		{"batches of several shapes", testShapes},
		{"inexact widening writes again", testInexact},
		{"hostile names", testHostileNames},
		{"hostile values", testHostileValues},
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
		{"sweep over commits", testSweepCommits},
		{"sweep after resume", testSweepResumed},
		{"sweep of nothing", testSweepNothing},
		{"keyless rows", testKeyless},
		{"keyless children", testKeylessChildren},
		{"keyless children of twins", testKeylessTwins},
		{"keyless children, inexact widening", testKeylessInexact},
		{"child tables know their place", testPlace},
		{"own tables", testOwnTables},
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
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, d) })
	}
}
