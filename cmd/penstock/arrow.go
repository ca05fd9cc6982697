package main

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// arrowBatch returns a batch of columns. The batch retains them.
func arrowBatch(fields []arrow.Field, columns []arrow.Array, rows int64) arrow.RecordBatch {
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, rows)
}
