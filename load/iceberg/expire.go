//go:build iceberg

package iceberg

import (
	"math"
	"strconv"

	"github.com/apache/iceberg-go/table"
)

// expire takes out snapshots that nobody needs any more.
func (w *commit) expire(e *edition) error {
	if e.base == nil {
		return nil
	}
	all := e.base.Snapshots()
	needed := w.needed(all)
	if e.shared {
		needed = w.neededOfAll(e, all)
	}
	var gone []int64
	for _, s := range all {
		if !needed[s.SnapshotID] && s.SnapshotID != w.snapshots[e.t.Name] {
			gone = append(gone, s.SnapshotID)
		}
	}
	if gone == nil {
		return nil
	}
	return e.do(table.NewRemoveSnapshotsUpdate(gone, false))
}

// needed are, of each of the commits that are kept, the last snapshot up to it.
func (w *commit) needed(all []table.Snapshot) map[int64]bool {
	out := map[int64]bool{}
	for _, kept := range w.of.Kept {
		last := int64(-1)
		for _, s := range all {
			if numberOf(s) <= kept {
				last = s.SnapshotID
			}
		}
		out[last] = true
	}
	return out
}

// manySnapshots is how many a table has that sources share: all are written down
// with each commit, and a thousand sources soon make a thousand.
const manySnapshots = 100

// neededOfAll are the snapshots of a table that sources share in which all files
// still stand: those from the last one on that the commit's source has made up to
// the oldest commit that it keeps. Those before it may have files that it gives up.
func (w *commit) neededOfAll(e *edition, all []table.Snapshot) map[int64]bool {
	first := max(0, len(all)-manySnapshots)
	switch {
	case e.t.Anew, len(w.of.Kept) == 0 && w.of.Sequence > 1:
		first = len(all)
	case len(w.of.Kept) > 0 && w.of.Kept[0] > 1: // else nothing was given up yet
		for i, s := range all {
			if saysOf(&s)[saySource] == w.of.Source && numberOf(s) <= w.of.Kept[0] {
				first = max(first, i)
			}
		}
	}
	out := map[int64]bool{}
	for _, s := range all[first:] {
		out[s.SnapshotID] = true
	}
	return out
}

// numberOf is the number of the commit that made a snapshot.
func numberOf(s table.Snapshot) int64 {
	n, err := strconv.ParseInt(saysOf(&s)[saySequence], 10, 64)
	if err != nil {
		return math.MaxInt64 // somebody else's
	}
	return n
}
