package parquet

import (
	"context"
	"maps"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// pass records which rows one pass over the stream has seen, with one bit for each row. A row is seen if the pass has
// written it or found it unchanged.
type pass struct {
	run         string
	bits        map[int64]bitset
	lastSegment map[string]int64 // by table: the segment in which rows were last found
	interrupted bool             // a later pass has run meanwhile, so the bits of this pass are lost
}

func newPass(run string) *pass {
	return &pass{run: run, bits: map[int64]bitset{}, lastSegment: map[string]int64{}}
}

func (f *folder) passOf(run string) *pass {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pass == nil || f.pass.run != run {
		lost := f.pass != nil && run < f.pass.run
		f.pass = newPass(run)
		f.pass.interrupted = lost
	}
	return f.pass
}

// seenRows has the bits of the rows that a transaction has seen, and the bits of the rows that its pass had seen
// before.
type seenRows struct {
	*pass
	here map[int64]bitset // by segment ID; only for segments that this transaction has read
}

func newSeenRows(p *pass) seenRows { return seenRows{p, map[int64]bitset{}} }

// The method in() returns the bits of the rows of a segment that the pass has seen. This includes the rows that the
// current transaction has seen. Rows that the pass wrote before this process started are recognized by their run ID. In
// a table without a key, each staged row sets the bit of one of the equal rows. A pass over such a table is one
// transaction, so there are no earlier bits.
func (r *seenRows) in(ctx context.Context, t *table, s *segment) (bitset, error) {
	if b := r.here[s.ID]; b != nil {
		return b, nil
	}
	b, known := newBitset(s.root().Rows), r.bits[s.ID]
	if len(t.Key) > 0 {
		copy(b, known)
	}
	if known == nil && len(t.Key) > 0 && t.has(schemas.ColRun) && s.root().Run >= r.run {
		err := s.root().read(ctx, t, []string{schemas.ColRun}, func(first int64, c []arrow.Array, rows int) error {
			runs, _ := c[0].(*array.String)
			for i := range rows {
				if runs.IsValid(i) && runs.Value(i) >= r.run {
					b.set(uint32(first) + uint32(i))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	r.here[s.ID] = b
	return b, nil
}

// The method full() reports whether the pass has seen all live rows of a segment. In a table with a key, a row that the
// pass has seen may end later in the pass. Such a row is counted twice. So the result may be true although some rows
// were not seen.
func (r *seenRows) full(ctx context.Context, t *table, s *segment) (bool, error) {
	b, err := r.in(ctx, t, s)
	if err != nil {
		return false, err
	}
	return b.count()+s.root().Dead >= s.root().Rows, nil
}

// remove copies the bits of a segment to s, which is the same segment without the removed rows.
func (r *seenRows) remove(ctx context.Context, t *table, old, s *segment, removed map[uint32]bool) error {
	before, err := r.in(ctx, t, old)
	if err != nil {
		return err
	}
	delete(r.here, old.ID)
	after := newBitset(s.root().Rows)
	row := uint32(0)
	for i := range uint32(old.root().Rows) {
		if removed[i] {
			continue
		}
		if before.has(i) {
			after.set(row)
		}
		row++
	}
	r.here[s.ID] = after
	return nil
}

// merge copies the bits of several segments to one segment, which holds the rows of these segments in the same order.
func (r *seenRows) merge(ctx context.Context, t *table, segs []*segment, out *segment) error {
	if load.IsInternal(out.Table) {
		return nil
	}
	all := newBitset(out.root().Rows)
	first := uint32(0)
	for _, s := range segs {
		b, err := r.in(ctx, t, s)
		if err != nil {
			return err
		}
		for i := range uint32(s.root().Rows) {
			if b.has(i) {
				all.set(first + i)
			}
		}
		first += uint32(s.root().Rows)
		delete(r.here, s.ID)
	}
	r.here[out.ID] = all
	return nil
}

// remember adds the bits of a committed transaction to those of the pass.
func (r *seenRows) remember(m *manifest) {
	maps.Copy(r.bits, r.here)
	there := map[int64]bool{}
	for _, s := range m.Segments {
		there[s.ID] = true
	}
	maps.DeleteFunc(r.bits, func(id int64, _ bitset) bool { return !there[id] })
}

type bitset []uint64

func newBitset(rows int64) bitset { return make(bitset, (rows+63)/64) }

func (b bitset) has(row uint32) bool { return b[row>>6]&(1<<(row&63)) != 0 }

func (b bitset) set(row uint32) { b[row>>6] |= 1 << (row & 63) }

func (b bitset) all(rows int64) bitset {
	for i := range b {
		b[i] = ^uint64(0)
	}
	if n := rows & 63; n != 0 {
		b[len(b)-1] = 1<<n - 1
	}
	return b
}

func (b bitset) count() (n int64) {
	for _, w := range b {
		n += int64(bits.OnesCount64(w))
	}
	return n
}
