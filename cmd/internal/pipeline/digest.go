package pipeline

import (
	"hash/maphash"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// lanes is how many parts a digest has. Two readings that differ in a few
// records differ in as many lanes, unless two records share one.
const lanes = 256

// digest is a fingerprint of the rows a pass carried, by their keys (by their
// hashes where the table has none), in whatever order they came. Two passes
// with equal digests carried the same rows equally often.
type digest struct {
	rows uint64
	text uint64 // of these, those whose key is no integer
	sum  uint64
	lane [lanes]lane
}

// lane is the part of a digest that one in so many rows goes into.
type lane struct {
	rows int64
	sum  uint64
	keys uint64 // sum of the keys, where they are integers
}

// difference is what two readings do not have in common.
type difference struct {
	here, there int64    // records that only the one has, at least
	examples    []string // keys of some that are only there, where they can be told
}

// maxExamples is how many keys a text names.
const maxExamples = 3

// minus compares two readings made by one hasher's seed. Where a lane has more
// rows on one side, so many are missing on the other; where it has as many and
// other ones, at least one is on each.
func (h *hasher) minus(here, there *digest) (d difference) {
	for i := range here.lane {
		a, b := here.lane[i], there.lane[i]
		switch n := a.rows - b.rows; {
		case a == b:
		case n > 0:
			d.here += n
		case n < 0:
			d.there -= n
			if key := b.keys - a.keys; n == -1 && len(d.examples) < maxExamples && h.spread(key) == b.sum-a.sum {
				d.examples = append(d.examples, strconv.FormatInt(int64(key), 10))
			}
		default:
			d.here++
			d.there++
		}
	}
	return d
}

// hasher makes digests that can be compared with each other.
type hasher struct {
	seed   maphash.Seed
	hashes []uint64 // of the rows of the batch at hand
	keys   []int64  // of these, where there is one integer to a key
}

// add takes the rows of one batch of the stream's root table into d.
func (h *hasher) add(d *digest, t schemas.Table, b arrow.RecordBatch) {
	key := t.Key
	if len(key) == 0 {
		key = []string{schemas.ColHash}
	}
	n := int(b.NumRows())
	h.hashes, h.keys = append(h.hashes[:0], make([]uint64, n)...), nil
	for _, name := range key {
		for _, i := range b.Schema().FieldIndices(name) {
			h.column(b.Column(i))
			if a, ok := b.Column(i).(*array.Int64); ok && len(key) == 1 {
				h.keys = a.Int64Values()
			}
		}
	}
	d.rows += uint64(n)
	if h.keys == nil {
		d.text += uint64(n)
	}
	for i, v := range h.hashes {
		v = h.spread(v)
		d.sum += v
		l := &d.lane[v>>56]
		l.rows++
		l.sum += v
		if h.keys != nil {
			l.keys += uint64(h.keys[i])
		}
	}
}

// spread mixes a row's hash once more: sums of sums collide.
func (h *hasher) spread(v uint64) uint64 { return maphash.Comparable(h.seed, v) }

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
