package extract

import (
	"iter"
	"strings"
)

// row is what of a record can tell it from others or be ordered: its top-level
// scalars, as JSON.
type row map[string]string

// Of a page so many records are looked at, in them the members of so many names, and
// of their values those that are no longer than this. // Invariant 6
const (
	maxRows  = 1000
	maxNames = 2000
	maxValue = 64
)

// rowsOf are the records of an answer.
func rowsOf(d *doc, f found) []row {
	var all []row
	names := map[string]bool{}
	for _, p := range f.places {
		named := d.dictionary(p)
		for name, r := range d.records(p) {
			if len(all) == maxRows {
				return all
			}
			row := make(row)
			if named {
				row["id"] = string(nameValue(name))
			}
			for name, v := range d.members(r) {
				if v.node >= 0 || v.end-v.start > maxValue || len(name) > 4*maxValue {
					continue
				}
				n := unquote(name)
				if !names[n] {
					if len(names) == maxNames {
						continue
					}
					names[n] = true
				}
				row[n] = string(d.raw(v))
			}
			if p.in.key != nil {
				row[containerKey] = string(p.in.key)
			}
			all = append(all, row)
		}
	}
	return all
}

// wrappedRows are the records of an answer in which each is the only member of an
// object, {"customer": {…}}, and the name of that member; none for other answers.
func wrappedRows(d *doc, f found) (wrapper string, all []row) {
	for _, p := range f.places {
		for _, r := range d.records(p) {
			names := 0
			for name, v := range d.members(r) {
				n := unquote(name)
				if names++; names > 1 || !d.isObject(v) || wrapper != "" && wrapper != n || len(all) == maxRows {
					return "", nil
				}
				wrapper = n
				inner := make(row)
				for name, v := range d.members(v) {
					if v.node < 0 && v.end-v.start <= maxValue {
						inner[unquote(name)] = string(d.raw(v))
					}
				}
				all = append(all, inner)
			}
		}
	}
	return wrapper, all
}

// memberAt is a member of a record, or, as "customer/id", of the object in which the
// record is wrapped.
func (d *doc) memberAt(record value, name string) value {
	if v := d.get(record, name); v.ok() {
		return v
	}
	wrapper, inner, ok := strings.Cut(name, "/")
	if !ok || !d.isObject(d.get(record, wrapper)) {
		return missing
	}
	return d.get(d.get(record, wrapper), inner)
}

// containerKey is the column of a record that holds the name of the map entry
// it was found under.
const containerKey = contextKey + "__key"

// records are the objects that stand at a place, in a dictionary with their names.
func (d *doc) records(p place) iter.Seq2[[]byte, value] {
	return func(yield func([]byte, value) bool) {
		some := func(name []byte, v value) bool { return !d.isObject(v) || yield(name, v) }
		switch p.form {
		case formOne:
			some(nil, p.value)
		case formValues:
			for name, v := range d.members(p.value) {
				if !some(name, v) {
					return
				}
			}
		case formList:
			for v := range d.elements(p.value) {
				if !some(nil, v) {
					return
				}
			}
		}
	}
}

// dictionary reports whether the records at a place have their ids as names, and
// not in themselves. Names from 0 on are positions of a list.
func (d *doc) dictionary(p place) bool {
	if p.form != formValues || d.get(p.value, "0").ok() {
		return false
	}
	for _, r := range d.members(p.value) {
		if d.column(r, "id").ok() {
			return false
		}
	}
	return true
}

// fields are the names of all values that the rows have, in the order of the
// first row's own where it has them.
func fields(rows []row) []string {
	seen := map[string]bool{}
	var names []string
	for _, r := range rows {
		for name := range r {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}
