package parquet

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load"
)

// DeleteRule says when a commit to a [Catalog] does not write a file again whose rows have changed (merge on read). It
// then marks these rows as deleted (see [file.Deleted]), and writes the new rows into another file. A lake without a
// catalog always writes such files again (copy on write), because readers of plain Parquet files cannot find the deleted rows.
type DeleteRule struct {
	MinSize  int64   // size in bytes; a smaller file is written again; 0: 1 MiB
	MaxShare float64 // the greatest share of deleted rows in a file; a file with a greater share is written again; 0: 0.1
}

const (
	defaultMinSize  = 1 << 20
	defaultMaxShare = 0.1

	// manyDeleted limits the deleted rows of a table and its child tables. Every commit writes all of their positions
	// into the manifest, and most commits write them into a delete file. Above the limit, a commit writes some files
	// again. // Invariant 6
	manyDeleted = 500_000
)

// leaves reports whether n rows of a file may be marked as deleted, instead of writing the file again.
func (l *Lake) leaves(t *table, f *file, n int) bool {
	r := l.o.Deletes
	return l.o.Catalog != nil && !load.IsInternal(t.Name) && int64(n) < f.Rows && f.Size >= r.MinSize &&
		float64(len(f.Deleted)+n) <= r.MaxShare*float64(f.stored())
}

// stored returns the number of rows in the file itself.
func (f *file) stored() int64 { return f.Rows + int64(len(f.Deleted)) }

// version identifies the file together with its deleted rows.
func (f *file) version() string {
	if len(f.Deleted) == 0 {
		return f.Name
	}
	sum := xxh3.Hash128(arrow.Uint32Traits.CastToBytes(f.Deleted)).Bytes()
	return f.Name + string(sum[:])
}

// without returns the file without some rows. The parameter `dead` is how many of them have a tombstone or have ended.
func (f *file) without(rows []uint32, dead int64) *file {
	out := *f
	out.Deleted, out.Deletes = f.Deleted.With(rows), nil
	out.Rows -= int64(len(rows))
	out.Dead = min(f.Dead-dead, out.Rows)
	return &out
}

// leaveFiles decides which files of the family's root table are left as they are. In these files, replaced rows are
// removed, and the new rows are inserted into another file. Rows that end or get a tombstone move to another file.
func (m *merge) leaveFiles(f *family) {
	for _, g := range f.edits {
		n := 0
		for _, e := range g.edits {
			if e.kind != logOnly {
				n++
			}
		}
		if n == 0 || !m.lake.leaves(f.t, g.seg.root(), n) {
			continue
		}
		for i := range g.edits {
			switch e := &g.edits[i]; e.kind {
			case replace:
				e.kind = remove
				f.supplied.rows[e.by].outcome = inserted
			case end, markDead:
				e.moves = true
			}
		}
	}
}

// leaves reports whether the edits only take rows away from the file, and the file can be left as it is.
func (p *patch) leaves(x *builder, old *file) bool {
	if old == nil || len(p.adds) > 0 {
		return false
	}
	n := 0
	for _, e := range p.edits {
		switch {
		case e.leaves():
			n++
		case e.kind != logOnly:
			return false
		}
	}
	return n > 0 && x.lake.leaves(p.t, old, n)
}

// leaves reports whether the edit takes the row away from its file.
func (e edit) leaves() bool { return e.kind == remove || e.moves }

// markRows marks the rows of the edits as deleted. It reads only what the other parts of the edits need.
func (p *patch) markRows(ctx context.Context, old *file) (*file, error) {
	columns := p.needs
	if slices.ContainsFunc(p.edits, func(e edit) bool { return e.moves }) {
		columns = nil
	}
	if columns == nil || len(columns) > 0 {
		places, err := p.t.places(columns)
		if err != nil {
			return nil, err
		}
		edits := p.edits
		err = old.read(ctx, p.t, columns, func(first int64, b []arrow.Array, rows int) error {
			here := editsBefore(edits, first+int64(rows))
			edits = edits[len(here):]
			all := make([]arrow.Array, len(p.t.Columns))
			for i, place := range places {
				all[place] = b[i]
			}
			return p.visit(ctx, first, all, here)
		})
		if err != nil {
			return nil, err
		}
	}
	var gone []uint32
	for _, e := range p.edits {
		if e.leaves() {
			gone = append(gone, e.row)
		}
	}
	return old.without(gone, p.dead), nil
}

// editsBefore returns the first edits, up to the given row.
func editsBefore(edits []edit, row int64) []edit {
	n := 0
	for n < len(edits) && int64(edits[n].row) < row {
		n++
	}
	return edits[:n]
}

// visit is called with the rows that will be edited, before they change.
func (p *patch) visit(ctx context.Context, first int64, columns []arrow.Array, edits []edit) error {
	if len(edits) == 0 {
		return nil
	}
	if p.seen != nil {
		if err := p.seen(ctx, first, columns, edits); err != nil {
			return err
		}
	}
	var refs []ref
	var moved []edit
	at := map[int]int{}
	for _, e := range edits {
		if e.moves {
			row := int(int64(e.row) - first)
			at[row] = len(refs)
			refs = append(refs, ref{row: int32(row)})
			e.moves = false
			moved = append(moved, e)
		}
	}
	if refs == nil {
		return nil
	}
	rows, err := gather(ctx, columns, refs)
	if err != nil {
		return err
	}
	rows = p.stamp(rows, first, moved, func(row int) int { return at[row] })
	defer release(rows)
	return p.move(rows, len(refs))
}

// patchMoving does the same as patch, but first it makes the function p.move write rows into another file. It adds this
// file to `moved`, by the name of the table. So a goroutine has only one such file open at a time.
func (x *builder) patchMoving(ctx context.Context, old *file, part string, p *patch, moved map[string]*file) (*file, error) {
	var w *writer
	p.move = func(rows []arrow.Array, n int) (err error) {
		if w == nil {
			if w, err = x.create(p.t, part); err != nil {
				return err
			}
		}
		return w.add(rows, n)
	}
	out, err := x.patch(ctx, old, part, p)
	switch {
	case w == nil:
		return out, err
	case err != nil:
		w.abandon()
		return nil, err
	}
	moved[p.t.Name], err = w.finish(ctx)
	return out, err
}

// addMoved adds a segment with the rows that have moved from the segment s. It comes directly after s. So the versions
// of a record stay in the order in which they were written, and compaction finds the moved rows of several commits side
// by side. // Invariant 6
func (m *merge) addMoved(t *table, s *segment, moved map[string]*file) {
	if moved[t.Name] == nil {
		return
	}
	seg := m.next.newSegment(t.Name, s.Part)
	seg.Files = moved
	m.next.Segments = slices.Insert(slices.Clone(m.next.Segments), slices.Index(m.next.Segments, s)+1, seg)
	m.seen.here[seg.ID] = newBitset(seg.root().Rows)
}

// limitDeleted writes files of a table and its child tables again while they have too many deleted rows. It begins with
// the segments that have the most deleted rows.
func (x *tx) limitDeleted(ctx context.Context, t *table) error {
	deleted := func(s *segment) (n int) {
		for _, f := range s.Files {
			n += len(f.Deleted)
		}
		return n
	}
	segs := x.next.segmentsOf(t.Name)
	total := 0
	for _, s := range segs {
		total += deleted(s)
	}
	if total <= manyDeleted {
		return nil
	}
	slices.SortStableFunc(segs, func(a, b *segment) int { return deleted(b) - deleted(a) })
	for _, s := range segs {
		if total <= manyDeleted/2 {
			break
		}
		if err := x.mergeSegments(ctx, t, []*segment{s}); err != nil {
			return err
		}
		total -= deleted(s)
	}
	return nil
}
