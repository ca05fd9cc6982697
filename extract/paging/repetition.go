package paging

import (
	"errors"
	"slices"
)

// Repetition recognizes pages and records that it has seen before. The zero value has seen no page.
type Repetition struct {
	seen      map[uint64]bool // fingerprints of pages
	before    []uint64        // keys of the previous page, sorted
	firstKeys []uint64        // keys of the first page, sorted; for records without a key, hashes of their content
	hasEqual  bool            // a page held two records with the same content
}

// Repeated counts the repeated records of a page.
type Repeated struct {
	Overlap int // records that were also on the page before
	Alike   int // records without a key that seem to be repeated
	Doubled int // records that came twice on the page
}

// Check counts the repeated records of a page. It returns an error if the page repeats an earlier page, or if all its
// records were also on the page before.
func (r *Repetition) Check(keys []uint64, keyed bool, pages int) (d Repeated, err error) {
	if len(keys) == 0 {
		return d, nil
	}
	print := Sum(keys)
	if r.seen[print] {
		return d, errors.New("the page repeats an earlier one")
	}
	if r.seen == nil {
		r.seen = make(map[uint64]bool)
	}
	r.seen[print] = true
	now := slices.Clone(keys)
	slices.Sort(now)
	overlap := common(now, r.before)
	fresh := len(r.before) == 0 || overlap < len(keys)
	doubled := len(now) - distinctIn(now)
	if keyed {
		d.Overlap, d.Doubled = overlap, doubled
	} else {
		d.Alike = r.alike(now, doubled, overlap, pages)
	}
	r.before = slices.Compact(now)
	if !fresh {
		return d, errors.New("the page has only records of the page before")
	}
	return d, nil
}

// alike() counts records without a key that were also on the page before or on the first page. If a page of this list
// had two equal records, records may be equal by chance. Then alike() counts only if at least two records, and at
// least half of the page, are repeated.
func (r *Repetition) alike(now []uint64, doubled, overlap, pages int) int {
	r.hasEqual = r.hasEqual || doubled > 0
	if pages == 1 {
		r.firstKeys = slices.Compact(slices.Clone(now))
	} else if pages > 2 {
		overlap = max(overlap, common(now, r.firstKeys))
	}
	if overlap > 0 && !r.hasEqual || overlap > 1 && 2*overlap >= len(now) {
		return overlap
	}
	return 0
}

func common(keys, set []uint64) int {
	n := 0
	for _, k := range keys {
		for len(set) > 0 && set[0] < k {
			set = set[1:]
		}
		if len(set) == 0 {
			break
		}
		if set[0] == k {
			n++
		}
	}
	return n
}

func distinctIn(keys []uint64) int {
	n := 0
	for i, k := range keys {
		if i == 0 || keys[i-1] != k {
			n++
		}
	}
	return n
}
