package extract

import (
	"errors"
	"net/http"

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
	in := make(map[uint64]bool, a.n)
	for _, k := range a.keys {
		in[k] = true
	}
	common := 0
	for _, k := range b.keys {
		if in[k] {
			common++
		}
	}
	switch {
	case 4*common >= 3*max(a.n, b.n):
		return mostlySame
	case common == b.n:
		return fewerRecords
	}
	return otherRecords
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
	at := make(map[uint64]uint64, a.n)
	for i, k := range a.keys {
		at[k] = a.content[i]
	}
	for i, k := range b.keys {
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

// minded reports whether the server took offence at what a probe has added to
// its request: it answered, and who asks or how often is not what it is about.
func minded(err error) bool {
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
