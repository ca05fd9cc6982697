package extract

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// volatility finds the fields whose values differ in each reading: an image on a random
// host, the time of the answer. It compares, by their key, the records that come in
// several probes of a negotiation.
type volatility struct {
	seed    maphash.Seed
	records map[uint64]map[string]uint64 // by key: the hashes of the members in the first reading of a record
	shared  map[string]int               // by member: how often two readings were compared
	differ  map[string]int               // by member: how often they differed
	again   int                          // records that came again
	twice   bool                         // an answer had two records with one key, so that readings cannot be compared
}

// A field is volatile if it differs in at least this many records that came again, and
// in at least this share of them, in per cent.
const (
	volatileRecords = 3
	volatileShare   = 90
)

func newVolatility() *volatility {
	return &volatility{seed: maphash.MakeSeed(), records: map[uint64]map[string]uint64{}, shared: map[string]int{}, differ: map[string]int{}}
}

// observe compares the records of one answer with those that came before.
func (v *volatility) observe(l *listing, d *doc, f found) {
	if v == nil || len(l.asm.stream.Key) == 0 {
		return
	}
	records := map[uint64]value{}
	seen := 0
	for _, p := range f.places {
		for _, r := range d.records(p) {
			key, ok := l.asm.key(d, r)
			if !ok {
				continue
			}
			if _, ok := records[key]; ok {
				v.twice = true
			}
			if records[key] = r; v.records[key] != nil {
				seen++
			}
		}
	}
	// On another page, a record with the key of an earlier one may be another record.
	again := seen*100 >= len(records)*volatileShare
	for key, r := range records {
		switch before := v.records[key]; {
		case before == nil && len(v.records) < maxRows:
			v.records[key] = v.hashes(d, r)
		case before != nil && again:
			v.compare(before, v.hashes(d, r))
		}
	}
}

// hashes are those of a record's members.
func (v *volatility) hashes(d *doc, r value) map[string]uint64 {
	h := map[string]uint64{}
	for raw, m := range d.members(r) {
		h[unquote(raw)] = maphash.Bytes(v.seed, d.raw(m))
	}
	return h
}

// compare counts the members that two readings of a record share, and those that differ.
func (v *volatility) compare(before, now map[string]uint64) {
	v.again++
	for name, h := range now {
		if was, there := before[name]; there {
			if v.shared[name]++; was != h {
				v.differ[name]++
			}
		}
	}
}

// fields are the fields that differ in nearly all records that came again. If more than
// half of the fields differ, the key does not identify records, and there are none.
func (v *volatility) fields() []string {
	var found []string
	if v.twice {
		return nil
	}
	for name, n := range v.differ {
		if n >= volatileRecords && n*100 >= v.shared[name]*volatileShare {
			found = append(found, name)
		}
	}
	if len(found)*2 > len(v.shared) {
		return nil
	}
	slices.Sort(found)
	return found
}

// volatile adds the volatile fields to the convention. They are left out of a row's hash:
// otherwise every run would write every row again.
func (n *negotiation) volatile() {
	v := n.l.volatility
	names := slices.DeleteFunc(v.fields(), func(name string) bool {
		return slices.Contains(n.keyFields(), name) || slices.Contains(n.s.Volatile, name)
	})
	if len(names) == 0 {
		return
	}
	n.out.Volatile = names
	f := Fact{About: FactVolatile, Value: strings.Join(names, ", "), From: Learned}
	for _, name := range names {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s had another value in %d of %d records that came again; a row in which nothing else changes is not written again", name, v.differ[name], v.shared[name]))
	}
	n.out.Facts = append(n.out.Facts, f)
}
