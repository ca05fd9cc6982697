package extract

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
)

// volatility finds fields whose values differ on every reading, such as the time of the answer. It compares the
// records that several probes return, by key.
type volatility struct {
	seed       maphash.Seed
	records    map[uint64]map[int]uint64 // hashes of the members in the first reading, by key
	kept       int
	names      map[string]int // index of each name in members; at most maxNames
	members    []compared
	again      int
	duplicates bool // two records of one answer had the same key, so the records cannot be compared
}

type compared struct {
	name   string
	shared int
	differ int
}

// A field is volatile if its value differs in at least volatileRecords repeated records, and in at least
// volatileShare percent of them.
const (
	volatileRecords = 3
	volatileShare   = 90
)

// maxHashes limits the hashes of members in memory. The hashes of the last record may exceed this limit. // Invariant 6
const maxHashes = 100 * records.MaxNames

func newVolatility() *volatility {
	return &volatility{seed: maphash.MakeSeed(), records: map[uint64]map[int]uint64{}, names: map[string]int{}}
}

func (v *volatility) observe(asm *assembler, d *jsondoc.Doc, f records.Found) {
	if v == nil || len(asm.stream.Key) == 0 {
		return
	}
	came := map[uint64]jsondoc.Value{}
	all, seen := 0, 0
	for p := range f.All(d) {
		for _, r := range p.Records(d) {
			key, ok := asm.key(d, r)
			if !ok {
				continue
			}
			all++
			known := v.records[key] != nil
			if !known && len(v.records)+len(came)-seen >= records.MaxRows {
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
	// If only a few keys of the answer are known, the answer is another page. On that page, even the known keys may
	// belong to other records.
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

func (v *volatility) hashes(d *jsondoc.Doc, r jsondoc.Value) map[int]uint64 {
	h := map[int]uint64{}
	for raw, m := range d.Members(r) {
		if i, ok := v.place(raw); ok {
			h[i] = maphash.Bytes(v.seed, d.Raw(m))
		}
	}
	return h
}

func (v *volatility) place(raw []byte) (i int, ok bool) {
	if len(raw) > 4*records.MaxValue {
		return 0, false
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = []byte(jsondoc.Unquote(raw))
	}
	if i, ok = v.names[string(raw)]; !ok && len(v.members) < records.MaxNames {
		i, ok = len(v.members), true
		v.members = append(v.members, compared{name: string(raw)})
		v.names[v.members[i].name] = i
	}
	return i, ok
}

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

// fields returns the volatile fields. If more than half of the fields differ, the key does not identify records. Then
// fields returns none.
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
