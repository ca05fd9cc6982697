package load

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Names are the names of a table's columns.
func Names(s *arrow.Schema) []string {
	out := make([]string, s.NumFields())
	for i, f := range s.Fields() {
		out[i] = f.Name
	}
	return out
}

// Select is the schema of the named columns of s, in their order: what
// [Destination].Scan hands out. It is s itself where columns is nil.
func Select(s *arrow.Schema, columns []string) (*arrow.Schema, error) {
	if columns == nil {
		return s, nil
	}
	fields := make([]arrow.Field, len(columns))
	for i, name := range columns {
		at := s.FieldIndices(name)
		if len(at) == 0 {
			return nil, fmt.Errorf("there is no column %q", name)
		}
		fields[i] = s.Field(at[0])
	}
	return arrow.NewSchema(fields, nil), nil
}

// TypeOf is the lattice's type of a column of s. The only one asked for that a
// table does not have is [schemas.ColOrdinal].
func TypeOf(s *arrow.Schema, column string) arrow.DataType {
	if i := s.FieldIndices(column); len(i) > 0 {
		return schemas.TypeOf(s.Field(i[0]))
	}
	return schemas.Int64
}

// Child reports whether rows of a table with these columns hang from those of
// another; never where there are none.
func Child(s *arrow.Schema) bool { return s != nil && s.HasField(schemas.ColParent) }

// Hangs reports whether rows of t hang from those of the table called root.
func Hangs(t schemas.Table, root string) bool {
	return Child(t.Columns) && strings.HasPrefix(t.Name, root+"__")
}

// Link is the column of a child table that holds its record's key: that of the
// parent, or of the root where there are parents between.
func Link(s *arrow.Schema) string {
	if s.HasField(schemas.ColRoot) {
		return schemas.ColRoot
	}
	return schemas.ColParent
}
