package extract

import (
	"errors"
	"math/bits"
	"net/http"
	"slices"

	"github.com/penstock-data/penstock/extract/wire"
)

type likeness int

const (
	noRecords likeness = iota
	sameRecords
	mostlySame
	fewerRecords // the second page holds a small part of the first, and no other records
	otherRecords
)

// compare says how page b differs from page a. If b repeats only some records of a, it returns otherRecords: records
// that are added between two requests move others to the next page.
func compare(a, b batch) likeness {
	switch {
	case a.n == b.n && sum(a.keys) == sum(b.keys):
		return sameRecords
	case b.n == 0:
		return noRecords
	}
	shared := shared(a.keys, b.keys)
	switch {
	case 4*shared >= 3*max(a.n, b.n):
		return mostlySame
	case shared == b.n:
		return fewerRecords
	}
	return otherRecords
}

// shared returns how many hashes of b are also in a. It sorts a copy of the shorter list. // Invariant 6
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

// leastRenamed is how many records a page must have before renamed doubts the key. Records of smaller pages may
// differ by chance.
const leastRenamed = 5

// renamed reports whether b has the keys of a, but other content in every record. Then the source may restart its ids
// on each page.
func renamed(a, b batch) bool {
	if b.n < leastRenamed || len(a.content) != a.n || len(b.content) != b.n {
		return false
	}
	rate := sampleRate(b.keys)
	at := make(map[uint64]int)
	for _, k := range b.keys {
		if k&rate == 0 {
			at[k] = -1
		}
	}
	for i, k := range a.keys {
		if _, ok := at[k]; ok {
			at[k] = i
		}
	}
	for i, k := range b.keys {
		if k&rate != 0 {
			continue
		}
		if was := at[k]; was < 0 || a.content[was] == b.content[i] {
			return false
		}
	}
	return true
}

// maxRenamed limits how many records renamed compares, roughly. // Invariant 6
const maxRenamed = 1 << 16

// sampleRate returns a bit mask that selects records by the hash of their key: those with hash & mask == 0.
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

func requestsOf(err error) int {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Attempts
	}
	return 0
}

// probeRefused reports whether the server rejected the parameters of a probe. Errors about credentials or the rate
// limit say nothing about the parameters, and neither do temporary failures.
func probeRefused(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Status == 0 {
		return false
	}
	switch e.Class {
	case wire.Invalid, wire.Missing, wire.Malformed:
		return true
	case wire.NotEntitled:
		return e.Status == http.StatusForbidden
	case wire.Transient:
		_, refuted := errors.AsType[*refutedError](err)
		return refuted || e.Status < 500
	}
	return false
}
