package records

import (
	"fmt"
	"maps"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// A field is the key only if it has at least this many different values. If there are few records, codes may all differ
// by chance, and names are even more likely to do so. A field that is named like an id needs no minimum.
const (
	MinDistinct       = 10
	minDistinctLabels = 50 // for the fields name and url
)

// FindKey finds the fields that identify a row. They are present in all rows, never null or empty, and no two different
// rows share a value. Two fields together are a key only if both are references to other records. It also returns the
// reasons why other fields are not the key.
func FindKey(s schemas.Stream, rows []Row) (key, refuted []string) {
	if len(rows) == 0 {
		return nil, nil
	}
	for _, name := range keyCandidates(s, rows) {
		need := 1
		if !strings.HasSuffix(strings.ToLower(name), "id") && name != ContainerKey {
			need = MinDistinct
			if name == "name" || name == "url" {
				need = minDistinctLabels
			}
		}
		if why := Distinct(rows, name); why != "" {
			refuted = append(refuted, name+": "+why)
		} else if different(rows, name) < need {
			refuted = append(refuted, fmt.Sprintf("%s: different in all %d records, but these are too few to rely on it", name, len(rows)))
		} else {
			return []string{name}, refuted
		}
	}
	if pair := pairOf(rows); pair != nil {
		return pair, refuted
	}
	return nil, refuted
}

func keyCandidates(s schemas.Stream, rows []Row) []string {
	have := Fields(rows)
	columns := map[string]int{}
	open := make(map[string]bool, len(have))
	for _, name := range have {
		columns[schemas.Column(name)]++
		open[name] = true
	}
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			// If the rows have both ID and id, one of the columns gets a suffix. So neither is a candidate.
			if open[n] && columns[schemas.Column(n)] == 1 {
				out, open[n] = append(out, n), false
			}
		}
	}
	add(schemas.Paging().Fields.Keys...)
	for _, name := range resourceNames(s.Name) {
		add(name+"_id", name+"Id", name+"ID", name+"_uuid", name+"_code", name+"_number")
	}
	add(ContainerKey)
	add(schemas.Paging().Fields.Labels...)
	for _, name := range have {
		if strings.HasSuffix(name, "uuid") || strings.HasSuffix(name, "_key") {
			add(name)
		}
	}
	return out
}

// Distinct returns why the fields together do not identify the rows, or "" if they do. Two equal rows are allowed,
// because one record may be on two pages.
func Distinct(rows []Row, names ...string) string {
	seen := make(map[string]Row, len(rows))
	for i, r := range rows {
		var b strings.Builder
		for _, name := range names {
			v, ok := r[name]
			if !ok || v == "null" || v == `""` {
				return fmt.Sprintf("record %d has no value", i+1)
			}
			b.WriteString(v + "\x00")
		}
		if other, ok := seen[b.String()]; ok && !maps.Equal(other, r) {
			return fmt.Sprintf("%s is in two records", strings.TrimSuffix(strings.ReplaceAll(b.String(), "\x00", " "), " "))
		}
		seen[b.String()] = r
	}
	return ""
}

func different(rows []Row, names ...string) int {
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

// maxReferences limits the number of references that pairOf combines. // Invariant 15
const maxReferences = 64

// pairOf returns the only pair of references that identifies the rows. It returns nil if there is no such pair, or
// more than one.
func pairOf(rows []Row) []string {
	if len(rows) < MinDistinct {
		return nil
	}
	var refs []string
	for _, name := range Fields(rows) {
		if strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id") || name == "id" || name == ContainerKey {
			refs = append(refs, name)
		}
	}
	if len(refs) > maxReferences {
		return nil
	}
	var found []string
	for i, a := range refs {
		for _, b := range refs[i+1:] {
			if Distinct(rows, a, b) != "" || different(rows, a, b) < MinDistinct {
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
