package schemas

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// JoinTables merges the tables that a stream has in several destinations into one set with all tables and columns.
// The type of a column is the smallest type that holds the column's values in all destinations. So batches with these
// columns fit each destination.
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

func foreign(f arrow.Field) bool {
	return Source(f) == "" && f.Name != Column("") && !strings.HasPrefix(f.Name, "_penstock_")
}

// joinColumns keeps the order and metadata of the first schema, and appends the columns that only the second schema
// has. If a column holds different fields of the source in the two schemas, the result has the column of the first
// schema. The destination with the second schema then reports the conflict.
func joinColumns(base, added *arrow.Schema) *arrow.Schema {
	if base == nil || added == nil {
		if base == nil {
			return added
		}
		return base
	}
	fields := base.Fields()
	for _, f := range added.Fields() {
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
	md := base.Metadata()
	if md.Len() == 0 {
		md = added.Metadata()
	}
	return arrow.NewSchema(fields, &md)
}
