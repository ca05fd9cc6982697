//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
)

// ownTag is a tag on penstock's last snapshot of each table. Another program may compact the table and then expire
// snapshots. The tag keeps penstock's snapshot and its files, because the next commit needs them.
const ownTag = "_penstock"

// tagged() reports whether another program has made the tag or branch with this name. The snapshot of such a tag or
// branch is never removed.
func tagged(name string) bool { return name != table.MainBranch && name != ownTag }

const diffDropped = "it is no longer in the catalog"

// newestOwn returns penstock's last snapshot of a table, or nil.
func newestOwn(meta table.Metadata) *table.Snapshot {
	if s := meta.SnapshotByName(ownTag); summaryOf(s)[propCommit] != "" {
		return s
	}
	var newest *table.Snapshot
	for _, s := range meta.Snapshots() {
		if summaryOf(&s)[propCommit] != "" && (newest == nil || s.SequenceNumber > newest.SequenceNumber) {
			newest = &s
		}
	}
	return newest
}

// history finds earlier snapshots of a table. If another program has expired a snapshot, history looks for it in
// earlier metadata files.
type history struct {
	c       *catalog
	meta    table.Metadata
	earlier []table.Metadata // nil: not read yet
}

func (h *history) parent(ctx context.Context, s *table.Snapshot) (*table.Snapshot, error) {
	if s.ParentSnapshotID == nil {
		return nil, nil
	}
	if p := h.meta.SnapshotByID(*s.ParentSnapshotID); p != nil {
		return p, nil
	}
	if h.earlier == nil {
		if err := h.read(ctx); err != nil {
			return nil, err
		}
	}
	for _, meta := range h.earlier {
		if p := meta.SnapshotByID(*s.ParentSnapshotID); p != nil {
			return p, nil
		}
	}
	return nil, nil
}

func (h *history) read(ctx context.Context) error {
	h.earlier = []table.Metadata{}
	for log := range h.meta.PreviousFiles() {
		meta, err := h.c.files.metadata(ctx, log.MetadataFile)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errOutside) {
			continue
		}
		if err != nil {
			return err
		}
		h.earlier = append(h.earlier, meta)
	}
	return nil
}

// since describes what has happened to a table since penstock's last commit to it.
type since struct {
	last       *table.Snapshot // the snapshot of that commit; nil: it no longer exists
	diff       []string        // changes of rows by other programs
	unfinished bool            // a later commit of penstock changed this table, but was interrupted before it changed the stream's head table, which has the cursor
}

// lookBack finds out how a table has changed since one of its snapshots. A snapshot does not count as a change if it
// only replaces files by files with the same rows. Compaction makes such snapshots. // Invariant 16
func (c *catalog) lookBack(ctx context.Context, meta table.Metadata, want int64) (out since, err error) {
	out.last = meta.SnapshotByID(want)
	h := &history{c: c, meta: meta}
	s := meta.CurrentSnapshot()
	foreign := &foreignRun{}
	for s != nil && s.SnapshotID != want {
		if summaryOf(s)[propCommit] != "" {
			out.unfinished = true
			out.diff = append(out.diff, foreign.changes(s)...)
			foreign = &foreignRun{}
		} else {
			foreign.add(s)
		}
		if out.last != nil && s.SequenceNumber < out.last.SequenceNumber {
			s = nil // s is older than the wanted snapshot, which is therefore not an ancestor of s
		} else if s, err = h.parent(ctx, s); err != nil {
			return since{}, err
		}
	}
	out.diff = append(out.diff, foreign.changes(s)...)
	if s == nil && out.diff == nil {
		out.diff = []string{fmt.Sprintf("its current snapshot does not descend from penstock's last snapshot %d: another program has rolled the table back, or snapshots have expired", want)}
	}
	if out.last == nil && out.diff == nil {
		out.diff = []string{fmt.Sprintf("another program has removed penstock's last snapshot %d", want)}
	}
	return out, nil
}

// foreignRun is a run of snapshots of other programs that directly follows a snapshot of penstock.
type foreignRun struct {
	changed []string // the snapshots that certainly change rows
	fewer   []string // the snapshots that only replace files, but remove more rows than they add
	missing int64    // how many more rows they remove
}

// add adds the snapshot that comes before the others of the run. It reads only the operation and the summary.
func (r *foreignRun) add(s *table.Snapshot) {
	missing := number(s, "deleted-records") - number(s, "added-records")
	switch {
	case s.Summary == nil || s.Summary.Operation != table.OpReplace || missing < 0:
		r.changed = append(r.changed, describe(s))
	case missing > 0:
		r.fewer = append(r.fewer, describe(s))
		r.missing += missing
	}
}

// changes returns the changes of rows. The snapshot `own` is penstock's snapshot before the run; nil: it was not found. A
// program that compacts files leaves out the rows that delete files mark as deleted. So all snapshots of the run together
// may lose as many rows as `own` has deleted rows. // Invariant 16
func (r *foreignRun) changes(own *table.Snapshot) []string {
	if r.missing > number(own, "total-position-deletes") {
		return append(r.changed, r.fewer...)
	}
	return r.changed
}

// number returns a number of a snapshot's summary; 0 if it is missing.
func number(s *table.Snapshot, what string) int64 {
	n, _ := strconv.ParseInt(summaryOf(s)[what], 10, 64)
	return n
}

func describe(s *table.Snapshot) string {
	says := summaryOf(s)
	op := "unknown"
	if s.Summary != nil {
		op = string(s.Summary.Operation)
	}
	return fmt.Sprintf("another program has written the snapshot %d (%s): %s rows added, %s rows deleted, %s delete files added",
		s.SnapshotID, op, cmp.Or(says["added-records"], "0"), cmp.Or(says["deleted-records"], "0"), cmp.Or(says["added-delete-files"], "0"))
}

// Foreign implements [parquet.Catalog].
func (c *catalog) Foreign(ctx context.Context, stream, source string, t parquet.TableFiles) ([]string, error) {
	all, err := c.backend.locate(ctx, t.Name, parquet.HeadTable(stream))
	if err != nil {
		return nil, err
	}
	h, err := c.head(ctx, stream, source, all[parquet.HeadTable(stream)])
	if err != nil {
		return nil, err
	}
	at := all[t.Name]
	if at == "" {
		return []string{diffDropped}, nil
	}
	meta, err := c.load(ctx, t.Name, at)
	if err != nil {
		return nil, err
	}
	past, err := c.lookBack(ctx, meta, h.tables[t.Name])
	if err != nil {
		return nil, err
	}
	diff := past.diff
	e := &edition{t: t, base: meta, shared: source != ""}
	changed, ok := errors.AsType[*load.ForeignChange](e.compare())
	if ok {
		diff = append(diff, changed.Diff...)
	}
	return diff, nil
}
