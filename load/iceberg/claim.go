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

// propClaim is a property in the summary of a snapshot of a head table. The head table of a stream contains the
// stream's cursor, so every commit changes this table. The value of the property is the ID of the commit that may
// change the stream's tables next. A snapshot with this property has the same rows as the snapshot before it.
const propClaim = propPrefix + "claim"

func claimOf(meta table.Metadata) string { return summaryOf(meta.CurrentSnapshot())[propClaim] }

// claimWait is how long a commit waits for another commit that has claimed the stream. The process of that commit may
// have ended, or it may be slow. After the wait, this commit takes over the claim, and the other commit can no longer
// take place. // Invariant 15
const claimWait = 10 * time.Second

// claim makes sure that only one process at a time changes tables of the stream. It is needed if the catalog may change
// the tables of a commit one at a time. Without a claim, the following could happen:
//
//   - Process A changes the first table.
//   - Process B finds this change, concludes that a commit was interrupted, and undoes the change.
//   - A changes the head table and so commits its cursor, but the rows of the first table are missing.
//
// A claim is a snapshot of the head table. A later change of the head table succeeds only if the claim is still the
// table's current snapshot. claim() returns errConflict if it has just made a claim, or if it has to wait for the claim
// of another process. In both cases the caller tries again. When an attempt finds the claim of its own commit, it
// continues. Invariants 2, 13
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

// overdue reports whether more than c.claimWait has passed since this process first saw the claim.
func (c *catalog) overdue(claim string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, seen := c.claims[claim]; !seen {
		if len(c.claims) > 1000 {
			clear(c.claims)
		}
		c.claims[claim] = time.Now()
	}
	return time.Since(c.claims[claim]) > c.claimWait
}
