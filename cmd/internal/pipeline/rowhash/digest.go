package rowhash

import (
	"hash/maphash"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// A digest consists of parts that are called lanes. Each record belongs to one lane. If two readings differ in n
// records, and no two of these records share a lane, the digests differ in n lanes.
const lanes = 256

// Digest is a fingerprint of the keys of a pass's rows. The order of the rows does not matter. In a table without a
// key, the hashes of the rows take the place of keys. If two digests are equal, the passes read the same rows, each the
// same number of times.
type Digest struct {
	Rows uint64
	Text uint64 // number of rows whose key is not one integer
	sum  uint64
	lane [lanes]lane
}

type lane struct {
	rows int64
	sum  uint64
	keys uint64 // sum of the keys, if they are integers
}

// Difference counts the records that only one of two readings has.
type Difference struct {
	Here, There int64    // at least this many records are only in this reading (Here) or only in the other (There)
	Examples    []string // keys of some records that only the other reading has, if they can be computed
}

const maxExamples = 3

// Minus compares the digests of two readings. Both must come from the same Hasher. If a lane has n more rows in one
// reading, the other reading lacks at least n records. If a lane has equally many rows in both readings but the rows
// differ, each reading lacks at least one record.
func (h *Hasher) Minus(here, there *Digest) (d Difference) {
	for i := range here.lane {
		a, b := here.lane[i], there.lane[i]
		switch n := a.rows - b.rows; {
		case a == b:
		case n > 0:
			d.Here += n
		case n < 0:
			d.There -= n
			if key := b.keys - a.keys; n == -1 && len(d.Examples) < maxExamples && h.spread(key) == b.sum-a.sum {
				d.Examples = append(d.Examples, strconv.FormatInt(int64(key), 10))
			}
		default:
			d.Here++
			d.There++
		}
	}
	return d
}

// Hasher makes digests that can be compared with each other.
type Hasher struct {
	Seed   maphash.Seed
	hashes []uint64
	keys   []int64 // keys of the rows, if the key is one integer
}

// Add adds the rows of one batch of the stream's root table to d.
func (h *Hasher) Add(d *Digest, t schemas.Table, b arrow.RecordBatch) {
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
	d.Rows += uint64(n)
	if h.keys == nil {
		d.Text += uint64(n)
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

// spread mixes the hash of a row once more. Without this step, different sets of rows would often have the same sum.
func (h *Hasher) spread(v uint64) uint64 { return maphash.Comparable(h.Seed, v) }

func (h *Hasher) column(a arrow.Array) {
	const prime = 1099511628211
	switch a := a.(type) {
	case *array.Int64:
		for i, v := range a.Int64Values() {
			h.hashes[i] = h.hashes[i]*prime + uint64(v)
		}
	case *array.String:
		for i := range h.hashes {
			h.hashes[i] = h.hashes[i]*prime + maphash.String(h.Seed, a.Value(i))
		}
	default:
		for i := range h.hashes {
			h.hashes[i] = h.hashes[i]*prime + maphash.String(h.Seed, a.ValueStr(i))
		}
	}
}
