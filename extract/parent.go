package extract

import (
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
)

// Parent is one request of a fan-out. A fan-out is a pass that requests a child stream once per parent. A Parent has
// the values that the request takes from records of the parent stream. Records with the same values are one Parent.
type Parent struct {
	// Tuple has these values as a JSON array, in the order of the stream's parameters. A missing value is null. Tuple
	// is valid as long as its page. In a function that gets a Parent, it is valid until the function returns.
	Tuple []byte

	// Fingerprint is a hash of the records' content, without volatile members. It is the same in every process, and
	// does not depend on the order of members.
	Fingerprint uint64

	Records  int64 // child records read so far, including this page
	Complete bool  // all its answers were read, and nothing indicates missing records
}

// fingerprintOf returns a hash of the record: a sum over its members, so that their order does not matter.
func fingerprintOf(d *jsondoc.Doc, r jsondoc.Value, volatile []string) uint64 {
	if !d.IsObject(r) {
		return scatter(fnv1a(fnvBasis, d.Raw(r)))
	}
	var sum uint64
	for name, v := range d.Members(r) {
		if !slices.Contains(volatile, string(name)) {
			sum += scatter(fnv1a(fnv1a(fnvBasis, name)*fnvPrime, d.Raw(v)))
		}
	}
	return sum
}

const (
	fnvBasis uint64 = 14695981039346656037
	fnvPrime uint64 = 1099511628211
)

func fnv1a(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// scatter spreads a hash over all its bits. Without it, the sum often stays the same if two members swap their
// values.
func scatter(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
