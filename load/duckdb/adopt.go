//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// adopt takes a table that penstock made for its own although the account of it
// is lost: it has the columns of bookkeeping, which nobody else would give one.
// What the columns hold is known again from the rows that arrive.
func (c *catalog) adopt(want schemas.Table) (load.Plan, bool) {
	o := c.live[want.Name]
	if _, known := c.made[want.Name]; known || o == nil || o.view || load.Own(want.Name) {
		return load.Plan{}, false
	}
	for _, own := range []string{schemas.ColSyncedAt, schemas.ColRun, schemas.ColHash, schemas.ColDeletedAt, schemas.ColVia} {
		if _, ok := o.types[own]; !ok {
			return load.Plan{}, false
		}
	}
	mode := want.Mode.Or(schemas.Merge)
	fields := want.Columns.Fields()
	if _, versions := o.types[schemas.ColValidTo]; versions {
		fields = append(fields, schemas.Field(schemas.ColValidFrom, schemas.Timestamp, ""), schemas.Field(schemas.ColValidTo, schemas.Timestamp, ""))
	} else if mode == schemas.History {
		mode = schemas.Merge // it can turn
	}
	p := load.Plan{Create: true, From: mode, Table: schemas.Table{Name: want.Name, Key: want.Key, Mode: mode}}
	for _, f := range fields {
		if t, ok := latticeOf(o.types[f.Name]); ok {
			if schemas.SameType(schemas.TypeOf(f), schemas.JSON) && t.ID() == arrow.STRING {
				t = schemas.JSON
			}
			p.Add = append(p.Add, schemas.Field(f.Name, t, schemas.Source(f)))
		}
	}
	p.Table.Columns = arrow.NewSchema(p.Add, nil)
	return p, true
}

// latticeOf is the inverse of [sqlType]; false for types that it never gives.
func latticeOf(sql string) (arrow.DataType, bool) {
	if elem, ok := strings.CutSuffix(sql, "[]"); ok {
		t, ok := latticeOf(elem)
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
