package transform

import "math/bits"

// sum is the hash of a record. It adds up the hashes of the record's members, so the order of members does not
// matter. The hash of a member covers its name and value as received. A sum has 72 bits and is written as twelve
// characters, because that is the longest text that DuckDB stores inline.
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

func (s *sum) write(dst []byte) {
	_ = dst[hashSize-1]
	v := s.added
	for i := range 10 {
		dst[i] = alphabet[v&63]
		v >>= 6
	}
	// Four bits of the first word are left. The other eight bits come from the second word.
	v |= s.mixed >> 56 << 4
	dst[10] = alphabet[v&63]
	dst[11] = alphabet[v>>6&63]
}
