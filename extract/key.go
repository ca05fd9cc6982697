package extract

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// How many records must differ in a field, or in a pair of references, before it is
// taken for the key. An id is one by its name. Few records hardly refute a code,
// and fewer still a name: two shops of one name come late in a list. Whatever is
// taken, each pass goes on comparing records of one key.
const (
	aMany    = 10
	manyMore = 50 // for what people call things by
)

// keyOf finds the fields that tell the rows apart: present in all of them, never
// null, no value twice. Fields come first that are made for it; two together only
// where both refer to something. refuted says what spoke against the others.
func keyOf(s schemas.Stream, rows []row) (key, refuted []string) {
	if len(rows) == 0 {
		return nil, nil
	}
	for _, name := range keyCandidates(s, rows) {
		need := 1
		if !strings.HasSuffix(strings.ToLower(name), "id") && name != containerKey {
			need = aMany
			if name == "name" || name == "url" {
				need = manyMore
			}
		}
		if why := distinct(rows, name); why != "" {
			refuted = append(refuted, name+": "+why)
		} else if different(rows, name) < need {
			refuted = append(refuted, fmt.Sprintf("%s: different in all of %d records, which are too few to refute it", name, len(rows)))
		} else {
			return []string{name}, refuted
		}
	}
	if pair := pairOf(rows); pair != nil {
		return pair, refuted
	}
	return nil, refuted
}

// keyCandidates are the fields worth a look, the likeliest first.
func keyCandidates(s schemas.Stream, rows []row) []string {
	have := fields(rows)
	slices.Sort(have)
	columns := map[string]int{}
	open := make(map[string]bool, len(have)) // present, and not yet in out
	for _, name := range have {
		columns[schemas.Column(name)]++
		open[name] = true
	}
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			// Of ID beside id, one has another column than its name says.
			if open[n] && columns[schemas.Column(n)] == 1 {
				out, open[n] = append(out, n), false
			}
		}
	}
	add(schemas.Paging().KeyFields()...)
	for _, name := range resourceNames(s.Name) {
		add(name+"_id", name+"Id", name+"ID", name+"_uuid", name+"_code", name+"_number")
	}
	add(containerKey)
	add(schemas.Paging().LabelFields()...)
	for _, name := range have {
		if strings.HasSuffix(name, "uuid") || strings.HasSuffix(name, "_key") {
			add(name)
		}
	}
	return out
}

// distinct says why a field does not tell the rows apart; "" where it does. A record
// that came twice, as it was, says nothing: it may stand on two pages.
func distinct(rows []row, names ...string) string {
	seen := make(map[string]row, len(rows))
	for i, r := range rows {
		var b strings.Builder
		for _, name := range names {
			v, ok := r[name]
			if !ok || v == "null" || v == `""` {
				return fmt.Sprintf("record %d has none", i+1)
			}
			b.WriteString(v + "\x00")
		}
		if other, ok := seen[b.String()]; ok && !maps.Equal(other, r) {
			return fmt.Sprintf("%s stands in two records", strings.TrimSuffix(strings.ReplaceAll(b.String(), "\x00", " "), " "))
		}
		seen[b.String()] = r
	}
	return ""
}

// different is how many values the rows have in some fields.
func different(rows []row, names ...string) int {
	values := make(map[string]bool, len(rows))
	for _, r := range rows {
		var b strings.Builder
		for _, name := range names {
			b.WriteString(r[name] + "\x00")
		}
		values[b.String()] = true
	}
	return len(values)
}

// mostReferences is how many references are looked at in pairs. // Invariant 15
const mostReferences = 64

// pairOf is the one pair of references that tells aMany rows apart; nil where
// there is none or more than one, or more references than can be paired.
func pairOf(rows []row) []string {
	if len(rows) < aMany {
		return nil
	}
	var refs []string
	for _, name := range fields(rows) {
		if strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id") || name == "id" || name == containerKey {
			refs = append(refs, name)
		}
	}
	if len(refs) > mostReferences {
		return nil
	}
	slices.Sort(refs)
	var found []string
	for i, a := range refs {
		for _, b := range refs[i+1:] {
			if distinct(rows, a, b) != "" || different(rows, a, b) < aMany {
				continue
			}
			if found != nil {
				return nil
			}
			found = []string{a, b}
		}
	}
	return found
}
