package parquet

import (
	"context"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// suppliedRow is a row that was handed in, and the row of the table it meets.
type suppliedRow struct {
	print   fingerprint
	mark    uint64 // of its hash
	ordinal int64
	ref     ref

	seg   *segment // nil: the table has no such row
	rank  int      // of seg
	row   uint32
	have  uint64 // mark of the row it meets
	fate  rowOutcome
	next  int32 // the next one with this fingerprint; -1: none
	plot  int32 // the new segment it is inserted into
	begin int64 // mode history: from when on it is valid
}

// ref is a row of a staged batch.
type ref struct{ batch, row int32 }

// rowOutcome is what becomes of a row that was handed in.
type rowOutcome uint8

const (
	dropped   rowOutcome = iota // another stands for it, or the table has it already
	inserted                    // it is a row of its own
	replacing                   // it takes the place of the row that it meets
)

// batchIndex is the rows handed in for one table, findable by their fingerprint.
type batchIndex struct {
	rows   []suppliedRow
	slots  []int32 // of a hash table: place in rows of the first with a fingerprint, plus one
	shift  int
	filter []uint64 // bits for the highest bits of the fingerprints that are there
	open   int      // rows that may still meet one of the table

	ints  [2]int64 // bounds of the first column of the keys
	texts [2]string
	kind  byte // which of them hold: 'i', 't', or 0
}

const filterBits = 20

// index makes the rows findable.
func (h *batchIndex) index() {
	bits := 4
	for 1<<bits < 2*len(h.rows) {
		bits++
	}
	h.slots, h.shift, h.filter = make([]int32, 1<<bits), 64-bits, make([]uint64, 1<<(filterBits-6))
	for i := range h.rows {
		r := &h.rows[i]
		r.next = -1
		h.filter[r.print.Hi>>(64-filterBits)>>6] |= 1 << (r.print.Hi >> (64 - filterBits) & 63)
		slot := h.slot(r.print)
		if first := h.slots[slot]; first > 0 {
			r.next = first - 1
		}
		h.slots[slot] = int32(i + 1)
	}
	h.open = len(h.rows)
}

// slot is where rows with a fingerprint are, or would be.
func (h *batchIndex) slot(p fingerprint) int {
	for slot := int(p.Hi >> h.shift); ; slot = (slot + 1) & (len(h.slots) - 1) {
		if i := h.slots[slot]; i == 0 || h.rows[i-1].print == p {
			return slot
		}
	}
}

// find is the first row with the fingerprint, or -1.
func (h *batchIndex) find(hi, lo uint64) int32 {
	if h.filter[hi>>(64-filterBits)>>6]&(1<<(hi>>(64-filterBits)&63)) == 0 {
		return -1
	}
	return h.slots[h.slot(fingerprint{Hi: hi, Lo: lo})] - 1
}

// dedupe leaves, of rows with one key, the one with the highest ordinal, and
// returns how many it has dropped.
func (h *batchIndex) dedupe() (dropped int64) {
	n := 0
	for i := range h.rows {
		if r := &h.rows[i]; r.next >= 0 || h.slots[h.slot(r.print)] != int32(i+1) {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	kept := h.rows[:0:0]
	for i := range h.rows {
		if h.slots[h.slot(h.rows[i].print)] == int32(i+1) { // the last of its kind
			best := int32(i)
			for j := h.rows[i].next; j >= 0; j = h.rows[j].next {
				if h.rows[j].ordinal > h.rows[best].ordinal {
					best = j
				}
			}
			kept = append(kept, h.rows[best])
		}
	}
	dropped = int64(len(h.rows) - len(kept))
	slices.SortFunc(kept, func(a, b suppliedRow) int { // as they came, so that like rows stay together
		if a.ref.batch != b.ref.batch {
			return int(a.ref.batch - b.ref.batch)
		}
		return int(a.ref.row - b.ref.row)
	})
	h.rows = kept
	h.index()
	return dropped
}

// bound takes the first column of a batch's keys into the bounds.
func (h *batchIndex) bound(keys arrow.Array) {
	switch keys := keys.(type) {
	case *array.Int64:
		for _, v := range keys.Int64Values() {
			if h.kind == 0 {
				h.kind, h.ints = 'i', [2]int64{v, v}
			}
			h.ints[0], h.ints[1] = min(h.ints[0], v), max(h.ints[1], v)
		}
	case *array.String:
		for i := range keys.Len() {
			v := keys.Value(i)
			if h.kind == 0 {
				h.kind, h.texts = 't', [2]string{v, v}
			}
			h.texts[0], h.texts[1] = min(h.texts[0], v), max(h.texts[1], v)
		}
	}
}

// outside reports whether a file's keys all lie beyond those handed in.
func (h *batchIndex) outside(f *file) bool {
	if f.Min == nil || f.Max == nil {
		return false
	}
	switch h.kind {
	case 'i':
		low, err1 := strconv.ParseInt(*f.Min, 10, 64)
		high, err2 := strconv.ParseInt(*f.Max, 10, 64)
		return err1 == nil && err2 == nil && (low > h.ints[1] || high < h.ints[0])
	case 't':
		return *f.Min > h.texts[1] || *f.Max < h.texts[0]
	}
	return false
}

// meet finds for each row handed in the row of the table that it meets. A pass
// that reads in the order of the last one finds its rows where the transaction
// before has found the last of its own; the rest of the table is not looked at
// once all are found. // Invariant 6
func (m *merge) meet(ctx context.Context, t *table, h *batchIndex) error {
	segs := m.next.of(t.Name)
	buf := make([]uint64, chunkRows*wordsRow)
	for _, rank := range m.order(t, len(segs)) {
		if h.open == 0 {
			break
		}
		s := segs[rank]
		if h.outside(s.root()) {
			continue
		}
		if full, err := m.full(ctx, s); err != nil || full && len(t.Key) == 0 {
			if err != nil {
				return err
			}
			continue // no row of it is left to be met
		}
		keys, err := m.keysOf(ctx, t, s.root())
		if err != nil {
			return err
		}
		before := h.open
		if err := m.meetIn(ctx, t, h, s, rank, keys, buf); err != nil {
			return err
		}
		if h.open < before {
			m.pass.hint[t.Name] = s.ID
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// order is the one in which segments are looked through. Versions are looked
// for from the last one back.
func (m *merge) order(t *table, n int) []int {
	out := make([]int, n)
	start := 0
	for i, s := range m.next.of(t.Name) {
		if s.ID == m.pass.hint[t.Name] {
			start = i
		}
	}
	for i := range out {
		if t.Mode == schemas.Append && len(t.Key) > 0 {
			out[i] = n - 1 - i
		} else {
			out[i] = (start + i) % n
		}
	}
	return out
}

// meetIn looks through one segment.
func (m *merge) meetIn(ctx context.Context, t *table, h *batchIndex, s *segment, rank int, keys *keylist, buf []uint64) error {
	carried, err := m.carried(ctx, s)
	if err != nil {
		return err
	}
	backwards := t.Mode == schemas.Append && len(t.Key) > 0
	chunks := (keys.rows + chunkRows - 1) / chunkRows
	for c := range chunks {
		if backwards {
			c = chunks - 1 - c
		}
		first := c * chunkRows
		words, err := keys.chunk(first, buf)
		if err != nil {
			return err
		}
		n := len(words) / wordsRow
		for i := range n {
			if backwards {
				i = n - 1 - i
			}
			w := words[i*wordsRow : i*wordsRow+wordsRow]
			j := h.find(w[0], w[1])
			if j < 0 {
				continue
			}
			if len(t.Key) == 0 {
				h.meetTwin(j, s, carried, uint32(first+i), w[2])
			} else {
				h.meetRow(t, j, s, rank, uint32(first+i), w[2])
			}
		}
	}
	return nil
}

// meetRow notes that the row handed in at j meets this one. Of a record with
// versions that is the one which stands, or the last.
func (h *batchIndex) meetRow(t *table, j int32, s *segment, rank int, row uint32, mark uint64) {
	r := &h.rows[j]
	if r.seg != nil {
		if t.Mode != schemas.History || r.have&deadMark == 0 {
			return
		}
		if mark&deadMark != 0 && (rank < r.rank || rank == r.rank && row < r.row) {
			return
		}
	}
	if final := t.Mode != schemas.History || mark&deadMark == 0; final {
		h.open--
	}
	r.seg, r.rank, r.row, r.have = s, rank, row, mark
}

// meetTwin lets one of the rows with this hash, which have no key, meet the row
// of the table, unless the pass has carried that one before.
func (h *batchIndex) meetTwin(j int32, s *segment, carried bitset, row uint32, mark uint64) {
	if mark&deadMark != 0 || carried.has(row) {
		return
	}
	for ; j >= 0; j = h.rows[j].next {
		if r := &h.rows[j]; r.seg == nil {
			r.seg, r.row, r.have = s, row, mark
			carried.set(row)
			h.open--
			return
		}
	}
}
