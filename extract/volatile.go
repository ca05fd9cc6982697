package extract

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// volatility finds the fields of records that differ whenever they are read: an
// image on a host that is drawn at random, a time of the answer. It compares the
// records that several probes of a negotiation show, by their key.
type volatility struct {
	seed    maphash.Seed
	records map[uint64]map[string]uint64 // of the first answer that had the record: members by name, by key
	shared  map[string]int               // comparisons of a member
	differ  map[string]int               // of these, those that found another value
	again   int                          // records that came again
	twice   bool                         // an answer had two records of one key: they are not readings of one record
}

// Of so many records that came again, and of so large a share of them in per cent,
// a field must differ.
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
	here := map[uint64]bool{}
	for _, p := range f.places {
		for _, r := range d.records(p) {
			key, ok := l.asm.key(d, r)
			if !ok || len(v.records) == maxRows {
				continue
			}
			v.twice, here[key] = v.twice || here[key], true
			before, again := v.records[key]
			if again {
				v.again++
			} else {
				before = map[string]uint64{}
				v.records[key] = before
			}
			for raw, m := range d.members(r) {
				name, h := unquote(raw), maphash.Bytes(v.seed, d.raw(m))
				was, there := before[name]
				switch {
				case !again:
					before[name] = h
				case there:
					if v.shared[name]++; was != h {
						v.differ[name]++
					}
				}
			}
		}
	}
}

// fields are the fields that differ in nearly all records that came again. Where
// most of the fields do, these are other records.
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

// volatile takes note of the fields that are left out of a row's hash: they would
// have every row written again in each run.
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
