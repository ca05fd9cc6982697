//go:build iceberg

package iceberg

import (
	"math"
	"strconv"

	"github.com/apache/iceberg-go/table"
)

// expire removes snapshots that are no longer needed. Snapshots that other programs have tagged are kept.
func (w *commit) expire(e *edition) error {
	if e.base == nil {
		return nil
	}
	all := e.base.Snapshots()
	needed := w.needed(all)
	if e.shared {
		needed = w.neededOfAll(e, all)
	}
	for name, ref := range e.base.Refs() {
		if tagged(name) {
			needed[ref.SnapshotID] = true
		}
	}
	needed[w.snapshots[e.t.Name]], needed[e.current] = true, true
	if e.last != nil && !w.backend.atomic() {
		needed[e.last.SnapshotID] = true // if this commit is interrupted, the next commit starts from this snapshot: see [catalog.lookBack]
	}
	var gone []int64
	for _, s := range all {
		if !needed[s.SnapshotID] {
			gone = append(gone, s.SnapshotID)
		}
	}
	if gone == nil {
		return nil
	}
	return e.do(table.NewRemoveSnapshotsUpdate(gone, false))
}

func (w *commit) needed(all []table.Snapshot) map[int64]bool {
	out := map[int64]bool{}
	for _, kept := range w.spec.Kept {
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

// manySnapshots limits the number of snapshots of a shared table. Every commit writes the list of all snapshots to the
// metadata. Without the limit, the commits of a thousand sources would soon make a thousand snapshots.
const manySnapshots = 100

// neededOfAll returns the snapshots of a shared table that are kept: the newest snapshots whose files all exist, at
// most manySnapshots. This source keeps the files of some of its commits. Snapshots from before the oldest of these
// commits are not kept, because they may need files that this source removes. If this source keeps no earlier commit,
// or if e.t.Reset is set, no earlier snapshot is kept.
func (w *commit) neededOfAll(e *edition, snapshots []table.Snapshot) map[int64]bool {
	first := max(0, len(snapshots)-manySnapshots)
	switch {
	case e.t.Reset, len(w.spec.Kept) == 0 && w.spec.Sequence > 1:
		first = len(snapshots)
	case len(w.spec.Kept) > 0 && w.spec.Kept[0] > 1: // if all commits are kept, no files were removed yet
		for i, s := range snapshots {
			if summaryOf(&s)[propSourceName] == w.spec.Source && numberOf(s) <= w.spec.Kept[0] {
				first = max(first, i)
			}
		}
	}
	out := map[int64]bool{}
	for _, s := range snapshots[first:] {
		out[s.SnapshotID] = true
	}
	return out
}

func numberOf(s table.Snapshot) int64 {
	n, err := strconv.ParseInt(summaryOf(&s)[propSequence], 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}
