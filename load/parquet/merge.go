package parquet

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func (m *merge) rows(ctx context.Context, pending []*load.Staged) error {
	for _, p := range pending {
		t := m.next.table(p.Name)
		if load.Child(t.schema) || p.Rows == 0 {
			continue
		}
		if load.IsInternal(t.Name) && len(t.Key) == 0 {
			if err := m.append(p.Name, p.Batches...); err != nil {
				return err
			}
			continue
		}
		if err := m.family(ctx, m.familyOf(t, p, pending)); err != nil {
			return fmt.Errorf("merge %s: %w", p.Name, err)
		}
	}
	return nil
}

func (m *merge) familyOf(t *table, p *load.Staged, pending []*load.Staged) *family {
	f := &family{t: t, staged: &staged{Staged: p}, edits: map[int64]*segmentEdits{}}
	for _, c := range m.next.children(t.Name) {
		b := &childRows{t: c}
		if i := slices.IndexFunc(pending, func(s *load.Staged) bool { return s.Name == c.Name }); i >= 0 {
			b.staged = &staged{Staged: pending[i]}
		}
		f.children = append(f.children, b)
	}
	return f
}

func (m *merge) family(ctx context.Context, f *family) error {
	defer f.release()
	if err := m.lake.step("stage"); err != nil {
		return err
	}
	if err := f.indexRows(); err != nil {
		return err
	}
	if len(f.t.Key) > 0 {
		if gone := f.supplied.dedupe(); !load.IsInternal(f.t.Name) {
			m.out.Deduplicated += gone
		}
	}
	if err := m.match(ctx, f.t, f.supplied); err != nil {
		return err
	}
	if len(f.t.Key) == 0 {
		m.decideDuplicates(f)
	} else if err := m.decide(ctx, f); err != nil {
		return err
	}
	return m.write(ctx, f)
}

func (f *family) indexRows() error {
	if err := f.staged.shape(f.t); err != nil {
		return err
	}
	for _, b := range f.children {
		if b.staged != nil {
			if err := b.staged.shape(b.t); err != nil {
				return err
			}
		}
	}
	keys, err := f.t.places(f.t.identity())
	if err != nil {
		return err
	}
	f.supplied = &batchIndex{rows: make([]suppliedRow, 0, f.staged.Rows)}
	hash := f.t.column(schemas.ColHash)
	for i, columns := range f.staged.columns {
		f.supplied.take(i, pick(columns, keys), columns, hash, f.staged.ordinals[i])
	}
	if begins := f.staged.begins; begins != nil {
		for i := range f.supplied.rows {
			r := &f.supplied.rows[i]
			r.begin = begins[r.ref.batch][r.ref.row]
		}
	}
	f.supplied.index()
	return nil
}

func (f *family) release() {
	f.staged.release()
	for _, b := range f.children {
		if b.staged != nil {
			b.staged.release()
		}
	}
}

func (h *batchIndex) take(batch int, keys, columns []arrow.Array, hash int, ordinals *array.Int64) {
	n := ordinals.Len()
	h.bound(keys[0])
	for i, p := range fingerprints(keys, n) {
		r := suppliedRow{fingerprint: p, ordinal: ordinals.Value(i), ref: ref{int32(batch), int32(i)}}
		if hash >= 0 {
			r.mark = markAt(columns[hash:hash+1], i)
		}
		h.rows = append(h.rows, r)
	}
}

func (m *merge) decide(ctx context.Context, f *family) error {
	var versions []int32
	for i := range f.supplied.rows {
		r := &f.supplied.rows[i]
		if r.seg == nil {
			r.outcome = inserted
			m.count(f.t, func(o *load.Outcome) { o.Written++; o.Inserted++ })
			continue
		}
		changed, err := m.countMatch(ctx, f.t, r)
		if err != nil {
			return err
		}
		switch {
		case !changed:
		case f.t.Mode == schemas.Append || f.t.Mode == schemas.History:
			versions = append(versions, int32(i))
		default:
			r.outcome = replacing
		}
	}
	if err := m.follow(ctx, f, versions); err != nil {
		return err
	}
	m.moveParts(f)
	for i := range f.supplied.rows {
		if r := &f.supplied.rows[i]; r.outcome == replacing {
			f.edit(r.seg, edit{row: r.row, kind: replace, by: int32(i)})
		}
	}
	return nil
}

func (m *merge) count(t *table, add func(*load.Outcome)) {
	if !load.IsInternal(t.Name) {
		add(m.out)
	}
}

func (m *merge) countMatch(ctx context.Context, t *table, r *suppliedRow) (changed bool, err error) {
	if load.IsInternal(t.Name) {
		return true, nil
	}
	carried, err := m.seen.in(ctx, t, r.seg)
	if err != nil {
		return false, err
	}
	stands := r.have&deadMark == 0
	same := stands && r.have == r.mark
	switch {
	case carried.has(r.row):
		m.out.Deduplicated++
	case same:
		m.out.Unchanged++
		carried.set(r.row)
	default:
		m.out.Written++
		if !stands {
			m.out.Revived++
		}
	}
	return !same, nil
}

// decideDuplicates decides which staged rows of a table without a key are inserted. A staged row is inserted only if
// all equal rows of the table are already matched with other staged rows.
func (m *merge) decideDuplicates(f *family) {
	for i := range f.supplied.rows {
		if r := &f.supplied.rows[i]; r.seg == nil {
			r.outcome = inserted
			m.out.Written++
			m.out.Inserted++
		}
	}
	m.out.Unchanged += int64(len(f.supplied.rows)) - int64(f.supplied.open)
}
