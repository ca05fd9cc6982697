package pipeline

import (
	"hash/maphash"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// bloom knows which keys a pass has carried, in a size that does not grow with
// them: a Bloom filter. Of a few that it has not, it says that it has: should one
// of them come on a page again, it counts as one that came twice, which proves
// less and deletes nothing. // Invariants 6, 12
type bloom struct {
	seed maphash.Seed
	bits []uint64
}

// Twelve bits a key and four of them set let one key in 400 pass that is not in
// it. Eight megabytes are enough for five million keys.
const (
	sieveBits   = 12
	sieveHashes = 4
	sieveLeast  = 1 << 17 // bytes
	sieveMost   = 8 << 20
)

// newBloom is one for as many keys as the longest reading so far has had.
func newBloom(sinks []*destinationRun) *bloom {
	var most int64
	for _, k := range sinks {
		most = max(most, k.most)
	}
	bytes := min(max(most*sieveBits/8, sieveLeast), sieveMost)
	if most == 0 {
		bytes = 1 << 20 // nobody knows yet
	}
	return &bloom{seed: maphash.MakeSeed(), bits: make([]uint64, bytes/8)}
}

// add takes in the keys of a stream's rows.
func (v *bloom) add(s schemas.Stream, batches []transform.TableBatch) {
	var digits [20]byte
	for _, b := range batches {
		if b.Table.Name != s.Table.Name {
			continue
		}
		keys, err := cellsOf(b.Batch, s.Key)
		if err != nil {
			continue // the destination has not taken such a batch
		}
		for row := range int(b.Batch.NumRows()) {
			switch a := keys[0].(type) {
			case *array.Int64:
				v.set(maphash.Bytes(v.seed, strconv.AppendInt(digits[:0], a.Value(row), 10)))
			case *array.String:
				v.set(maphash.String(v.seed, a.Value(row)))
			default:
				v.set(maphash.String(v.seed, keyText(keys, row)))
			}
		}
	}
}

// has reports whether a key, as text, is among them.
func (v *bloom) has(key string) bool {
	for at := range v.places(maphash.String(v.seed, key)) {
		if v.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func (v *bloom) set(hash uint64) {
	for at := range v.places(hash) {
		v.bits[at/64] |= 1 << (at % 64)
	}
}

// places are the bits of a key.
func (v *bloom) places(hash uint64) func(func(uint64) bool) {
	n, step := uint64(len(v.bits))*64, hash>>32|1
	return func(yield func(uint64) bool) {
		for range sieveHashes {
			if !yield(hash % n) {
				return
			}
			hash += step
		}
	}
}
