package paging

import (
	"math/bits"
	"slices"
)

// Likeness says how one page differs from another page.
type Likeness int

const (
	NoRecords Likeness = iota
	SameRecords
	MostlySame   // at least three quarters of the records are on both pages
	FewerRecords // the second page has less than three quarters of the records of the first page, and no other records
	OtherRecords
)

// Compare says how a second page differs from a first page. If the second page has some records of the first and also
// other records, Compare returns OtherRecords. Then it may be the next page of the list: if a record is added between
// two requests, some records of the first page move to the next page.
func Compare(a, b Hashes) Likeness {
	switch {
	case a.N == b.N && Sum(a.Keys) == Sum(b.Keys):
		return SameRecords
	case b.N == 0:
		return NoRecords
	}
	shared := shared(a.Keys, b.Keys)
	switch {
	case 4*shared >= 3*max(a.N, b.N):
		return MostlySame
	case shared == b.N:
		return FewerRecords
	}
	return OtherRecords
}

// shared counts the hashes of b that are also in a. It sorts a copy of the shorter list. // Invariant 6
func shared(a, b []uint64) (n int) {
	if len(a) <= len(b) {
		set := sorted(a)
		for _, k := range b {
			if _, ok := slices.BinarySearch(set, k); ok {
				n++
			}
		}
		return n
	}
	keys := sorted(b)
	found := make([]bool, len(keys))
	for _, k := range a {
		if i, ok := slices.BinarySearch(keys, k); ok {
			found[i] = true
		}
	}
	for i := range keys {
		if i > 0 && keys[i] == keys[i-1] {
			found[i] = found[i-1]
		}
		if found[i] {
			n++
		}
	}
	return n
}

func sorted(keys []uint64) []uint64 {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys
}

// LeastRenamed is how many records a page must have before [Renamed] compares it. On smaller pages, all records may
// differ by chance.
const LeastRenamed = 5

// Renamed reports whether the second page has the keys of the first page, but other content in every record. Then the
// ids of the source may begin again on each page.
func Renamed(a, b Hashes) bool {
	if b.N < LeastRenamed || len(a.Content) != a.N || len(b.Content) != b.N {
		return false
	}
	rate := sampleRate(b.Keys)
	at := make(map[uint64]int)
	for _, k := range b.Keys {
		if k&rate == 0 {
			at[k] = -1
		}
	}
	for i, k := range a.Keys {
		if _, ok := at[k]; ok {
			at[k] = i
		}
	}
	for i, k := range b.Keys {
		if k&rate != 0 {
			continue
		}
		if was := at[k]; was < 0 || a.Content[was] == b.Content[i] {
			return false
		}
	}
	return true
}

// maxRenamed limits, roughly, how many records [Renamed] compares. // Invariant 6
const maxRenamed = 1 << 16

// sampleRate returns a bit mask for [Renamed], which compares only a sample of the records. A record belongs to the
// sample if hash & mask == 0, where hash is the hash of its key.
func sampleRate(keys []uint64) uint64 {
	rate := uint64(1)<<max(0, bits.Len(uint(len(keys)))-bits.Len(uint(maxRenamed))) - 1
	n := 0
	for _, k := range keys {
		if k&rate == 0 {
			n++
		}
	}
	if n < min(len(keys), maxRenamed/2) {
		return 0
	}
	return rate
}

// Sum returns one hash of all keys. The order of the keys does not matter, but repeated keys count.
func Sum(keys []uint64) uint64 {
	h := uint64(len(keys))
	for _, k := range keys {
		h += k * k >> 7 * 0x9e3779b97f4a7c15
	}
	return h
}

// Round reports whether n is a usual page size. If it is, the server may have cut a list after exactly n records.
func Round(n int) bool {
	switch n {
	case 10, 15, 20, 25, 30, 40:
		return true
	}
	return n > 0 && n%50 == 0
}
