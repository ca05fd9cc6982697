package pipeline

import (
	"hash/maphash"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// digest is a fingerprint of the rows a pass carried, by their keys (by their
// hashes where the table has none), in whatever order they came. Two passes
// with equal digests carried the same rows equally often.
type digest struct {
	rows uint64
	sum  uint64
}

// hasher makes digests that can be compared with each other.
type hasher struct {
	seed   maphash.Seed
	hashes []uint64 // of the rows of the batch at hand
}

// add takes the rows of one batch of the stream's root table into d.
func (h *hasher) add(d *digest, t schemas.Table, b arrow.RecordBatch) {
	key := t.Key
	if len(key) == 0 {
		key = []string{schemas.ColHash}
	}
	n := int(b.NumRows())
	h.hashes = append(h.hashes[:0], make([]uint64, n)...)
	for _, name := range key {
		for _, i := range b.Schema().FieldIndices(name) {
			h.column(b.Column(i))
		}
	}
	d.rows += uint64(n)
	for _, v := range h.hashes {
		d.sum += maphash.Comparable(h.seed, v) // spreads composite keys once more: sums of sums collide
	}
}

func (h *hasher) column(a arrow.Array) {
	const prime = 1099511628211
	switch a := a.(type) {
	case *array.Int64:
		for i, v := range a.Int64Values() {
			h.hashes[i] = h.hashes[i]*prime + uint64(v)
		}
	case *array.String:
		for i := range h.hashes {
			h.hashes[i] = h.hashes[i]*prime + maphash.String(h.seed, a.Value(i))
		}
	default:
		for i := range h.hashes {
			h.hashes[i] = h.hashes[i]*prime + maphash.String(h.seed, a.ValueStr(i))
		}
	}
}
