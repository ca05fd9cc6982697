package extract

import "slices"

// Parent is what a fan-out was asked about: the values that one request takes
// from the parent stream's records. Records which give the same values are one
// Parent.
type Parent struct {
	// Tuple is those values as a JSON array, in the order of the stream's
	// parameters, null where a record has none. It is valid as long as its page,
	// or until a function it was given to returns.
	Tuple []byte

	// Print is a fingerprint of the records, without the members which change by
	// being read: the same in every process, whatever the members' order.
	Print uint64

	Records int64 // that the answers about it held, on this page and before
	Sure    bool  // the answers were there, and nothing says that they lack something
}

// print is a record's part of a [Parent]'s Print. It is a sum over the record's
// members, so that their order does not matter.
func (d *doc) print(r value, volatile []string) uint64 {
	if !d.isObject(r) {
		return scatter(fnv1a(fnvBasis, d.raw(r)))
	}
	var sum uint64
	for name, v := range d.members(r) {
		if !slices.Contains(volatile, string(name)) {
			sum += scatter(fnv1a(fnv1a(fnvBasis, name)*fnvPrime, d.raw(v)))
		}
	}
	return sum
}

const (
	fnvBasis uint64 = 14695981039346656037
	fnvPrime uint64 = 1099511628211
)

// fnv1a is FNV-1a from h on.
func fnv1a(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// scatter spreads a hash over all its bits. Without it two members that swap
// their values would often leave a sum as it was.
func scatter(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
