package schemas

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// JoinTables makes one set of tables of what several destinations have of a
// stream: every table and column that any of them has, each with the least type
// that holds what is in all of them. Batches made for it fit each of them.
func JoinTables(sets ...[]Table) []Table {
	var out []Table
	for _, set := range sets {
		for _, t := range set {
			i := slices.IndexFunc(out, func(o Table) bool { return o.Name == t.Name })
			if i < 0 {
				out = append(out, t)
				continue
			}
			out[i].Columns = joinColumns(out[i].Columns, t.Columns)
		}
	}
	return out
}

// foreign reports whether somebody else has made a column, of whatever type.
func foreign(f arrow.Field) bool {
	return Source(f) == "" && f.Name != Column("") && !strings.HasPrefix(f.Name, "_penstock_")
}

// joinColumns keeps a's order and metadata, b's further columns come last.
// Columns of one name that hold different fields stay a's; only b's own
// destination can say what is wrong with them.
func joinColumns(a, b *arrow.Schema) *arrow.Schema {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	fields := a.Fields()
	for _, f := range b.Fields() {
		i := slices.IndexFunc(fields, func(o arrow.Field) bool { return o.Name == f.Name })
		if i < 0 {
			fields = append(fields, f)
			continue
		}
		if Source(fields[i]) != Source(f) || foreign(f) {
			continue
		}
		if t := Join(TypeOf(fields[i]), TypeOf(f)); !same(t, TypeOf(fields[i])) {
			fields[i] = Field(f.Name, t, Source(f))
		}
	}
	md := a.Metadata()
	if md.Len() == 0 {
		md = b.Metadata()
	}
	return arrow.NewSchema(fields, &md)
}
