package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/schemas"
)

// ident quotes an identifier. It replaces zero bytes, which identifiers cannot contain.
func ident(name string) string { return pgx.Identifier{escapeText(name)}.Sanitize() }

// idents quotes several identifiers.
func idents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = ident(n)
	}
	return strings.Join(out, ", ")
}

// literal quotes a text. It writes a text with a backslash so that the setting standard_conforming_strings does not
// matter.
func literal(s string) string {
	s = strings.ReplaceAll(escapeText(s), "'", "''")
	if strings.Contains(s, `\`) {
		return ` E'` + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}

// literals quotes several texts, for the condition IN.
func literals(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = literal(v)
	}
	return strings.Join(out, ", ")
}

// timestamp returns t as an SQL literal.
func timestamp(t time.Time) string {
	return "TIMESTAMPTZ " + literal(t.UTC().Format("2006-01-02 15:04:05.000000+00"))
}

// place returns the qualified name of a table of the destination.
func (d *DB) place(table string) string { return ident(d.o.Schema) + "." + ident(table) }

// sqlType returns the name of the Postgres type for values of type t.
func (d *DB) sqlType(t arrow.DataType) string {
	switch t := t.(type) {
	case *schemas.JSONType:
		return d.o.JSON
	case *arrow.BooleanType:
		return "boolean"
	case *arrow.Int64Type:
		return "bigint"
	case *arrow.Float64Type:
		return "double precision"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("numeric(%d,%d)", t.Precision, t.Scale)
	case *arrow.Date32Type:
		return "date"
	case *arrow.TimestampType:
		return "timestamp with time zone"
	case *arrow.ListType:
		return d.sqlType(t.Elem()) + "[]"
	}
	return "text"
}

// latticeOf is the inverse of [DB.sqlType]. It returns false for any other type.
func latticeOf(_ arrow.Field, sql string) (arrow.DataType, bool) { return typeOf(sql) }

func typeOf(sql string) (arrow.DataType, bool) {
	if elem, ok := strings.CutSuffix(sql, "[]"); ok {
		t, ok := typeOf(elem)
		if !ok {
			return nil, false
		}
		return arrow.ListOf(t), true
	}
	switch sql {
	case "jsonb", "json":
		return schemas.JSON, true
	case "boolean":
		return schemas.Bool, true
	case "bigint":
		return schemas.Int64, true
	case "double precision":
		return schemas.Float64, true
	case "date":
		return schemas.Date, true
	case "timestamp with time zone":
		return schemas.Timestamp, true
	case "text":
		return schemas.Text, true
	}
	var d arrow.Decimal128Type
	if n, _ := fmt.Sscanf(sql, "numeric(%d,%d)", &d.Precision, &d.Scale); n == 2 && d.Precision <= 38 && d.Scale >= 0 && d.Scale <= d.Precision {
		return &d, true
	}
	return nil, false
}

// cast returns an expression that casts expr to a wider type. The parameters from and to are the two types. The result
// is the same as an encoder writes: see [format.encoderFor].
func (d *DB) cast(expr string, from, to arrow.DataType) string {
	if schemas.SameType(from, to) {
		return expr
	}
	_, isJSON := to.(*schemas.JSONType)
	switch {
	case from.ID() == arrow.NULL:
		return "CAST(NULL AS " + d.sqlType(to) + ")"
	case isJSON:
		return "CAST(" + jsonOf(expr, from) + " AS " + d.sqlType(to) + ")"
	case from.ID() == arrow.TIMESTAMP:
		return timestampText(expr)
	case from.ID() == arrow.DATE32:
		return dateText(expr)
	case from.ID() == arrow.LIST && from.(*arrow.ListType).Elem().ID() == arrow.TIMESTAMP:
		return "CAST(pg_catalog.regexp_replace(CAST(" + expr + ` AS text), '"([0-9-]+) ([0-9:.]+)[+]00"', '"\1T\2Z"', 'g') AS text[])`
	}
	return "CAST(" + expr + " AS " + d.sqlType(to) + ")"
}

// jsonOf returns an expression for the JSON text of a value.
func jsonOf(expr string, from arrow.DataType) string {
	switch from := from.(type) {
	case *schemas.JSONType:
		return "CAST(" + expr + " AS text)"
	case *arrow.TimestampType:
		return `'"' || ` + timestampText(expr) + ` || '"'`
	case *arrow.Date32Type:
		return `'"' || ` + dateText(expr) + ` || '"'`
	case *arrow.ListType:
		text := "CAST(pg_catalog.array_to_json(" + expr + ") AS text)"
		if from.Elem().ID() == arrow.TIMESTAMP {
			text = "pg_catalog.replace(" + text + `, '+00:00"', 'Z"')`
		}
		return text
	}
	return "CAST(pg_catalog.to_json(" + expr + ") AS text)"
}

// timestampText formats a time as 2026-11-20T00:00:00Z, with six fractional digits if it has a fraction.
func timestampText(expr string) string {
	utc := "pg_catalog.timezone('UTC', " + expr + ")"
	return "CASE WHEN " + expr + " IS NOT NULL THEN " + yearText(utc) + " || CASE WHEN pg_catalog.date_part('microseconds', " + utc + ")::bigint % 1000000 = 0 " +
		`THEN pg_catalog.to_char(` + utc + `, '-MM-DD"T"HH24:MI:SS"Z"') ELSE pg_catalog.to_char(` + utc + `, '-MM-DD"T"HH24:MI:SS.US"Z"') END END`
}

// dateText formats a date as 2026-11-20.
func dateText(expr string) string {
	return "(" + yearText(expr) + " || pg_catalog.to_char(" + expr + "::timestamp, '-MM-DD'))"
}

// yearText formats the year of a time. Postgres has no year 0: 1 BC becomes 0000, and earlier years are negative.
func yearText(expr string) string {
	year := "pg_catalog.date_part('year', " + expr + ")::bigint"
	return "CASE WHEN " + year + " > 0 THEN pg_catalog.lpad((" + year + ")::text, greatest(4, pg_catalog.length((" + year + ")::text)), '0') " +
		"ELSE CASE WHEN " + year + " < -1 THEN '-' ELSE '' END || pg_catalog.lpad((-1 - " + year + ")::text, 4, '0') END"
}
