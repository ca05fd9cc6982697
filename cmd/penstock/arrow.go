package main

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// arrowBatch makes a batch of columns, which it retains.
func arrowBatch(fields []arrow.Field, columns []arrow.Array, rows int64) arrow.RecordBatch {
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, rows)
}

// typeName is a type in the catalogue's words.
func typeName(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return "bool"
	case *arrow.Date32Type:
		return "date"
	case *arrow.TimestampType:
		return "timestamp"
	case *arrow.StringType:
		return "text"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case *arrow.ListType:
		return "list of " + typeName(t.Elem())
	}
	return t.Name()
}
