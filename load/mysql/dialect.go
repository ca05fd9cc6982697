package mysql

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// dialect implements [sqlmerge.Dialect].
type dialect struct{ database string }

// Place implements [sqlmerge.Dialect]. Only names of tables have backquotes, so [translate] can distinguish them from
// names of columns.
func (d dialect) Place(table string) string { return quote(d.database) + "." + quote(escape(table)) }

// quote quotes the name of a table or a database.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// ViewPlace implements [sqlmerge.Dialect].
func (d dialect) ViewPlace(table string) string { return d.Place(table) }

// Temp implements [sqlmerge.Dialect].
func (dialect) Temp(table string) string { return table }

// Literal implements [sqlmerge.Dialect].
func (dialect) Literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// stamp is the layout of times.
const stamp = "2006-01-02 15:04:05.000000"

// lastTime is the last time that DATETIME can hold, in microseconds since 1970.
var lastTime = arrow.Timestamp(time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro())

// Timestamp implements [sqlmerge.Dialect].
func (dialect) Timestamp(t time.Time) string { return "TIMESTAMP'" + t.UTC().Format(stamp) + "'" }

// Micros implements [sqlmerge.Dialect].
func (dialect) Micros(expr string) string {
	return "timestampdiff(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', " + expr + ")"
}

// LastRows implements [sqlmerge.Dialect]. It numbers the rows and does not group them, because MySQL would sort groups
// with long texts on disk.
func (dialect) LastRows(r sqlmerge.KeyedRows) string { return sqlmerge.NumberedRows(r) }

// Greatest implements [sqlmerge.Dialect].
func (dialect) Greatest(first string, more ...string) string {
	all := first
	for _, expr := range more {
		all += ", coalesce(" + expr + ", " + first + ")"
	}
	return "greatest(" + all + ")"
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
	return fmt.Sprintf("(%s REGEXP '^[-.0-9]*[0-9][-.0-9]*$' OR %[1]s IN ('true', 'false'))", expr)
}

const text = "longtext" // type of texts, and also of JSON and lists

// Type implements [sqlmerge.Dialect].
func (dialect) Type(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return "tinyint(1)"
	case *arrow.Int64Type:
		return "bigint"
	case *arrow.Float64Type:
		return "double"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case *arrow.Date32Type:
		return "date"
	case *arrow.TimestampType:
		return "datetime(6)"
	}
	return text
}

// Lattice implements [sqlmerge.Dialect]. Text, JSON and lists have the same type in the database, so for a column of
// this type, the parameter f says which of them the column holds.
func (d dialect) Lattice(f arrow.Field, sql string) (arrow.DataType, bool) {
	if t := schemas.TypeOf(f); d.Type(t) == sql && t.ID() != arrow.NULL {
		return t, true
	}
	return sqlmerge.ScalarType(d, sql, "decimal(%d,%d)")
}

// Cast implements [sqlmerge.Dialect]. The result equals the stored form of the same value in a column of the type to.
// The parameter expr may also be a text form of a value of the type from: when the type of a column becomes LONGTEXT,
// MySQL converts its values to text.
func (d dialect) Cast(expr string, from, to arrow.DataType) string {
	if schemas.SameType(from, to) {
		return expr
	}
	_, isJSON := to.(*schemas.JSONType)
	switch from.(type) {
	case *arrow.NullType:
		return "NULL"
	case *arrow.ListType: // the stored text is JSON
		if !isJSON && to.ID() != arrow.LIST {
			return "NULL" // a column of lists gets a type other than list or JSON only if all its lists are empty
		}
		return expr
	case *arrow.BooleanType:
		return "CASE " + expr + " WHEN 1 THEN 'true' WHEN 0 THEN 'false' END"
	case *arrow.Int64Type, *arrow.Decimal128Type:
		if to.ID() == arrow.DECIMAL128 {
			return "CAST(" + expr + " AS " + d.Type(to) + ")"
		}
		return "CAST(" + expr + " AS CHAR)"
	case *arrow.Float64Type:
		return "CAST(" + expr + " AS CHAR)"
	case *arrow.Date32Type:
		expr = "CAST(" + expr + " AS CHAR)"
	case *arrow.TimestampType:
		expr = "replace(concat(replace(CAST(" + expr + " AS CHAR), ' ', 'T'), 'Z'), '.000000Z', 'Z')"
	}
	if isJSON {
		return "CAST(json_quote(" + expr + ") AS CHAR)" // json_quote changes the collation, and CAST restores it
	}
	return expr
}
