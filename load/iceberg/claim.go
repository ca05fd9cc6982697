//go:build iceberg

package iceberg

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// propClaim is in the summary of a snapshot of a head table: the ID of the commit that may change the stream's tables
// next. The snapshot has the same rows as the one before.
const propClaim = propPrefix + "claim"

func claimOf(meta table.Metadata) string { return summaryOf(meta.CurrentSnapshot())[propClaim] }

// claimWait is how long a commit waits for another one that has claimed the stream. If the other has ended without a
// commit, or is slow, the claim is then taken over, and the other can no longer commit. // Invariant 15
const claimWait = 10 * time.Second

// claim makes sure that no other process changes tables of the stream in the same period, if the catalog may change
// them one at a time. Without a claim, one process could undo the changes of another as unfinished, and the other could
// then commit its cursor. A claim is a snapshot of the head table. The commit of the head table succeeds only if the
// claim is still its current snapshot. claim returns errConflict until the next attempt finds its own claim.
// Invariants 2, 13
func (w *commit) claim(ctx context.Context, e *edition) error {
	if w.backend.atomic() {
		return nil
	}
	switch by := claimOf(e.base); {
	case by == w.spec.ID:
		return nil
	case by != "" && !w.overdue(by):
		return errConflict
	}
	s := table.Snapshot{
		SnapshotID: rand.Int64N(math.MaxInt64-1) + 1, SequenceNumber: e.base.LastSequenceNumber() + 1,
		TimestampMs: max(time.Now().UnixMilli(), e.base.LastUpdatedMillis()), SchemaID: &e.base.CurrentSchema().ID,
		Summary: &table.Summary{Operation: table.OpReplace, Properties: iceberg.Properties{propClaim: w.spec.ID}},
	}
	var err error
	if now := e.base.CurrentSnapshot(); now != nil {
		s.ParentSnapshotID, s.ManifestList = &now.SnapshotID, now.ManifestList
	} else if s.ManifestList, err = w.writeList(ctx, e, s, nil); err != nil {
		return err
	}
	b, err := table.MetadataBuilderFromBase(e.base, "")
	if err != nil {
		return err
	}
	updates := []table.Update{table.NewAddSnapshotUpdate(&s), table.NewSetSnapshotRefUpdate(table.MainBranch, s.SnapshotID, table.BranchRef, 0, 0, 0)}
	for _, u := range updates {
		if err := u.Apply(b); err != nil {
			return err
		}
	}
	meta, err := b.Build()
	if err != nil {
		return err
	}
	if err := w.backend.commit(ctx, []change{{table: e.t.Name, base: e.base, updates: updates, meta: meta}}); err != nil {
		return err
	}
	return errConflict
}

// overdue reports whether this process has waited long enough for the commit with the given ID.
func (c *catalog) overdue(claim string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, seen := c.claims[claim]; !seen {
		if len(c.claims) > 1000 {
			clear(c.claims)
		}
		c.claims[claim] = time.Now()
	}
	return time.Since(c.claims[claim]) > claimWait
}
