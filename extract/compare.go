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
