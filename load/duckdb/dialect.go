//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// literal returns a text in quotes. It writes a zero byte as chr(0), because a statement cannot contain one.
func literal(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	return strings.ReplaceAll(q, "\x00", "' || chr(0) || '")
}

// dialect implements [sqlmerge.Dialect].
type dialect struct{}

// Place implements [sqlmerge.Dialect].
func (dialect) Place(table string) string { return "db.main." + sqlmerge.Ident(table) }

// ViewPlace implements [sqlmerge.Dialect]. The place has no name of a database, because a reader of the file may attach
// it under another name.
func (dialect) ViewPlace(table string) string { return "main." + sqlmerge.Ident(table) }

// Temp implements [sqlmerge.Dialect].
func (dialect) Temp(table string) string { return "temp.main." + table }

// Literal implements [sqlmerge.Dialect].
func (dialect) Literal(text string) string { return literal(text) }

// Timestamp implements [sqlmerge.Dialect].
func (dialect) Timestamp(t time.Time) string {
	return "TIMESTAMPTZ " + literal(t.UTC().Format("2006-01-02 15:04:05.000000+00"))
}

// Micros implements [sqlmerge.Dialect].
func (dialect) Micros(expr string) string { return "epoch_us(" + expr + ")" }

// LastRows implements [sqlmerge.Dialect].
func (dialect) LastRows(r sqlmerge.KeyedRows) string {
	return sqlmerge.LastRows(r, func(column string) string { return "arg_max(" + column + ", " + schemas.ColOrdinal + ")" })
}

// Greatest implements [sqlmerge.Dialect].
func (dialect) Greatest(first string, more ...string) string {
	return "greatest(" + strings.Join(append([]string{first}, more...), ", ") + ")"
}

// Spellings implements [sqlmerge.Dialect].
func (d dialect) Spellings(expr string, t arrow.DataType) []string {
	return sqlmerge.Spellings(d, expr, t, looksBare(expr))
}

// JSONText implements [sqlmerge.Dialect].
func (d dialect) JSONText(expr string, t arrow.DataType) string { return sqlmerge.JSONText(d, expr, t) }

// Traits implements [sqlmerge.Dialect].
func (dialect) Traits() sqlmerge.Traits { return sqlmerge.Traits{InnerFirst: true} }

// looksBare returns an SQL condition. The condition is true if a text looks like a number or a boolean in JSON.
func looksBare(expr string) string {
	return "regexp_full_match(" + expr + `, '-?[0-9]+(\.[0-9]+)?|true|false')`
}

// Type implements [sqlmerge.Dialect].
func (dialect) Type(t arrow.DataType) string { return sqlType(t) }

// Lattice implements [sqlmerge.Dialect]. JSON and text have the same type in the database, so Lattice takes this type
// for JSON only if the field f is JSON.
func (dialect) Lattice(f arrow.Field, sql string) (arrow.DataType, bool) {
	t, ok := typeOf(sql)
	if ok && schemas.SameType(schemas.TypeOf(f), schemas.JSON) && t.ID() == arrow.STRING {
		t = schemas.JSON
	}
	return t, ok
}

// Cast implements [sqlmerge.Dialect].
func (dialect) Cast(expr string, from, to arrow.DataType) string { return cast(expr, from, to) }

// sqlType returns the engine's name for the column type that holds values of t. JSON is stored as VARCHAR, because
// the engine's JSON type would parse each value again, and an invalid value would make the commit fail.
func sqlType(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return "BOOLEAN"
	case *arrow.Int64Type:
		return "BIGINT"
	case *arrow.Float64Type:
		return "DOUBLE"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
	case *arrow.Date32Type:
		return "DATE"
	case *arrow.TimestampType:
		return "TIMESTAMP WITH TIME ZONE"
	case *arrow.ListType:
		return sqlType(t.Elem()) + "[]"
	}
	return "VARCHAR"
}

// typeOf is the inverse of sqlType. It returns false for types that sqlType never returns.
func typeOf(sql string) (arrow.DataType, bool) {
	if elem, ok := strings.CutSuffix(sql, "[]"); ok {
		t, ok := typeOf(elem)
		if !ok {
			return nil, false
		}
		return arrow.ListOf(t), true
	}
	return sqlmerge.ScalarType(dialect{}, sql, "DECIMAL(%d,%d)")
}

// cast returns an expression that converts expr to a wider type.
func cast(expr string, from, to arrow.DataType) string {
	if schemas.SameType(from, to) {
		return expr
	}
	_, isJSON := to.(*schemas.JSONType)
	list, isList := from.(*arrow.ListType)
	switch {
	case from.ID() == arrow.NULL:
		return "CAST(NULL AS " + sqlType(to) + ")"
	case isList && list.Elem().ID() == arrow.NULL:
		return castEmpty(expr, to)
	case isList && isJSON:
		item := jsonOf("x", list.Elem())
		return "'[' || array_to_string(list_transform(" + expr + ", lambda x: coalesce(" + item + ", 'null')), ',') || ']'"
	case isList:
		item := cast("x", list.Elem(), to.(*arrow.ListType).Elem())
		return "list_transform(" + expr + ", lambda x: " + item + ")"
	case isJSON:
		return jsonOf(expr, from)
	case from.ID() == arrow.TIMESTAMP:
		return timestampText(expr)
	}
	return "CAST(" + expr + " AS " + sqlType(to) + ")"
}

// castEmpty casts a list that has always been empty. If the new type cannot hold an empty list, the result is null.
func castEmpty(expr string, to arrow.DataType) string {
	switch to.(type) {
	case *arrow.ListType:
		return "CASE WHEN " + expr + " IS NOT NULL THEN CAST([] AS " + sqlType(to) + ") END"
	case *schemas.JSONType:
		return "CASE WHEN " + expr + " IS NOT NULL THEN '[]' END"
	}
	return "CAST(NULL AS " + sqlType(to) + ")"
}

// jsonOf returns an expression for the JSON text of a value that is not a list.
func jsonOf(expr string, from arrow.DataType) string {
	switch from.(type) {
	case *schemas.JSONType:
		return expr
	case *arrow.StringType:
		return "CAST(to_json(" + expr + ") AS VARCHAR)"
	case *arrow.Date32Type:
		return "'\"' || CAST(" + expr + " AS VARCHAR) || '\"'"
	case *arrow.TimestampType:
		return "'\"' || " + timestampText(expr) + " || '\"'"
	}
	return "CAST(" + expr + " AS VARCHAR)"
}

// timestampText formats a time as 2026-11-20T00:00:00Z, with six fractional digits if it has a fraction.
func timestampText(expr string) string {
	utc := "timezone('UTC', " + expr + ")"
	return "CASE WHEN microsecond(" + utc + ") % 1000000 = 0 THEN strftime(" + utc + ", '%Y-%m-%dT%H:%M:%SZ') " +
		"ELSE strftime(" + utc + ", '%Y-%m-%dT%H:%M:%S.%fZ') END"
}
