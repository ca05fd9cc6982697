package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// dialect implements [sqlmerge.Dialect].
type dialect struct{}

// Place implements [sqlmerge.Dialect].
func (dialect) Place(table string) string { return "main." + sqlmerge.Ident(table) }

// ViewPlace implements [sqlmerge.Dialect].
func (d dialect) ViewPlace(table string) string { return d.Place(table) }

// Temp implements [sqlmerge.Dialect].
func (dialect) Temp(table string) string { return "temp." + table }

// Literal implements [sqlmerge.Dialect]. A statement ends at a zero byte, so Literal writes char(0).
func (dialect) Literal(text string) string {
	q := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(q, "\x00") {
		q = "(" + strings.ReplaceAll(q, "\x00", "' || char(0) || '") + ")"
	}
	return q
}

// stamp is the format of times. All times have the same length, so they sort as text.
const stamp = "2006-01-02T15:04:05.000000Z"

// Timestamp implements [sqlmerge.Dialect].
func (dialect) Timestamp(t time.Time) string { return "'" + t.UTC().Format(stamp) + "'" }

// Micros implements [sqlmerge.Dialect]. SQLite would round a fraction to milliseconds.
func (dialect) Micros(expr string) string {
	return fmt.Sprintf("(unixepoch(substr(%s, 1, 19)) * 1000000 + CAST(substr(%[1]s, -7, 6) AS INTEGER))", expr)
}

// LastRows implements [sqlmerge.Dialect]. In a query with max, SQLite takes the other columns from the row that has the
// maximum.
func (dialect) LastRows(r sqlmerge.KeyedRows) string {
	return sqlmerge.LastRows(r, func(column string) string { return column })
}

// Greatest implements [sqlmerge.Dialect].
func (dialect) Greatest(first string, more ...string) string {
	for _, expr := range more {
		first += ", coalesce(" + expr + ", '')"
	}
	return "max(" + first + ")"
}

// Spellings implements [sqlmerge.Dialect].
func (d dialect) Spellings(expr string, t arrow.DataType) []string {
	return sqlmerge.Spellings(d, expr, t, looksBare(expr))
}

// JSONText implements [sqlmerge.Dialect].
func (d dialect) JSONText(expr string, t arrow.DataType) string { return sqlmerge.JSONText(d, expr, t) }

// Traits implements [sqlmerge.Dialect].
func (dialect) Traits() sqlmerge.Traits { return sqlmerge.Traits{} }

// looksBare returns the condition that the text expr looks like a number or a boolean in JSON.
func looksBare(expr string) string {
	return fmt.Sprintf("(%s GLOB '*[0-9]*' AND %[1]s NOT GLOB '*[^-0-9.]*' OR %[1]s IN ('true', 'false'))", expr)
}

// Type implements [sqlmerge.Dialect].
func (dialect) Type(t arrow.DataType) string {
	switch t := t.(type) {
	case *schemas.JSONType:
		return "JSON TEXT"
	case *arrow.BooleanType:
		return "BOOLEAN"
	case *arrow.Int64Type:
		return "INTEGER"
	case *arrow.Float64Type:
		return "REAL"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("DECIMAL TEXT(%d,%d)", t.Precision, t.Scale)
	case *arrow.Date32Type:
		return "DATE TEXT"
	case *arrow.TimestampType:
		return "TIMESTAMP TEXT"
	case *arrow.ListType:
		return "LIST OF " + dialect{}.Type(t.Elem())
	}
	return "TEXT"
}

// Lattice implements [sqlmerge.Dialect].
func (dialect) Lattice(_ arrow.Field, sql string) (arrow.DataType, bool) { return typeOf(sql) }

func typeOf(sql string) (arrow.DataType, bool) {
	if elem, ok := strings.CutPrefix(sql, "LIST OF "); ok {
		t, ok := typeOf(elem)
		if !ok {
			return nil, false
		}
		return arrow.ListOf(t), true
	}
	if sql == (dialect{}).Type(schemas.JSON) {
		return schemas.JSON, true
	}
	return sqlmerge.ScalarType(dialect{}, sql, "DECIMAL TEXT(%d,%d)")
}

// Cast implements [sqlmerge.Dialect]. The result equals what [encoder] writes for the same value.
func (dialect) Cast(expr string, from, to arrow.DataType) string {
	if schemas.SameType(from, to) {
		return expr
	}
	_, isJSON := to.(*schemas.JSONType)
	switch from := from.(type) {
	case *arrow.NullType:
		return "NULL"
	case *arrow.ListType: // the stored text is JSON
		if !isJSON && to.ID() != arrow.LIST {
			return "NULL" // a column of lists is widened to a type other than a list or JSON only if all its lists are empty
		}
		return expr
	case *arrow.BooleanType:
		return "CASE " + expr + " WHEN 1 THEN 'true' WHEN 0 THEN 'false' END"
	case *arrow.Int64Type:
		return padded("CAST("+expr+" AS TEXT)", 0, to)
	case *arrow.Decimal128Type:
		return padded(expr, from.Scale, to)
	case *arrow.Float64Type:
		return "CASE WHEN " + expr + " IS NOT NULL THEN format('%!.17g', " + expr + ") END"
	}
	if from.ID() == arrow.TIMESTAMP {
		expr = "replace(" + expr + ", '.000000Z', 'Z')"
	}
	if isJSON {
		return "CASE WHEN " + expr + " IS NOT NULL THEN json_quote(" + expr + ") END" // json_quote would turn a NULL into the JSON null
	}
	return expr
}

// padded returns an expression for a number. The number gets as many decimal places as the target type has.
func padded(expr string, scale int32, to arrow.DataType) string {
	d, ok := to.(*arrow.Decimal128Type)
	if !ok || d.Scale == scale {
		return expr
	}
	zeros := strings.Repeat("0", int(d.Scale-scale))
	if scale == 0 {
		zeros = "." + zeros
	}
	return expr + " || '" + zeros + "'"
}
