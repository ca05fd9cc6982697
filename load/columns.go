package load

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Names returns the names of a table's columns.
func Names(s *arrow.Schema) []string {
	out := make([]string, s.NumFields())
	for i, f := range s.Fields() {
		out[i] = f.Name
	}
	return out
}

// Select returns the schema of the named columns of s, in the order of the names. It returns s itself if columns is
// nil, and an error if a column is missing. [Destination].Scan uses it.
func Select(s *arrow.Schema, columns []string) (*arrow.Schema, error) {
	if columns == nil {
		return s, nil
	}
	fields := make([]arrow.Field, len(columns))
	for i, name := range columns {
		at := s.FieldIndices(name)
		if len(at) == 0 {
			return nil, fmt.Errorf("no column %q", name)
		}
		fields[i] = s.Field(at[0])
	}
	return arrow.NewSchema(fields, nil), nil
}

// TypeOf returns penstock's type of a column of s. Tables do not store [schemas.ColOrdinal]. If s lacks the column,
// the column must be ColOrdinal, so TypeOf returns the type of ColOrdinal.
func TypeOf(s *arrow.Schema, column string) arrow.DataType {
	if i := s.FieldIndices(column); len(i) > 0 {
		return schemas.TypeOf(s.Field(i[0]))
	}
	return schemas.Int64
}

// Child reports whether the columns are those of a child table. It returns false if s is nil.
func Child(s *arrow.Schema) bool { return s != nil && s.HasField(schemas.ColParent) }

// IsChildOf reports whether t is a child table, at any depth, of the table root.
func IsChildOf(t schemas.Table, root string) bool {
	return Child(t.Columns) && strings.HasPrefix(t.Name, root+"__")
}

// Ancestors returns the name of a table and the possible names of its parent tables and its root table, longest first.
// For "a__b__c" these are "a__b__c", "a__b" and "a". Each of them may be the root table, because the name of a root
// table may contain two underscores.
func Ancestors(table string) []string {
	names := []string{table}
	for i := len(table) - 1; i > 0; i-- {
		if strings.HasPrefix(table[i:], "__") {
			names = append(names, table[:i])
		}
	}
	return names
}

// RootKeyColumn returns the name of the column of a child table that holds the key of the record: [schemas.ColRoot] if
// the table is the child of another child table, else [schemas.ColParent].
func RootKeyColumn(s *arrow.Schema) string {
	if s.HasField(schemas.ColRoot) {
		return schemas.ColRoot
	}
	return schemas.ColParent
}
