package transform

import "math/bits"

// sum is the hash of a record: that of each member's bytes, name and value as
// they stand, added up so that the order of members makes no difference. It has
// 72 bits and is written in twelve characters, which is the most that DuckDB
// keeps inside a string's reference.
type sum struct{ added, mixed uint64 }

const (
	hashSize = 12
	mixing   = 0x9e3779b97f4a7c15
)

func (s *sum) add(h uint64) {
	s.added += h
	s.mixed ^= bits.RotateLeft64(h, 29) * mixing
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// write spells the hash.
func (s *sum) write(dst []byte) {
	_ = dst[hashSize-1]
	v := s.added
	for i := range 10 {
		dst[i] = alphabet[v&63]
		v >>= 6
	}
	// Four bits are left of the first word, eight come from the second.
	v |= s.mixed >> 56 << 4
	dst[10] = alphabet[v&63]
	dst[11] = alphabet[v>>6&63]
}
