package extract

import (
	"errors"
	"math/bits"
	"net/http"
	"slices"

	"github.com/penstock-data/penstock/extract/wire"
)

// likeness is the result of comparing two pages of a list.
type likeness int

const (
	noRecords likeness = iota
	sameRecords
	mostlySame
	fewerRecords // the second page has only records of the first, but not most of them
	otherRecords
)

// compare reports which records of the page a are also on the page b. If records were added to the
// list in between, the next page repeats some records of the page before. The result is still
// otherRecords, because that page lacks most of them.
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

// shared counts the keys of b that are among those of a. It sorts a copy of the shorter
// list only. // Invariant 6
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

// renamed reports whether b has the keys of the records in a, but different content in every
// record. In this case the values of the key may start again on each page.
func renamed(a, b batch) bool {
	if b.n < leastRenamed || len(a.content) != a.n || len(b.content) != b.n {
		return false
	}
	rate := sampleRate(b.keys)
	at := make(map[uint64]int) // by key in b: its index in a; -1 if it is not there
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

// maxRenamed is roughly how many records renamed compares. If a page has more, renamed compares
// only the records whose key hashes end in a number of zero bits, or all records if too few hashes
// do. // Invariant 6
const maxRenamed = 1 << 16

// sampleRate returns a bit mask. renamed compares the records whose key hash is zero in all bits of
// the mask. The mask 0 selects all records.
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

// requestsOf returns how many requests were sent before the error was returned.
func requestsOf(err error) int {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Attempts
	}
	return 0
}

// probeRefused reports whether the server rejected the parameters that a probe added. That is so if
// it answered with an error that is not about the credentials, the rate limit or a temporary
// failure.
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
