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

// merge is one Apply.
type merge struct {
	*tx
	out *load.Outcome
}

// family is what was handed in for a root table and for those that hang from
// it, and what becomes of it.
type family struct {
	t      *table
	staged *staged
	hand   *batchIndex
	edits  map[int64]*editing // by segment

	children []*branch
}

// branch is a child table of a family.
type branch struct {
	t      *table
	staged *staged // nil where no rows came
}

// editing is what happens to rows of one segment.
type editing struct {
	seg   *segment
	edits []edit
}

// edit is what happens to one row.
type edit struct {
	row  uint32
	kind kind
	by   int32 // the row handed in that causes it; -1: none
	at   int64 // when, where it ends
}

// kind is a kind of edit.
type kind uint8

const (
	look    kind = iota // nothing; it is written down what the row was
	replace             // the row handed in takes its place
	remove              // it goes, and what hangs from it
	end                 // another version follows
	bury                // it bears a tombstone
)

// rows merges what was staged, each root table together with its children.
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
		if err := m.family(ctx, m.gathered(t, p, pending)); err != nil {
			return fmt.Errorf("merge %s: %w", p.Name, err)
		}
	}
	return nil
}

// gathered is the family of a root table, with what is pending for it.
func (m *merge) gathered(t *table, p *load.Staged, pending []*load.Staged) *family {
	f := &family{t: t, staged: &staged{Staged: p}, edits: map[int64]*editing{}}
	for _, c := range m.next.children(t.Name) {
		b := &branch{t: c}
		if i := slices.IndexFunc(pending, func(s *load.Staged) bool { return s.Name == c.Name }); i >= 0 {
			b.staged = &staged{Staged: pending[i]}
		}
		f.children = append(f.children, b)
	}
	return f
}

// append keeps rows for a table of penstock's own until the commit: they come
// in small numbers, and are to be one file.
func (x *tx) append(table string, batches ...arrow.RecordBatch) error {
	own := x.own[table]
	if own == nil {
		own = &load.Staged{Table: schemas.Table{Name: table}}
		x.own[table] = own
	}
	for _, b := range batches {
		if err := own.Add(b); err != nil {
			return err
		}
	}
	return nil
}

// family merges the rows of one root table and what hangs from them.
func (m *merge) family(ctx context.Context, f *family) error {
	defer f.release()
	if err := m.lake.step("stage"); err != nil {
		return err
	}
	if err := f.gather(); err != nil {
		return err
	}
	if len(f.t.Key) > 0 {
		if gone := f.hand.dedupe(); !load.IsInternal(f.t.Name) {
			m.out.Deduplicated += gone
		}
	}
	if err := m.meet(ctx, f.t, f.hand); err != nil {
		return err
	}
	if len(f.t.Key) == 0 {
		m.decideTwins(f)
	} else if err := m.decide(ctx, f); err != nil {
		return err
	}
	return m.write(ctx, f)
}

// gather makes what was staged findable by its keys.
func (f *family) gather() error {
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
	f.hand = &batchIndex{rows: make([]suppliedRow, 0, f.staged.Rows)}
	hash := f.t.column(schemas.ColHash)
	for i, columns := range f.staged.columns {
		f.hand.take(i, pick(columns, keys), columns, hash, f.staged.ordinals[i])
	}
	if begins := f.staged.begins; begins != nil {
		for i := range f.hand.rows {
			r := &f.hand.rows[i]
			r.begin = begins[r.ref.batch][r.ref.row]
		}
	}
	f.hand.index()
	return nil
}

// release gives up what was shaped, once it is in files.
func (f *family) release() {
	f.staged.release()
	for _, b := range f.children {
		if b.staged != nil {
			b.staged.release()
		}
	}
}

func pick(columns []arrow.Array, places []int) []arrow.Array {
	out := make([]arrow.Array, len(places))
	for i, p := range places {
		out[i] = columns[p]
	}
	return out
}

// take adds the rows of a batch.
func (h *batchIndex) take(batch int, keys, columns []arrow.Array, hash int, ordinals *array.Int64) {
	n := ordinals.Len()
	h.bound(keys[0])
	for i, p := range fingerprints(keys, n) {
		r := suppliedRow{print: p, ordinal: ordinals.Value(i), ref: ref{int32(batch), int32(i)}}
		if hash >= 0 {
			r.mark = markAt(columns[hash:hash+1], i)
		}
		h.rows = append(h.rows, r)
	}
}

// decide says what becomes of each row handed in, and of the row it meets.
func (m *merge) decide(ctx context.Context, f *family) error {
	var versions []int32 // rows handed in that meet another content
	for i := range f.hand.rows {
		r := &f.hand.rows[i]
		if r.seg == nil {
			r.fate = inserted
			m.count(f.t, func(o *load.Outcome) { o.Written++; o.Inserted++ })
			continue
		}
		changed, err := m.weigh(ctx, f.t, r)
		if err != nil {
			return err
		}
		switch {
		case !changed:
		case f.t.Mode == schemas.Append || f.t.Mode == schemas.History:
			versions = append(versions, int32(i))
		default:
			r.fate = replacing
		}
	}
	if err := m.follow(ctx, f, versions); err != nil {
		return err
	}
	m.moveParts(f)
	for i := range f.hand.rows {
		if r := &f.hand.rows[i]; r.fate == replacing {
			f.edit(r.seg, edit{row: r.row, kind: replace, by: int32(i)})
		}
	}
	return nil
}

// count counts an outcome, unless the table is one of penstock's own.
func (m *merge) count(t *table, add func(*load.Outcome)) {
	if !load.IsInternal(t.Name) {
		add(m.out)
	}
}

// weigh counts a row that meets one of the table, and reports whether it is to
// be written.
func (m *merge) weigh(ctx context.Context, t *table, r *suppliedRow) (changed bool, err error) {
	if load.IsInternal(t.Name) {
		return true, nil
	}
	carried, err := m.carried(ctx, r.seg)
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

// decideTwins says what becomes of rows without a key: those that the table has
// more often than the pass has carried them so far are there already.
func (m *merge) decideTwins(f *family) {
	for i := range f.hand.rows {
		if r := &f.hand.rows[i]; r.seg == nil {
			r.fate = inserted
			m.out.Written++
			m.out.Inserted++
		}
	}
	m.out.Unchanged += int64(len(f.hand.rows)) - int64(f.hand.open)
}

// edit notes what happens to a row.
func (f *family) edit(s *segment, e edit) {
	g := f.edits[s.ID]
	if g == nil {
		g = &editing{seg: s}
		f.edits[s.ID] = g
	}
	g.edits = append(g.edits, e)
}

// sort puts the edits of a segment into the order of its rows.
func (g *editing) sort() {
	slices.SortFunc(g.edits, func(a, b edit) int { return int(int64(a.row) - int64(b.row)) })
}

// rootOf is the name of the root table that a table hangs from.
func (m *manifest) rootOf(t *table) string {
	best := t.Name
	for _, r := range m.Tables {
		if !load.Child(r.schema) && load.Hangs(t.as(), r.Name) {
			best = r.Name
		}
	}
	return best
}
