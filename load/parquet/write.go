package parquet

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/load"
)

const splitRows = 32 << 10

func (m *merge) write(ctx context.Context, f *family) error {
	m.leaveFiles(f)
	plots := m.planSegments(f)
	if len(plots) == 0 && len(f.edits) == 0 {
		return nil
	}
	if err := m.lake.step("insert"); err != nil {
		return err
	}
	adds := f.assign(plots)
	if err := m.lake.step("children"); err != nil {
		return err
	}
	if err := m.logInserts(f, plots); err != nil {
		return err
	}
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(m.lake.o.Writers)
	for _, p := range plots {
		p.seg = m.next.newSegment(f.t.Name, p.part)
		m.build(working, work, f, p)
	}
	edits := f.sorted()
	results := make([]rewritten, len(edits))
	for i, g := range edits {
		work.Go(func() (err error) {
			results[i], err = m.rewriteSegment(working, f, g, adds[g.seg.ID])
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return m.addResults(ctx, f, plots, edits, results)
}

func (f *family) sorted() []*segmentEdits {
	var out []*segmentEdits
	for _, g := range f.edits {
		g.sort()
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *segmentEdits) int { return int(a.seg.ID - b.seg.ID) })
	return out
}

// planSegments makes one segment per partition. If there is only one partition, a large segment is split into up to
// Options.Writers segments.
func (m *merge) planSegments(f *family) []*segmentPlan {
	var out []*segmentPlan
	parts := map[string]*segmentPlan{}
	folders := make([][]string, len(f.staged.columns))
	for i := range f.supplied.rows {
		r := &f.supplied.rows[i]
		if r.outcome != inserted {
			continue
		}
		part := ""
		if f.t.partitions() {
			b := r.ref.batch
			if folders[b] == nil {
				folders[b] = f.t.parts(f.staged.columns[b])
			}
			part = folders[b][r.ref.row]
		}
		p := parts[part]
		if p == nil {
			p = &segmentPlan{part: part, refs: map[string][]ref{}}
			parts[part] = p
			out = append(out, p)
		}
		p.rows = append(p.rows, int32(i))
	}
	if len(out) == 1 {
		out = out[0].split(m.lake.o.Writers)
	}
	for i, p := range out {
		for _, j := range p.rows {
			f.supplied.rows[j].plan = int32(i)
		}
	}
	return out
}

func (p *segmentPlan) split(most int) []*segmentPlan {
	n := min(most, len(p.rows)/splitRows)
	if n < 2 {
		return []*segmentPlan{p}
	}
	var out []*segmentPlan
	for i := range n {
		rows := p.rows[len(p.rows)*i/n : len(p.rows)*(i+1)/n]
		out = append(out, &segmentPlan{part: p.part, rows: rows, refs: map[string][]ref{}})
	}
	return out
}

func (f *family) assign(plots []*segmentPlan) map[int64]map[string][]ref {
	standing := make(map[int64]int32, len(f.supplied.rows))
	for i := range f.supplied.rows {
		r := &f.supplied.rows[i]
		if r.outcome == dropped {
			continue
		}
		standing[r.ordinal] = int32(i)
		if f.staged.begins != nil {
			f.staged.begins[r.ref.batch][r.ref.row] = r.begin
		}
	}
	f.staged.settle(f.t)
	adds := map[int64]map[string][]ref{}
	for _, b := range f.children {
		if b.staged != nil {
			f.assignBranch(b, plots, standing, adds)
			b.staged.settle(b.t)
		}
	}
	return adds
}

func (f *family) assignBranch(b *childRows, plots []*segmentPlan, standing map[int64]int32, adds map[int64]map[string][]ref) {
	for i, ordinals := range b.staged.ordinals {
		for j, ordinal := range ordinals.Int64Values() {
			at, ok := standing[ordinal]
			if !ok {
				continue
			}
			r := &f.supplied.rows[at]
			if b.staged.begins != nil {
				b.staged.begins[i][j] = r.begin
			}
			var refs map[string][]ref
			if r.outcome == inserted {
				refs = plots[r.plan].refs
			} else if refs = adds[r.seg.ID]; refs == nil {
				refs = map[string][]ref{}
				adds[r.seg.ID] = refs
			}
			refs[b.t.Name] = append(refs[b.t.Name], ref{int32(i), int32(j)})
		}
	}
}

func (m *merge) build(ctx context.Context, work *errgroup.Group, f *family, p *segmentPlan) {
	files := make([]*file, 1+len(f.children))
	write := func(i int, t *table, s *staged, refs []ref) {
		if len(refs) == 0 {
			return
		}
		part := ""
		if i == 0 {
			part = p.part
		}
		fresh := &file{}
		p.seg.Files[t.Name] = fresh // the map is complete before another goroutine reads it
		work.Go(func() (err error) {
			files[i], err = m.compose(ctx, t, part, s, refs)
			if err == nil {
				*fresh = *files[i]
			}
			return err
		})
	}
	refs := make([]ref, len(p.rows))
	for i, j := range p.rows {
		refs[i] = f.supplied.rows[j].ref
	}
	write(0, f.t, f.staged, refs)
	for i, b := range f.children {
		write(i+1, b.t, b.staged, p.refs[b.t.Name])
	}
}

func (m *merge) addResults(ctx context.Context, f *family, plots []*segmentPlan, edits []*segmentEdits, results []rewritten) error {
	for i, g := range edits {
		if err := m.exchange(ctx, f.t, g, results[i].seg); err != nil {
			return err
		}
		m.addMoved(f.t, results[i].seg, results[i].moved)
	}
	for _, p := range plots {
		m.next.Segments = append(m.next.Segments, p.seg)
		words := make([]uint64, 0, wordsRow*len(p.rows))
		for _, i := range p.rows {
			r := &f.supplied.rows[i]
			words = append(words, r.fingerprint.Hi, r.fingerprint.Lo, r.mark)
		}
		if _, err := m.folder.keys.keep(p.seg.root(), words); err != nil {
			return err
		}
		m.seen.here[p.seg.ID] = newBitset(p.seg.root().Rows).all(p.seg.root().Rows)
	}
	return nil
}

func (m *merge) exchange(ctx context.Context, t *table, g *segmentEdits, s *segment) error {
	at := slices.Index(m.next.Segments, g.seg)
	if s == nil || s.root() == nil {
		m.next.Segments = slices.Delete(slices.Clone(m.next.Segments), at, at+1)
		delete(m.seen.here, g.seg.ID)
		return nil
	}
	m.next.Segments[at] = s
	if load.IsInternal(t.Name) {
		return nil
	}
	carried, err := m.seen.in(ctx, t, g.seg)
	if err != nil {
		return err
	}
	removed := map[uint32]bool{}
	for _, e := range g.edits {
		switch {
		case e.kind == replace:
			carried.set(e.row)
		case e.leaves():
			removed[e.row] = true
		}
	}
	if len(removed) == 0 {
		return nil
	}
	m.next.Counter++
	s.ID = m.next.Counter // the indexes of its rows have changed
	if s.root().Name == g.seg.root().Name {
		if err := m.folder.keys.without(g.seg.root(), s.root(), removed); err != nil {
			return err
		}
	}
	return m.seen.remove(ctx, t, g.seg, s, removed)
}
