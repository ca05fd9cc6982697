package parquet

import "math/bits"

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
