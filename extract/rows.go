package extract

import "iter"

// row is what of a record can tell it from others or be ordered: its top-level
// scalars, as JSON.
type row map[string]string

// Of a page so many records are looked at, and of their values those that are no
// longer than this.
const (
	maxRows  = 1000
	maxValue = 64
)

// rowsOf are the records of an answer.
func rowsOf(d *doc, f found) []row {
	var all []row
	for _, p := range f.places {
		for r := range d.records(p) {
			if len(all) == maxRows {
				return all
			}
			row := make(row)
			for name, v := range d.members(r) {
				if v.node < 0 && v.end-v.start <= maxValue {
					row[unquote(name)] = string(d.raw(v))
				}
			}
			if p.in.key != nil {
				row[containerKey] = string(p.in.key)
			}
			all = append(all, row)
		}
	}
	return all
}

// containerKey is the column in which a record is told the name of the map entry
// it was found under.
const containerKey = contextKey + "__key"

// records are the objects that stand at a place.
func (d *doc) records(p place) iter.Seq[value] {
	return func(yield func(value) bool) {
		some := func(v value) bool { return !d.isObject(v) || yield(v) }
		switch p.form {
		case formOne:
			some(p.value)
		case formValues:
			for _, v := range d.members(p.value) {
				if !some(v) {
					return
				}
			}
		case formList:
			for v := range d.elements(p.value) {
				if !some(v) {
					return
				}
			}
		}
	}
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
