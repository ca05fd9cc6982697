//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// ident quotes an identifier.
func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// idents quotes several identifiers.
func idents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = ident(n)
	}
	return strings.Join(out, ", ")
}

// literal quotes a text. It writes a zero byte as chr(0), because a statement cannot contain one.
func literal(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	return strings.ReplaceAll(q, "\x00", "' || chr(0) || '")
}

// place returns the qualified name of a table of the destination.
func place(table string) string { return "db.main." + ident(table) }

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

// cast returns an expression that casts expr, of type from, to the wider type to.
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

// castEmpty casts a list that has always been empty. The result is null if the new type has no empty list.
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

// keyText returns an expression for one value of a multi-column key, as package transform writes it into the link of
// child rows. JSON can write a text in several ways, so keyText escapes it in the same way as transform.
func keyText(expr string, from arrow.DataType) string {
	if from.ID() != arrow.STRING || schemas.SameType(from, schemas.JSON) {
		return jsonOf(expr, from)
	}
	short := map[int]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}
	expr = `replace(replace(` + expr + `, '\', '\\'), '"', '\"')`
	for c := range 0x20 {
		escape := short[c]
		if escape == "" {
			escape = fmt.Sprintf(`\u%04x`, c)
		}
		expr = fmt.Sprintf("replace(%s, chr(%d), '%s')", expr, c, escape)
	}
	return `'"' || ` + expr + ` || '"'`
}
