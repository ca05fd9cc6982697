package extract

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// volatility finds fields whose values differ on every reading, such as an image on a random host
// or the time of the answer. It compares records that several probes of a negotiation return, by
// key.
type volatility struct {
	seed       maphash.Seed
	records    map[uint64]map[int]uint64 // by key: the hashes of the members in the first reading
	kept       int                       // number of hashes in records
	names      map[string]int            // index in members by name; at most maxNames
	members    []compared
	again      int  // number of records that were read again
	duplicates bool // an answer had two records with the same key, so readings cannot be compared
}

// compared counts the comparisons of one member.
type compared struct {
	name   string
	shared int // number of comparisons
	differ int // number of differences
}

// A field is volatile if it differs in at least this many repeated records, and in at least this
// percentage of them.
const (
	volatileRecords = 3
	volatileShare   = 90
)

// maxHashes is how many hashes of members are kept. // Invariant 6
const maxHashes = 100 * maxNames

func newVolatility() *volatility {
	return &volatility{seed: maphash.MakeSeed(), records: map[uint64]map[int]uint64{}, names: map[string]int{}}
}

// observe compares the records of an answer with those of earlier answers.
func (v *volatility) observe(l *listReader, d *doc, f found) {
	if v == nil || len(l.asm.stream.Key) == 0 {
		return
	}
	came := map[uint64]value{} // records to compare, or to keep for the next answer
	all, seen := 0, 0
	for p := range f.all(d) {
		for _, r := range d.records(p) {
			key, ok := l.asm.key(d, r)
			if !ok {
				continue
			}
			all++
			known := v.records[key] != nil
			if !known && len(v.records)+len(came)-seen >= maxRows {
				continue
			}
			if _, ok := came[key]; ok {
				v.duplicates = true
			} else if known {
				seen++
			}
			came[key] = r
		}
	}
	// On another page, equal keys may belong to different records.
	again := seen*100 >= min(all, len(v.records))*volatileShare
	for key, r := range came {
		switch before := v.records[key]; {
		case before == nil && v.kept < maxHashes:
			v.records[key] = v.hashes(d, r)
			v.kept += len(v.records[key])
		case before != nil && again:
			v.compare(before, v.hashes(d, r))
		}
	}
}

// hashes returns the hashes of a record's members by their index in v.members. It leaves out
// members after the first maxNames names.
func (v *volatility) hashes(d *doc, r value) map[int]uint64 {
	h := map[int]uint64{}
	for raw, m := range d.members(r) {
		if i, ok := v.place(raw); ok {
			h[i] = maphash.Bytes(v.seed, d.raw(m))
		}
	}
	return h
}

// place returns the index of a member by its raw name; ok is false if the member is left out.
func (v *volatility) place(raw []byte) (i int, ok bool) {
	if len(raw) > 4*maxValue {
		return 0, false
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = []byte(unquote(raw))
	}
	if i, ok = v.names[string(raw)]; !ok && len(v.members) < maxNames {
		i, ok = len(v.members), true
		v.members = append(v.members, compared{name: string(raw)})
		v.names[v.members[i].name] = i
	}
	return i, ok
}

// compare counts the members in both readings of a record, and the differences.
func (v *volatility) compare(before, now map[int]uint64) {
	v.again++
	for i, h := range now {
		if was, there := before[i]; there {
			if v.members[i].shared++; was != h {
				v.members[i].differ++
			}
		}
	}
}

// fields returns the fields that differ in nearly all repeated records. If more than half of the
// fields differ, the key does not identify records, and it returns none.
func (v *volatility) fields() []string {
	var found []string
	if v.duplicates {
		return nil
	}
	shared := 0
	for _, m := range v.members {
		if m.shared > 0 {
			shared++
		}
		if m.differ >= volatileRecords && m.differ*100 >= m.shared*volatileShare {
			found = append(found, m.name)
		}
	}
	if len(found)*2 > shared {
		return nil
	}
	slices.Sort(found)
	return found
}

// volatile adds the volatile fields to the convention. They are left out of the row hash: otherwise
// every run would write every row again.
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
		m := v.members[v.names[name]]
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s had another value in %d of %d repeated records; a row is not rewritten if nothing else changes", name, m.differ, m.shared))
	}
	n.out.Facts = append(n.out.Facts, f)
}
