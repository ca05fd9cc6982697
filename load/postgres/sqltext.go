package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/postgres/codec"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// ident quotes an identifier. It replaces zero bytes, which identifiers cannot contain.
func ident(name string) string { return pgx.Identifier{codec.EscapeText(name)}.Sanitize() }

// idents quotes several identifiers.
func idents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = ident(n)
	}
	return strings.Join(out, ", ")
}

// literal quotes a text. If the text has a backslash, the result has the same meaning with every value of
// standard_conforming_strings.
func literal(s string) string {
	s = strings.ReplaceAll(codec.EscapeText(s), "'", "''")
	if strings.Contains(s, `\`) {
		return ` E'` + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}

// literals quotes several texts, for a condition with IN.
func literals(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = literal(v)
	}
	return strings.Join(out, ", ")
}

// inSchema returns the SQL condition that an expression equals the OID of the schema. The condition has a form with
// which the server can use the catalog's index on the columns name and schema.
func inSchema(namespace, schema string) string {
	return namespace + " = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = " + literal(schema) + ")"
}

// timestamp returns t as an SQL literal.
func timestamp(t time.Time) string {
	return "TIMESTAMPTZ " + literal(t.UTC().Format("2006-01-02 15:04:05.000000+00"))
}

// dialect implements [sqlmerge.Dialect].
type dialect struct {
	schema string
	json   string // type of JSON columns
}

// Place implements [sqlmerge.Dialect].
func (d dialect) Place(table string) string { return ident(d.schema) + "." + ident(table) }

// ViewPlace implements [sqlmerge.Dialect].
func (d dialect) ViewPlace(table string) string { return d.Place(table) }

// Temp implements [sqlmerge.Dialect].
func (dialect) Temp(table string) string { return "pg_temp." + table }

// Literal implements [sqlmerge.Dialect].
func (dialect) Literal(text string) string { return literal(text) }

// Timestamp implements [sqlmerge.Dialect].
func (dialect) Timestamp(t time.Time) string { return timestamp(t) }

// Micros implements [sqlmerge.Dialect].
func (dialect) Micros(expr string) string {
	return "(pg_catalog.date_part('epoch', " + expr + ") * 1000000)::bigint"
}

// Greatest implements [sqlmerge.Dialect].
func (dialect) Greatest(first string, more ...string) string {
	return "greatest(" + strings.Join(append([]string{first}, more...), ", ") + ")"
}

// Traits implements [sqlmerge.Dialect]. A row is found by its ctid until it is updated.
func (dialect) Traits() sqlmerge.Traits {
	return sqlmerge.Traits{PrimaryKeys: true, RowID: "ctid", ExactNames: true, Bytewise: ` COLLATE "C"`, JSON: "json", ViewsBlock: true}
}

// LastRows implements [sqlmerge.Dialect]. The query is written so that the planner expects few rows. The planner then
// uses an index to find the stored rows with the same keys.
func (dialect) LastRows(r sqlmerge.KeyedRows) string {
	numbers, columns := make([]string, len(r.Key)), make([]string, len(r.Key))
	for i, k := range r.Key {
		numbers[i], columns[i] = strconv.Itoa(i+1), fmt.Sprintf("%s AS k%d", ident(k), i)
	}
	for _, c := range append([]sqlmerge.Column{{Value: schemas.ColOrdinal, Name: "o"}}, r.Columns...) {
		columns = append(columns, c.Value+" AS "+c.Name)
	}
	keys := strings.Join(numbers, ", ")
	return fmt.Sprintf("SELECT DISTINCT ON (%s) %s FROM %s AS r ORDER BY %[1]s, o DESC", keys, strings.Join(columns, ", "), r.From)
}

// JSONText implements [sqlmerge.Dialect].
func (dialect) JSONText(expr string, t arrow.DataType) string { return jsonOf(expr, t) }

// Spellings implements [sqlmerge.Dialect]. Postgres cannot store a zero byte, so a stored text has the six characters
// \u0000 in its place. The link of a child row holds the key as JSON, where \u0000 means the zero byte itself.
func (dialect) Spellings(expr string, t arrow.DataType) []string {
	text := jsonOf(expr, t)
	if !schemas.SameType(t, schemas.Text) {
		return []string{text}
	}
	return []string{
		text,
		"CASE WHEN " + expr + ` ~ '^(-?[0-9]+([.][0-9]+)?|true|false)$' THEN ` + expr + " END",
		"CASE WHEN pg_catalog.strpos(" + expr + `, E'\\u0000') > 0 THEN pg_catalog.replace(` + text + `, E'\\\\u0000', E'\\u0000') END`,
	}
}

// Type implements [sqlmerge.Dialect].
func (d dialect) Type(t arrow.DataType) string {
	switch t := t.(type) {
	case *schemas.JSONType:
		return d.json
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
		return d.Type(t.Elem()) + "[]"
	}
	return "text"
}

// definition returns a column definition for CREATE TABLE or ALTER TABLE. In penstock's own tables, JSON columns have
// the type json, which keeps the spelling of a document.
func (d dialect) definition(t schemas.Table, f arrow.Field) string {
	if load.IsInternal(t.Name) && schemas.SameType(schemas.TypeOf(f), schemas.JSON) {
		return ident(f.Name) + " json"
	}
	return ident(f.Name) + " " + d.Type(schemas.TypeOf(f))
}

// Lattice implements [sqlmerge.Dialect].
func (dialect) Lattice(_ arrow.Field, sql string) (arrow.DataType, bool) { return typeOf(sql) }

func typeOf(sql string) (arrow.DataType, bool) {
	if elem, ok := strings.CutSuffix(sql, "[]"); ok {
		t, ok := typeOf(elem)
		if !ok {
			return nil, false
		}
		return arrow.ListOf(t), true
	}
	if sql == "jsonb" || sql == "json" {
		return schemas.JSON, true
	}
	return sqlmerge.ScalarType(dialect{}, sql, "numeric(%d,%d)")
}

// Cast implements [sqlmerge.Dialect]. The result is the same as what a [codec.Copier] writes for the value.
func (d dialect) Cast(expr string, from, to arrow.DataType) string {
	if schemas.SameType(from, to) {
		return expr
	}
	_, isJSON := to.(*schemas.JSONType)
	switch {
	case from.ID() == arrow.NULL:
		return "CAST(NULL AS " + d.Type(to) + ")"
	case isJSON:
		return "CAST(" + jsonOf(expr, from) + " AS " + d.Type(to) + ")"
	case from.ID() == arrow.TIMESTAMP:
		return timestampText(expr)
	case from.ID() == arrow.DATE32:
		return dateText(expr)
	case from.ID() == arrow.LIST && from.(*arrow.ListType).Elem().ID() == arrow.TIMESTAMP:
		return "CAST(pg_catalog.regexp_replace(CAST(" + expr + ` AS text), '"([0-9-]+) ([0-9:.]+)[+]00"', '"\1T\2Z"', 'g') AS text[])`
	}
	return "CAST(" + expr + " AS " + d.Type(to) + ")"
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
