package extract

import (
	"iter"
	"slices"
	"strings"
)

type row map[string]string

// Limits per page: records that are analyzed, distinct member names, bytes of one value. // Invariant 6
const (
	maxRows  = 1000
	maxNames = 2000
	maxValue = 64
)

func rowsOf(d *doc, f found) []row {
	var all []row
	names := map[string]bool{}
	for p := range f.all(d) {
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

func wrappedRows(d *doc, f found) (wrapper string, all []row) {
	for p := range f.all(d) {
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

const containerKey = contextKey + "__key"

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

// dictionary reports whether p is an object that holds records by id, and the records do not repeat the id. If the
// object has the name 0, it is not: its names are the indexes of an array.
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
	slices.Sort(names)
	return names
}
