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
	fewerRecords // the second page has only records of the first, but not most of them
	otherRecords
)

// compare returns otherRecords for a page that repeats some records of the page before. Records that are added
// between two requests cause such a page.
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

// shared sorts a copy of the shorter list only. // Invariant 6
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
	found := make([]bool, len(keys)) // at the first of equal keys
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

// leastRenamed is how many records a page must have before renamed doubts the key. The records of a
// smaller page may differ only because they have members that change on every reading.
const leastRenamed = 5

// renamed reports whether b has the keys of the records in a, but different content in every record: then the values
// of the key may start again on each page.
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

// maxRenamed is roughly how many records renamed compares. // Invariant 6
const maxRenamed = 1 << 16

// sampleRate returns a bit mask: renamed compares the records whose key hash is zero in all its bits.
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

// probeRefused reports whether the server rejected the parameters of a probe. An error about credentials, the rate
// limit or a temporary failure is no such rejection.
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
