package parquet

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load/parquet/values"
	"github.com/penstock-data/penstock/schemas"
)

// rewritten is the result of the edits of a segment.
type rewritten struct {
	seg   *segment         // takes the place of the segment; nil: no rows are left
	moved map[string]*file // the rows that have moved to other files, by table
}

func (m *merge) rewriteSegment(ctx context.Context, f *family, g *segmentEdits, adds map[string][]ref) (rewritten, error) {
	out := rewritten{g.seg, map[string]*file{}}
	fx := &effects{m: m, f: f}
	p := &patch{t: f.t, staged: f.staged, edits: g.edits, seen: fx.collect, when: m.when.UnixMicro()}
	p.by = func(e edit) ref { return f.supplied.rows[e.by].ref }
	p.needs, p.dead = fx.needs(), f.deadIn(g.edits)
	root, err := m.patchMoving(ctx, g.seg.root(), g.seg.Part, p, out.moved)
	if err != nil {
		return rewritten{}, err
	}
	defer fx.release()
	if root != out.seg.root() {
		out.seg = out.seg.with(f.t.Name, root)
	}
	for _, b := range f.children {
		old := out.seg.Files[b.t.Name]
		var edits []edit
		if old != nil {
			if edits, err = fx.childEdits(ctx, b.t, old); err != nil {
				return rewritten{}, err
			}
		}
		c := &patch{t: b.t, staged: b.staged, edits: edits, adds: adds[b.t.Name], needs: []string{}, when: m.when.UnixMicro()}
		fresh, err := m.patchMoving(ctx, old, "", c, out.moved)
		if err != nil {
			return rewritten{}, err
		}
		if fresh != old {
			out.seg = out.seg.with(b.t.Name, fresh)
		}
	}
	return out, nil
}

type patch struct {
	t      *table
	edits  []edit // ordered by row
	staged *staged
	by     func(edit) ref
	adds   []ref
	when   int64 // time of the commit, in microseconds
	// seen is called with the rows that will be edited, before they change. If the file is not written again, it gets only
	// the columns in `needs`; nil: all columns.
	seen  func(ctx context.Context, first int64, columns []arrow.Array, edits []edit) error
	needs []string

	move func(rows []arrow.Array, n int) error // is called with the new values of rows that move to another file
	dead int64                                 // how many of the rows that the edits remove have a tombstone or have ended
}

func (p *patch) idle() bool {
	return len(p.adds) == 0 && !slices.ContainsFunc(p.edits, func(e edit) bool { return e.kind != logOnly })
}

func (x *builder) patch(ctx context.Context, old *file, part string, p *patch) (*file, error) {
	if len(p.edits) == 0 && len(p.adds) == 0 {
		return old, nil
	}
	if p.leaves(x, old) {
		return p.markRows(ctx, old)
	}
	var w *writer
	add := func(columns []arrow.Array, rows int) (err error) {
		if w == nil && rows > 0 {
			w, err = x.create(p.t, part)
		}
		if err != nil || rows == 0 {
			return err
		}
		return w.add(columns, rows)
	}
	if p.idle() {
		add = func([]arrow.Array, int) error { return nil }
	}
	err := p.run(ctx, old, add)
	switch {
	case p.idle():
		return old, err
	case w == nil:
		return nil, err
	case err != nil:
		w.abandon()
		return nil, err
	}
	return w.finish(ctx)
}

func (p *patch) run(ctx context.Context, old *file, add func([]arrow.Array, int) error) error {
	edits := p.edits
	if old != nil {
		err := old.read(ctx, p.t, nil, func(first int64, columns []arrow.Array, rows int) error {
			here := editsBefore(edits, first+int64(rows))
			edits = edits[len(here):]
			if len(here) == 0 {
				return add(columns, rows)
			}
			if err := p.visit(ctx, first, columns, here); err != nil {
				return err
			}
			out, rows, err := p.apply(ctx, first, columns, rows, here)
			if err != nil {
				return err
			}
			defer release(out)
			return add(out, rows)
		})
		if err != nil {
			return err
		}
	}
	if len(p.adds) == 0 {
		return nil
	}
	return p.staged.pieces(ctx, p.adds, add)
}

func (p *patch) apply(ctx context.Context, first int64, columns []arrow.Array, rows int, edits []edit) ([]arrow.Array, int, error) {
	out := make([]arrow.Array, len(columns))
	moved := slices.ContainsFunc(edits, func(e edit) bool { return e.kind == replace || e.leaves() })
	if !moved {
		for i, c := range columns {
			c.Retain()
			out[i] = c
		}
		return p.stamp(out, first, edits, func(row int) int { return row }), rows, nil
	}
	order := p.order(rows, first, edits)
	index := array.NewInt32Builder(memory.DefaultAllocator)
	defer index.Release()
	index.AppendValues(order.rows, nil)
	places := index.NewArray()
	defer places.Release()
	for c := range columns {
		a, err := p.column(ctx, c, columns[c], order, places)
		if err != nil {
			release(out[:c])
			return nil, 0, err
		}
		out[c] = a
	}
	return p.stamp(out, first, edits, order.place), len(order.rows), nil
}

// order says where each row of an edited batch comes from. The field rows has an index for each of these rows. An index
// that is less than the field n means a row of the old batch. Any other index means a staged row; the staged rows are
// grouped by their batch.
type order struct {
	n       int
	rows    []int32
	removed []int32
	refs    map[int32][]ref
	batches []int32
}

func (o *order) place(row int) int {
	gone, _ := slices.BinarySearch(o.removed, int32(row))
	return row - gone
}

func (p *patch) order(rows int, first int64, edits []edit) *order {
	o := &order{n: rows, refs: map[int32][]ref{}}
	for _, e := range edits {
		if e.kind == replace {
			r := p.by(e)
			if o.refs[r.batch] == nil {
				o.batches = append(o.batches, r.batch)
			}
			o.refs[r.batch] = append(o.refs[r.batch], r)
		}
	}
	next := map[int32]int32{}
	offset := int32(rows)
	for _, b := range o.batches {
		next[b] = offset
		offset += int32(len(o.refs[b]))
	}
	for row := range rows {
		for len(edits) > 0 && int64(edits[0].row)-first < int64(row) {
			edits = edits[1:]
		}
		if len(edits) == 0 || int64(edits[0].row)-first != int64(row) {
			o.rows = append(o.rows, int32(row))
			continue
		}
		switch e := edits[0]; {
		case e.leaves():
			o.removed = append(o.removed, int32(row))
		case e.kind == replace:
			b := p.by(e).batch
			o.rows = append(o.rows, next[b])
			next[b]++
		default:
			o.rows = append(o.rows, int32(row))
		}
	}
	return o
}

func (p *patch) column(ctx context.Context, c int, old arrow.Array, o *order, places arrow.Array) (arrow.Array, error) {
	all := []arrow.Array{old}
	for _, b := range o.batches {
		fresh, err := gather(ctx, p.staged.columns[b][c:c+1], o.refs[b])
		if err != nil {
			return nil, err
		}
		defer fresh[0].Release()
		all = append(all, fresh[0])
	}
	joined := old
	if len(all) > 1 {
		var err error
		if joined, err = array.Concatenate(all, memory.DefaultAllocator); err != nil {
			return nil, err
		}
		defer joined.Release()
	}
	out, err := take(ctx, []arrow.Array{joined}, places, make([]arrow.Array, 1))
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func (p *patch) stamp(columns []arrow.Array, first int64, edits []edit, place func(int) int) []arrow.Array {
	deleted, ended, synced := map[int]int64{}, map[int]int64{}, map[int]int64{}
	begin := p.t.column(schemas.ColValidFrom)
	for _, e := range edits {
		if e.moves || e.kind != end && e.kind != markDead {
			continue
		}
		i := place(int(int64(e.row) - first))
		at := e.at
		synced[i] = p.when
		if p.t.Mode == schemas.History {
			at = max(at, instantAt(columns[begin], i)) // a version cannot end before it begins
			ended[i] = at
		}
		if e.kind == markDead {
			deleted[i] = at
		}
	}
	set := func(column string, at map[int]int64) {
		if c := p.t.column(column); c >= 0 && len(at) > 0 {
			old := columns[c]
			columns[c] = values.Stamp(old, at)
			old.Release()
		}
	}
	set(schemas.ColSyncedAt, synced)
	set(schemas.ColDeletedAt, deleted)
	set(schemas.ColValidTo, ended)
	return columns
}
