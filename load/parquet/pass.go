package parquet

import (
	"context"
	"maps"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// pass is what this process remembers of one reading of a stream: a bit for
// each row it has carried.
type pass struct {
	run  string
	bits map[int64]bitset // by segment
	hint map[string]int64 // by table: the segment where rows were met last
	lost bool             // another pass came between, and it was forgotten
}

// passOf is the pass of that run, or a new one.
func (f *folder) passOf(run string) *pass {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pass == nil || f.pass.run != run {
		lost := f.pass != nil && run < f.pass.run
		f.pass = &pass{run: run, bits: map[int64]bitset{}, hint: map[string]int64{}, lost: lost}
	}
	return f.pass
}

// carried are the rows of a segment that the pass has carried so far, this
// transaction included. Of rows it has written before this process came, their
// run tells. A pass of records without a key is one transaction: of equal rows
// each is carried as often as that has met it.
func (x *tx) carried(ctx context.Context, s *segment) (bitset, error) {
	if b := x.bits[s.ID]; b != nil {
		return b, nil
	}
	b, t := newBitset(s.root().Rows), x.next.table(s.Table)
	known := x.pass.bits[s.ID]
	if len(t.Key) > 0 {
		copy(b, known)
	}
	if known == nil && len(t.Key) > 0 && t.has(schemas.ColRun) && s.root().Run >= x.of.Run {
		err := s.root().read(ctx, t, []string{schemas.ColRun}, func(first int64, c []arrow.Array, rows int) error {
			runs, _ := c[0].(*array.String)
			for i := range rows {
				if runs.IsValid(i) && runs.Value(i) >= x.of.Run {
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

// full reports whether the pass has carried all rows of a segment that stand,
// where they have no key: of the others, one may have ended since it was carried.
func (x *tx) full(ctx context.Context, s *segment) (bool, error) {
	b, err := x.carried(ctx, s)
	if err != nil {
		return false, err
	}
	return b.count()+s.root().Dead >= s.root().Rows, nil
}

// renumber gives a segment a new number, as rows were removed from it, and
// keeps what the pass has carried of the others.
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

// remember makes what the transaction has carried part of the pass.
func (x *tx) remember() {
	maps.Copy(x.pass.bits, x.bits)
	there := map[int64]bool{}
	for _, s := range x.next.Segments {
		there[s.ID] = true
	}
	maps.DeleteFunc(x.pass.bits, func(id int64, _ bitset) bool { return !there[id] })
}
