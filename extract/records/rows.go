package records

import (
	"iter"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// ContextKey is the name of a member that is added to records. This member has the parameters of the request that come
// from the parent. If the records are in groups, such as the stages of a board, the member also has the group of the
// record.
const ContextKey = "_context"

// Row maps the names of a record's scalar members to their values as JSON.
type Row map[string]string

// Limits per page: records that are analyzed, distinct member names, bytes of one value. // Invariant 6
const (
	MaxRows  = 1000
	MaxNames = 2000
	MaxValue = 64
)

// RowsOf returns the first records as rows. It leaves out nested values and values that are too large.
func RowsOf(d *jsondoc.Doc, f Found) []Row {
	var all []Row
	names := map[string]bool{}
	for p := range f.All(d) {
		named := p.dictionary(d)
		for name, r := range p.Records(d) {
			if len(all) == MaxRows {
				return all
			}
			row := make(Row)
			if named {
				row["id"] = string(NameValue(name))
			}
			for name, v := range d.Members(r) {
				if v.Nested() || v.End-v.Start > MaxValue || len(name) > 4*MaxValue {
					continue
				}
				n := jsondoc.Unquote(name)
				if !names[n] {
					if len(names) == MaxNames {
						continue
					}
					names[n] = true
				}
				row[n] = string(d.Raw(v))
			}
			if p.In.Key != nil {
				row[ContainerKey] = string(p.In.Key)
			}
			all = append(all, row)
		}
	}
	return all
}

// WrappedRows is for records like {"lead": {…}}: each has only one member, an object that has the same name in all
// records. It returns these objects as rows. For other records, it returns nil.
func WrappedRows(d *jsondoc.Doc, f Found) (wrapper string, all []Row) {
	for p := range f.All(d) {
		for _, r := range p.Records(d) {
			names := 0
			for name, v := range d.Members(r) {
				n := jsondoc.Unquote(name)
				if names++; names > 1 || !d.IsObject(v) || wrapper != "" && wrapper != n || len(all) == MaxRows {
					return "", nil
				}
				wrapper = n
				inner := make(Row)
				for name, v := range d.Members(v) {
					if !v.Nested() && v.End-v.Start <= MaxValue {
						inner[jsondoc.Unquote(name)] = string(d.Raw(v))
					}
				}
				all = append(all, inner)
			}
		}
	}
	return wrapper, all
}

// MemberAt returns a member of a record. The name "a/b" may also be the member b of the object a.
func MemberAt(d *jsondoc.Doc, record jsondoc.Value, name string) jsondoc.Value {
	if v := d.Get(record, name); v.OK() {
		return v
	}
	wrapper, inner, ok := strings.Cut(name, "/")
	if !ok || !d.IsObject(d.Get(record, wrapper)) {
		return jsondoc.Missing
	}
	return d.Get(d.Get(record, wrapper), inner)
}

// ContainerKey is a column. If the answer is a map with records in its entries, the column has the name of the record's
// entry.
const ContainerKey = ContextKey + "__key"

// Records yields the records of p. If the records are the values of an object, it also yields the name of each value.
func (p Place) Records(d *jsondoc.Doc) iter.Seq2[[]byte, jsondoc.Value] {
	return func(yield func([]byte, jsondoc.Value) bool) {
		some := func(name []byte, v jsondoc.Value) bool { return !d.IsObject(v) || yield(name, v) }
		switch p.Form {
		case FormOne:
			some(nil, p.Value)
		case FormValues:
			for name, v := range d.Members(p.Value) {
				if !some(name, v) {
					return
				}
			}
		case FormList:
			for v := range d.Elements(p.Value) {
				if !some(nil, v) {
					return
				}
			}
		}
	}
}

// dictionary reports whether p is an object that holds records by id, and the records do not repeat the id. An object
// with a member named 0 is not such an object, because its names are the indexes of an array.
func (p Place) dictionary(d *jsondoc.Doc) bool {
	if p.Form != FormValues || d.Get(p.Value, "0").OK() {
		return false
	}
	for _, r := range d.Members(p.Value) {
		if columnOf(d, r, "id").OK() {
			return false
		}
	}
	return true
}

// Fields returns the names of all members of the rows, sorted.
func Fields(rows []Row) []string {
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

// columnOf returns the member with the name of the column. If there is none, it returns a member whose name becomes
// that column name: for example, leadId becomes lead_id.
func columnOf(d *jsondoc.Doc, v jsondoc.Value, column string) jsondoc.Value {
	if m := d.Get(v, column); m.OK() {
		return m
	}
	_, m := MemberOfColumn(d, v, column)
	return m
}

// MemberOfColumn returns the member whose name becomes a column name, and the name of the member: leadId for lead_id.
func MemberOfColumn(d *jsondoc.Doc, v jsondoc.Value, column string) (name string, m jsondoc.Value) {
	if !d.IsObject(v) {
		return "", jsondoc.Missing
	}
	for k, m := range d.Members(v) {
		if name := jsondoc.Unquote(k); schemas.Column(name) == column {
			return name, m
		}
	}
	return "", jsondoc.Missing
}

// NameValue returns a name as a JSON scalar. A numeric name becomes a number, because references to the record are
// numbers too.
func NameValue(name []byte) []byte {
	if jsondoc.IsNumber(name) {
		return name
	}
	return append(append([]byte{'"'}, name...), '"')
}
