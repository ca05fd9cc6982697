package parquet

import (
	"context"
	"maps"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// pass has a bit for each row that the pass has seen. A row is seen if the pass has written it or found it unchanged.
type pass struct {
	run         string
	bits        map[int64]bitset
	lastSegment map[string]int64 // by table: the segment in which rows were last found
	interrupted bool             // a later pass has run meanwhile, so the bits of this pass are lost
}

func (f *folder) passOf(run string) *pass {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pass == nil || f.pass.run != run {
		lost := f.pass != nil && run < f.pass.run
		f.pass = &pass{run: run, bits: map[int64]bitset{}, lastSegment: map[string]int64{}, interrupted: lost}
	}
	return f.pass
}

// carried returns the bits of the rows that the pass has seen, including those of this transaction. Rows that the
// pass wrote before this process started are recognized by their run ID. In a table without a key, each staged row
// sets the bit of one of the equal rows. A pass over such a table is one transaction, so there are no earlier bits.
func (x *tx) carried(ctx context.Context, s *segment) (bitset, error) {
	if b := x.bits[s.ID]; b != nil {
		return b, nil
	}
	b, t := newBitset(s.root().Rows), x.next.table(s.Table)
	known := x.pass.bits[s.ID]
	if len(t.Key) > 0 {
		copy(b, known)
	}
	if known == nil && len(t.Key) > 0 && t.has(schemas.ColRun) && s.root().Run >= x.spec.Run {
		err := s.root().read(ctx, t, []string{schemas.ColRun}, func(first int64, c []arrow.Array, rows int) error {
			runs, _ := c[0].(*array.String)
			for i := range rows {
				if runs.IsValid(i) && runs.Value(i) >= x.spec.Run {
					b.set(uint32(first) + uint32(i))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	x.bits[s.ID] = b
	return b, nil
}

// full reports whether the pass has seen all live rows of a segment. It is exact only for tables without a key. In
// other tables, a row that ended after the pass had seen it is counted twice, so full may return true too early.
func (x *tx) full(ctx context.Context, s *segment) (bool, error) {
	b, err := x.carried(ctx, s)
	if err != nil {
		return false, err
	}
	return b.count()+s.root().Dead >= s.root().Rows, nil
}

// renumber gives a segment a new ID after rows were removed from it. It copies the bits of the other rows to their
// new indexes.
func (x *tx) renumber(ctx context.Context, old, s *segment, removed func(row uint32) bool) error {
	before, err := x.carried(ctx, old)
	if err != nil {
		return err
	}
	delete(x.bits, old.ID)
	x.next.Counter++
	s.ID = x.next.Counter
	after := newBitset(s.root().Rows)
	row := uint32(0)
	for i := range uint32(old.root().Rows) {
		if removed(i) {
			continue
		}
		if before.has(i) {
			after.set(row)
		}
		row++
	}
	x.bits[s.ID] = after
	return nil
}

func (x *tx) remember() {
	maps.Copy(x.pass.bits, x.bits)
	there := map[int64]bool{}
	for _, s := range x.next.Segments {
		there[s.ID] = true
	}
	maps.DeleteFunc(x.pass.bits, func(id int64, _ bitset) bool { return !there[id] })
}
