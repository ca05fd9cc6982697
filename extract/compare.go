package extract

import (
	"errors"
	"math/bits"
	"net/http"
	"slices"

	"github.com/penstock-data/penstock/extract/wire"
)

// likeness is how two readings of a list compare.
type likeness int

const (
	noRecords likeness = iota
	sameRecords
	mostlySame
	fewerRecords // nothing that the other has not, and not most of it
	otherRecords
)

// compare tells whether b is another reading of the records in a. A page that
// overlaps with the one before it, because the list moved, is not: it lacks most
// of what was there.
func compare(a, b batch) likeness {
	switch {
	case a.n == b.n && sum(a.keys) == sum(b.keys):
		return sameRecords
	case b.n == 0:
		return noRecords
	}
	was, now := sampled(a.keys, max(a.n, b.n)), sampled(b.keys, max(a.n, b.n))
	common := common(now, slices.Compact(slices.Clone(was)))
	switch {
	case 4*common >= 3*max(len(was), len(now)):
		return mostlySame
	case common == len(now):
		return fewerRecords
	}
	return otherRecords
}

// maxCompared is about how many records of a page are compared with another. Of more, those
// are taken whose keys end in zeros, so that the same are taken of both. // Invariant 6
const maxCompared = 1 << 16

// sampleRate has the bits set that are zero in the keys that stand for n.
func sampleRate(n int) uint64 { return 1<<max(0, bits.Len(uint(n))-bits.Len(uint(maxCompared))) - 1 }

// sampled are the keys of a page that are compared, where the larger page has n, sorted.
func sampled(keys []uint64, n int) []uint64 {
	rate := sampleRate(n)
	var out []uint64
	for _, k := range keys {
		if k&rate == 0 {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// leastRenamed is how many records must have the keys of others before their key is
// in doubt: of fewer, each may have a member that changes by being read.
const leastRenamed = 5

// renamed reports whether b has the keys of the records in a, and each of its
// records other content: the key may begin anew on each page.
func renamed(a, b batch) bool {
	if b.n < leastRenamed || len(a.content) != a.n || len(b.content) != b.n {
		return false
	}
	rate := sampleRate(max(a.n, b.n))
	at := make(map[uint64]uint64)
	for i, k := range a.keys {
		if k&rate == 0 {
			at[k] = a.content[i]
		}
	}
	for i, k := range b.keys {
		if k&rate != 0 {
			continue
		}
		if content, ok := at[k]; !ok || content == b.content[i] {
			return false
		}
	}
	return true
}

// requestsOf is how many requests an error took.
func requestsOf(err error) int {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Attempts
	}
	return 0
}

// probeRefused reports whether the server took offence at what a probe has added to
// its request: it answered, and who asks or how often is not what it is about.
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
