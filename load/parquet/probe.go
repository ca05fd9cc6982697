package parquet

import (
	"context"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// suppliedRow is a staged row, and the row of the table that it matches, if any.
type suppliedRow struct {
	fingerprint fingerprint
	mark        uint64
	ordinal     int64
	ref         ref

	seg     *segment // nil: no row of the table matches
	rank    int
	row     uint32
	have    uint64
	outcome rowOutcome
	next    int32 // index of the next staged row with this fingerprint; -1: none
	plan    int32 // index of the [segmentPlan] into which the row is inserted
	begin   int64 // in mode history: start of the row's validity
}

type rowOutcome uint8

const (
	dropped rowOutcome = iota // a duplicate, or the table already has the row
	inserted
	replacing
)

const filterBits = 20

func (h *batchIndex) index() {
	bits := 4
	for 1<<bits < 2*len(h.rows) {
		bits++
	}
	h.slots, h.shift, h.filter = make([]int32, 1<<bits), 64-bits, make([]uint64, 1<<(filterBits-6))
	for i := range h.rows {
		r := &h.rows[i]
		r.next = -1
		h.filter[r.fingerprint.Hi>>(64-filterBits)>>6] |= 1 << (r.fingerprint.Hi >> (64 - filterBits) & 63)
		slot := h.slot(r.fingerprint)
		if first := h.slots[slot]; first > 0 {
			r.next = first - 1
		}
		h.slots[slot] = int32(i + 1)
	}
	h.open = len(h.rows)
}

func (h *batchIndex) slot(p fingerprint) int {
	for slot := int(p.Hi >> h.shift); ; slot = (slot + 1) & (len(h.slots) - 1) {
		if i := h.slots[slot]; i == 0 || h.rows[i-1].fingerprint == p {
			return slot
		}
	}
}

func (h *batchIndex) find(hi, lo uint64) int32 {
	if h.filter[hi>>(64-filterBits)>>6]&(1<<(hi>>(64-filterBits)&63)) == 0 {
		return -1
	}
	return h.slots[h.slot(fingerprint{Hi: hi, Lo: lo})] - 1
}

// dedupe keeps only the last of several rows with the same key: the row with the highest ordinal.
func (h *batchIndex) dedupe() (dropped int64) {
	n := 0
	for i := range h.rows {
		if r := &h.rows[i]; r.next >= 0 || h.slots[h.slot(r.fingerprint)] != int32(i+1) {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	kept := h.rows[:0:0]
	for i := range h.rows {
		if h.slots[h.slot(h.rows[i].fingerprint)] == int32(i+1) { // the head of a chain of equal keys
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
	slices.SortFunc(kept, func(a, b suppliedRow) int { // restores the original order, which keeps similar rows together
		if a.ref.batch != b.ref.batch {
			return int(a.ref.batch - b.ref.batch)
		}
		return int(a.ref.row - b.ref.row)
	})
	h.rows = kept
	h.index()
	return dropped
}

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

// match finds, for each staged row, the row of the table with the same key. It stops when all staged rows are matched.
// A pass usually reads records in the same order as the previous pass. So match begins with the segment in which it has
// found the latest rows. In mode append with a key, it begins with the newest segment. Invariant 6
func (m *merge) match(ctx context.Context, t *table, h *batchIndex) error {
	segs := m.next.segmentsOf(t.Name)
	buf := make([]uint64, chunkRows*wordsRow)
	for _, rank := range m.order(t, len(segs)) {
		if h.open == 0 {
			break
		}
		s := segs[rank]
		if h.outside(s.root()) {
			continue
		}
		if full, err := m.seen.full(ctx, t, s); err != nil || full && len(t.Key) == 0 {
			if err != nil {
				return err
			}
			continue
		}
		keys, err := m.folder.keys.of(ctx, t, s.root())
		if err != nil {
			return err
		}
		before := h.open
		if err := m.matchIn(ctx, t, h, s, rank, keys, buf); err != nil {
			return err
		}
		if h.open < before {
			m.seen.lastSegment[t.Name] = s.ID
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) order(t *table, n int) []int {
	out := make([]int, n)
	start := 0
	for i, s := range m.next.segmentsOf(t.Name) {
		if s.ID == m.seen.lastSegment[t.Name] {
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

func (m *merge) matchIn(ctx context.Context, t *table, h *batchIndex, s *segment, rank int, keys *keylist, buf []uint64) error {
	carried, err := m.seen.in(ctx, t, s)
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
				h.matchDuplicate(j, s, carried, uint32(first+i), w[2])
			} else {
				h.matchRow(t, j, s, rank, uint32(first+i), w[2])
			}
		}
	}
	return nil
}

// matchRow matches a staged row with a version of its record: with the current version, or with the last version if no
// version is current.
func (h *batchIndex) matchRow(t *table, j int32, s *segment, rank int, row uint32, mark uint64) {
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

// matchDuplicate matches a row of a table without a key with one of the staged rows that have the same hash. It does
// nothing if the pass has already matched that row of the table, or if the row is deleted.
func (h *batchIndex) matchDuplicate(j int32, s *segment, carried bitset, row uint32, mark uint64) {
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
