package overlay

import (
	"hash/maphash"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// Keys is a Bloom filter of the keys that a pass has read. After a false positive, a record counts as a duplicate by
// mistake. This weakens the proof that the list is complete, but never causes a deletion. // Invariants 6, 12
type Keys struct {
	seed maphash.Seed
	bits []uint64
}

// The filter has twelve bits per key, and sets four of them. When the filter is full, about one in 150 new keys is a
// false positive. Eight megabytes suffice for five million keys.
const (
	bloomBits   = 12
	bloomHashes = 4
	bloomLeast  = 1 << 17 // bytes
	bloomMost   = 8 << 20
)

// NewKeys returns a filter of the right size for the given number of keys. The number 0 means unknown.
func NewKeys(most int64) *Keys {
	bytes := min(max(most*bloomBits/8, bloomLeast), bloomMost)
	if most == 0 {
		bytes = 1 << 20
	}
	return &Keys{seed: maphash.MakeSeed(), bits: make([]uint64, bytes/8)}
}

// Add adds the keys of the rows in the stream's own table.
func (v *Keys) Add(s schemas.Stream, batches []transform.TableBatch) {
	var digits [20]byte
	for _, b := range batches {
		if b.Table.Name != s.Table.Name {
			continue
		}
		keys, err := rowhash.Columns(b.Batch, s.Key)
		if err != nil {
			continue // the destination has already refused such a batch
		}
		for row := range int(b.Batch.NumRows()) {
			switch a := keys[0].(type) {
			case *array.Int64:
				v.set(maphash.Bytes(v.seed, strconv.AppendInt(digits[:0], a.Value(row), 10)))
			case *array.String:
				v.set(maphash.String(v.seed, a.Value(row)))
			default:
				v.set(maphash.String(v.seed, rowhash.KeyText(keys, row)))
			}
		}
	}
}

func (v *Keys) has(key string) bool {
	for at := range v.places(maphash.String(v.seed, key)) {
		if v.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func (v *Keys) set(hash uint64) {
	for at := range v.places(hash) {
		v.bits[at/64] |= 1 << (at % 64)
	}
}

func (v *Keys) places(hash uint64) func(func(uint64) bool) {
	n, step := uint64(len(v.bits))*64, hash>>32|1
	return func(yield func(uint64) bool) {
		for range bloomHashes {
			if !yield(hash % n) {
				return
			}
			hash += step
		}
	}
}
