package transform

import (
	"math/bits"

	"github.com/zeebo/xxh3"
)

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
	// Four bits of the first word are left. The next eight bits come from the second word.
	v |= s.mixed >> 56 << 4
	dst[10] = alphabet[v&63]
	dst[11] = alphabet[v>>6&63]
}

// recordHash is the hash of the record that is being read.
type recordHash struct {
	sum
	context uint64 // what the member _context has added to sum; 0: nothing
	cuts    []cut  // parts of the current member that are replaced by other bytes before the member is hashed
	buffer  []byte // buffer for members with cuts
}

type cut struct {
	begin, end int
	with       []byte
}

func (h *recordHash) begin() { h.sum, h.context, h.cuts = sum{}, 0, h.cuts[:0] }

// The method cut() notes that the bytes b[begin:end] of the current member are replaced by other bytes before they are
// hashed.
func (h *recordHash) cut(begin, end int, with []byte) {
	h.cuts = append(h.cuts, cut{begin, end, with})
}

// pieces adds the member b[begin:end] to the hash. The parts noted by cut() are replaced first.
func (h *recordHash) pieces(b []byte, begin, end int) {
	left := h.buffer[:0]
	for _, c := range h.cuts {
		left = append(append(left, b[begin:c.begin]...), c.with...)
		begin = c.end
	}
	left = append(left, b[begin:end]...)
	if len(left) > 0 {
		h.add(xxh3.Hash(left))
	}
	h.buffer = left
	h.cuts = h.cuts[:0]
}

// content returns a short hash of the record without its member _context.
func (h *recordHash) content() uint32 {
	added, mixed := h.added, h.mixed
	if h.context != 0 {
		added -= h.context
		mixed ^= bits.RotateLeft64(h.context, 29) * mixing
	}
	v := added ^ mixed>>7
	return uint32(v ^ v>>32)
}
