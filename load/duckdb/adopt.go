//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// adopt plans to take over a table that penstock made and whose recorded changes are lost. If the stream's mode is
// History and the table has no versions, it is taken over with mode Merge, and changes to History afterwards.
func (c *catalog) adopt(want schemas.Table) (load.Plan, bool) {
	o := c.live[want.Name]
	if _, known := c.made[want.Name]; known || o == nil || o.view {
		return load.Plan{}, false
	}
	mode := want.Mode.Or(schemas.Merge)
	if mode == schemas.History {
		mode = schemas.Merge
	}
	return load.Adopt(want, mode, o.types, latticeOf)
}

// latticeOf is the inverse of [sqlType] for the column f. It returns false for types that sqlType never returns.
func latticeOf(f arrow.Field, sql string) (arrow.DataType, bool) {
	t, ok := typeOf(sql)
	if ok && schemas.SameType(schemas.TypeOf(f), schemas.JSON) && t.ID() == arrow.STRING {
		t = schemas.JSON
	}
	return t, ok
}

func typeOf(sql string) (arrow.DataType, bool) {
	if elem, ok := strings.CutSuffix(sql, "[]"); ok {
		t, ok := typeOf(elem)
		if !ok {
			return nil, false
		}
		return arrow.ListOf(t), true
	}
	for _, t := range []arrow.DataType{schemas.Bool, schemas.Int64, schemas.Float64, schemas.Date, schemas.Timestamp, schemas.Text} {
		if sqlType(t) == sql {
			return t, true
		}
	}
	var d arrow.Decimal128Type
	if n, _ := fmt.Sscanf(sql, "DECIMAL(%d,%d)", &d.Precision, &d.Scale); n == 2 {
		return &d, true
	}
	return nil, false
}
