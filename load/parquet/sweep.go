package parquet

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// sweep counts the rows that the pass has not seen. If s has keys, it counts the rows with these keys instead. If
// s.Delete is true, sweep also deletes the counted rows. Without keys, it does so only if it is certain which rows the
// pass has seen. Invariant 12
func (m *merge) sweep(ctx context.Context, s load.Sweep) error {
	if s.Table == "" {
		return nil
	}
	if err := m.lake.step("sweep"); err != nil {
		return err
	}
	t := m.next.table(s.Table)
	if t == nil {
		m.out.Known = true
		return nil
	}
	f := &family{t: t, edits: map[int64]*segmentEdits{}}
	for _, c := range m.next.children(t.Name) {
		f.children = append(f.children, &childRows{t: c})
	}
	if err := m.collectMissing(ctx, f, s); err != nil {
		return fmt.Errorf("sweep %s: %w", s.Table, err)
	}
	m.out.Known = m.out.Missing == 0 || m.spec.Whole && !m.seen.interrupted || len(t.Key) == 0 || s.Keys != nil
	if err := m.list(ctx, f, s.List); err != nil {
		return fmt.Errorf("sweep %s: %w", s.Table, err)
	}
	if !s.Delete || !m.out.Known || m.out.Missing == 0 {
		return nil
	}
	m.out.Deleted = m.out.Missing
	if err := m.markDeleted(ctx, f); err != nil {
		return fmt.Errorf("sweep %s: %w", s.Table, err)
	}
	return nil
}

// collectMissing collects the rows that the pass has not seen. If s has keys, it collects the rows with these keys
// instead. In mode append it collects nothing.
func (m *merge) collectMissing(ctx context.Context, f *family, s load.Sweep) error {
	kind := markDead
	if f.t.Mode == schemas.Replace || len(f.t.Key) == 0 && f.t.Mode != schemas.History {
		kind = remove
	}
	note := func(seg *segment, row uint32) {
		m.out.Missing++
		f.edit(seg, edit{row: row, kind: kind, by: -1, at: m.when.UnixMicro()})
	}
	for _, seg := range m.next.segmentsOf(f.t.Name) {
		m.out.Alive += seg.root().Rows - seg.root().Dead
	}
	if f.t.Mode == schemas.Append {
		return nil
	}
	if s.Keys != nil {
		return m.collectKeys(ctx, f.t, s.Keys, note)
	}
	for _, seg := range m.next.segmentsOf(f.t.Name) {
		if err := m.collectMissingIn(ctx, f.t, seg, note); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) collectMissingIn(ctx context.Context, t *table, s *segment, note func(*segment, uint32)) error {
	carried, err := m.seen.in(ctx, t, s)
	if err != nil || carried.count() >= s.root().Rows {
		return err
	}
	keys, err := m.folder.keys.of(ctx, t, s.root())
	if err != nil {
		return err
	}
	buf := make([]uint64, chunkRows*wordsRow)
	for first := 0; first < keys.rows; first += chunkRows {
		words, err := keys.chunk(first, buf)
		if err != nil {
			return err
		}
		for i := range len(words) / wordsRow {
			if row := uint32(first + i); words[i*wordsRow+2]&deadMark == 0 && !carried.has(row) {
				note(s, row)
			}
		}
	}
	return ctx.Err()
}

func (m *merge) collectKeys(ctx context.Context, t *table, batches []arrow.RecordBatch, note func(*segment, uint32)) error {
	if len(t.Key) == 0 {
		return nil
	}
	keys := &table{Name: t.Name, Key: t.Key, schema: t.schema}
	for _, k := range t.Key {
		keys.Columns = append(keys.Columns, t.Columns[t.column(k)])
	}
	keys.schema = arrow.NewSchema(keyFields(t), nil)
	s := &load.Staged{Table: schemas.Table{Name: t.Name}}
	defer s.Release()
	for _, b := range batches {
		if err := s.Add(b); err != nil {
			return err
		}
	}
	h := &batchIndex{}
	for i, b := range s.Batches {
		columns, err := keys.shape(b.Columns(), b.Schema(), int(b.NumRows()))
		if err != nil {
			return err
		}
		ordinals, err := ordinalsOf(b)
		if err != nil {
			return err
		}
		h.take(i, columns, columns, -1, ordinals)
		release(columns)
	}
	h.index()
	h.dedupe()
	if err := m.match(ctx, t, h); err != nil {
		return err
	}
	for _, r := range h.rows {
		if r.seg != nil && r.have&deadMark == 0 {
			note(r.seg, r.row)
		}
	}
	return nil
}

func keyFields(t *table) []arrow.Field {
	var out []arrow.Field
	for _, k := range t.Key {
		out = append(out, t.schema.Field(t.column(k)))
	}
	return out
}

func (m *merge) list(ctx context.Context, f *family, n int) error {
	if len(f.t.Key) == 0 || n == 0 {
		return nil
	}
	schema := arrow.NewSchema(keyFields(f.t), nil)
	for _, g := range f.sorted() {
		edits := g.edits[:min(n, len(g.edits))]
		n -= len(edits)
		if len(edits) == 0 {
			continue
		}
		err := g.seg.root().read(ctx, f.t, f.t.Key, func(first int64, columns []arrow.Array, rows int) error {
			var refs []ref
			for len(edits) > 0 && int64(edits[0].row) < first+int64(rows) {
				refs = append(refs, ref{row: int32(int64(edits[0].row) - first)})
				edits = edits[1:]
			}
			if len(refs) == 0 {
				return nil
			}
			keys, err := gather(ctx, columns, refs)
			if err != nil {
				return err
			}
			defer release(keys)
			m.out.Keys = append(m.out.Keys, array.NewRecordBatch(schema, keys, int64(len(refs))))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) markDeleted(ctx context.Context, f *family) error {
	m.leaveFiles(f)
	edits := f.sorted()
	results := make([]rewritten, len(edits))
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(m.lake.o.Writers)
	for i, g := range edits {
		work.Go(func() (err error) {
			results[i], err = m.rewriteSegment(working, f, g, nil)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return m.addResults(ctx, f, nil, edits, results)
}
