package extract

import (
	"iter"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
)

type row map[string]string

// Limits per page: records that are analyzed, distinct member names, bytes of one value. // Invariant 6
const (
	maxRows  = 1000
	maxNames = 2000
	maxValue = 64
)

func rowsOf(d *jsondoc.Doc, f found) []row {
	var all []row
	names := map[string]bool{}
	for p := range f.all(d) {
		named := p.dictionary(d)
		for name, r := range p.records(d) {
			if len(all) == maxRows {
				return all
			}
			row := make(row)
			if named {
				row["id"] = string(nameValue(name))
			}
			for name, v := range d.Members(r) {
				if v.Nested() || v.End-v.Start > maxValue || len(name) > 4*maxValue {
					continue
				}
				n := jsondoc.Unquote(name)
				if !names[n] {
					if len(names) == maxNames {
						continue
					}
					names[n] = true
				}
				row[n] = string(d.Raw(v))
			}
			if p.in.key != nil {
				row[containerKey] = string(p.in.key)
			}
			all = append(all, row)
		}
	}
	return all
}

func wrappedRows(d *jsondoc.Doc, f found) (wrapper string, all []row) {
	for p := range f.all(d) {
		for _, r := range p.records(d) {
			names := 0
			for name, v := range d.Members(r) {
				n := jsondoc.Unquote(name)
				if names++; names > 1 || !d.IsObject(v) || wrapper != "" && wrapper != n || len(all) == maxRows {
					return "", nil
				}
				wrapper = n
				inner := make(row)
				for name, v := range d.Members(v) {
					if !v.Nested() && v.End-v.Start <= maxValue {
						inner[jsondoc.Unquote(name)] = string(d.Raw(v))
					}
				}
				all = append(all, inner)
			}
		}
	}
	return wrapper, all
}

func memberAt(d *jsondoc.Doc, record jsondoc.Value, name string) jsondoc.Value {
	if v := d.Get(record, name); v.OK() {
		return v
	}
	wrapper, inner, ok := strings.Cut(name, "/")
	if !ok || !d.IsObject(d.Get(record, wrapper)) {
		return jsondoc.Missing
	}
	return d.Get(d.Get(record, wrapper), inner)
}

const containerKey = contextKey + "__key"

func (p place) records(d *jsondoc.Doc) iter.Seq2[[]byte, jsondoc.Value] {
	return func(yield func([]byte, jsondoc.Value) bool) {
		some := func(name []byte, v jsondoc.Value) bool { return !d.IsObject(v) || yield(name, v) }
		switch p.form {
		case formOne:
			some(nil, p.value)
		case formValues:
			for name, v := range d.Members(p.value) {
				if !some(name, v) {
					return
				}
			}
		case formList:
			for v := range d.Elements(p.value) {
				if !some(nil, v) {
					return
				}
			}
		}
	}
}

// dictionary reports whether p is an object that holds records by id, and the records do not repeat the id. If the
// object has the name 0, it is not: its names are the indexes of an array.
func (p place) dictionary(d *jsondoc.Doc) bool {
	if p.form != formValues || d.Get(p.value, "0").OK() {
		return false
	}
	for _, r := range d.Members(p.value) {
		if columnOf(d, r, "id").OK() {
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
