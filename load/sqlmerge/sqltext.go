package sqlmerge

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Ident quotes an identifier.
func Ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Idents quotes several identifiers.
func Idents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = Ident(n)
	}
	return strings.Join(out, ", ")
}

// concat returns an expression for the concatenation of texts that are not null. It nests them evenly, because
// databases limit the depth of an expression and the number of a function's arguments.
func concat(parts []string) string {
	if len(parts) <= 8 {
		return "(" + strings.Join(parts, " || ") + ")"
	}
	half := len(parts) / 2
	return "(" + concat(parts[:half]) + " || " + concat(parts[half:]) + ")"
}

// KeyText returns an expression for one value of a multi-column key, as package transform writes it into the link of
// child rows. JSON can write a text in several ways, so KeyText escapes it in the same way as transform.
func KeyText(d Dialect, expr string, from arrow.DataType) string {
	if !schemas.SameType(from, schemas.Text) {
		return d.Cast(expr, from, schemas.JSON)
	}
	short := map[int]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}
	expr = `replace(replace(` + expr + `, '\', '\\'), '"', '\"')`
	for c := range 0x20 {
		escape := short[c]
		if escape == "" {
			escape = fmt.Sprintf(`\u%04x`, c)
		}
		expr = fmt.Sprintf("replace(%s, %s, '%s')", expr, d.Literal(string(rune(c))), escape)
	}
	return `'"' || ` + expr + ` || '"'`
}

// JSONText returns an expression for the JSON text of the value expr, which has type t. The text of a JSON column may be
// invalid JSON. Then the result is this text as a JSON string.
func JSONText(d Dialect, expr string, t arrow.DataType) string {
	if !schemas.SameType(t, schemas.JSON) {
		return d.Cast(expr, t, schemas.JSON)
	}
	return "CASE WHEN json_valid(" + expr + ") THEN " + expr + " ELSE " + d.Cast(expr, schemas.Text, schemas.JSON) + " END"
}

// bytewise returns an expression for the text expr that compares by its bytes.
func (t Traits) bytewise(expr string) string { return expr + t.Bytewise }

// asJSON returns an expression that stores the JSON text expr in one of penstock's own tables.
func (t Traits) asJSON(expr string) string {
	if t.JSON == "" {
		return expr
	}
	return "CAST(" + expr + " AS " + t.JSON + ")"
}

// sameName reports whether two names mean the same table or column.
func (t Traits) sameName(a, b string) bool { return a == b || !t.ExactNames && strings.EqualFold(a, b) }

// all is a condition that holds for each row. A column may be named true.
const all = "1 = 1"

// rowsSQL returns a FROM item for the rows t of a table, with a condition. If the table is shared, these are only the
// rows of the source. It has no subquery, because SQLite renames the columns true and false of a subquery.
func rowsSQL(d Dialect, t schemas.Table, source string) string {
	if source == "" || !load.Shared(t.Columns) {
		return d.Place(t.Name) + " AS t WHERE " + all
	}
	return d.Place(t.Name) + " AS t WHERE t." + schemas.ColSource + " = " + d.Literal(source)
}

// Decimal returns the decimal type that a database calls sql. The format has two verbs, for the precision and the scale.
func Decimal(sql, format string) (arrow.DataType, bool) {
	var t arrow.Decimal128Type
	n, _ := fmt.Sscanf(sql, format, &t.Precision, &t.Scale) // an error means fewer than two numbers
	if n < 2 || t.Precision > 38 || t.Scale < 0 || t.Scale > t.Precision {
		return nil, false
	}
	return &t, true
}
