package sqlmerge

import (
	"fmt"
	"strconv"
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

// Definition returns the definition of a column.
func Definition(d Dialect, name string, t arrow.DataType) string {
	return Ident(name) + " " + d.Type(t)
}

// concat returns an expression for the concatenation of texts that are not null. The expression is nested like a
// balanced tree, because databases limit the depth of an expression and the number of a function's arguments.
func concat(parts []string) string {
	if len(parts) <= 8 {
		return "(" + strings.Join(parts, " || ") + ")"
	}
	half := len(parts) / 2
	return "(" + concat(parts[:half]) + " || " + concat(parts[half:]) + ")"
}

// keyColumns returns the names of the key columns k0, k1… of a temporary table. Each name begins with the prefix.
func keyColumns(prefix string, key []string) []string {
	out := make([]string, len(key))
	for i := range key {
		out[i] = fmt.Sprintf("%sk%d", prefix, i)
	}
	return out
}

// asKeys returns SQL that selects the columns of a key as k0, k1…. The prefix is put before the column names.
func asKeys(prefix string, key []string) string {
	out := make([]string, len(key))
	for i, k := range key {
		out[i] = fmt.Sprintf("%s%s AS k%d", prefix, Ident(k), i)
	}
	return strings.Join(out, ", ")
}

// The function on() returns the condition that a row of the table with the given alias and a row of t have the same
// key. In the first table, the key columns are k0, k1…. In t, they have the given names.
func on(alias string, key []string) string {
	and := make([]string, len(key))
	for i, k := range key {
		and[i] = fmt.Sprintf("%s.k%d = t.%s", alias, i, Ident(k))
	}
	return strings.Join(and, " AND ")
}

// The function equal() returns the condition that a row of one table and a row of another table have the same key. The
// parameters a and b are the aliases of the two tables, which both have the key columns k0, k1….
func equal(a, b string, key []string) string {
	and := make([]string, len(key))
	for i := range key {
		and[i] = fmt.Sprintf("%s.k%d = %s.k%d", a, i, b, i)
	}
	return strings.Join(and, " AND ")
}

// KeyedRows describes a query for the last row of each key. The last row has the highest [schemas.ColOrdinal].
type KeyedRows struct {
	From    string // a FROM item
	Key     []string
	Columns []Column // other columns of the result
}

// Column is a column of a query.
type Column struct {
	Value string // name of a column, or NULL
	Name  string
}

// LastRows returns a query for the last row of each key. The columns of the query are the key (k0, k1…), the ordinal o,
// and the other columns. The function latest() returns an expression for the value of a column. This expression takes
// the value from the row with the greatest ordinal in its group.
func LastRows(r KeyedRows, latest func(column string) string) string {
	group := make([]string, len(r.Key))
	for i := range r.Key {
		group[i] = strconv.Itoa(i + 1) // by position: a source column may have the name of an alias
	}
	others := ""
	for _, c := range r.Columns {
		value := c.Value
		if value != "NULL" {
			value = latest(value)
		}
		others += ", " + value + " AS " + c.Name
	}
	return fmt.Sprintf("SELECT %s, max(%s) AS o%s FROM %s AS r GROUP BY %s", asKeys("", r.Key), schemas.ColOrdinal, others, r.From, strings.Join(group, ", "))
}

// NumberedRows returns a query with the same result as the query of LastRows. The query numbers the rows of each key,
// and does not group them.
func NumberedRows(r KeyedRows) string {
	names, columns := append(keyColumns("", r.Key), "o"), asKeys("", r.Key)+", "+schemas.ColOrdinal+" AS o"
	for _, c := range r.Columns {
		names, columns = append(names, c.Name), columns+", "+c.Value+" AS "+c.Name
	}
	return fmt.Sprintf("SELECT %s FROM (SELECT %s, row_number() OVER (PARTITION BY %s ORDER BY %s DESC) AS i FROM %s AS r) AS r WHERE i = 1",
		strings.Join(names, ", "), columns, Idents(r.Key), schemas.ColOrdinal, r.From)
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

// Spellings returns expressions for the forms that a key's value may have in links. A text that looks like a number or
// a boolean may have been a number or a boolean before its column was widened. The last argument is an SQL condition:
// the text looks like a number or a boolean.
func Spellings(d Dialect, expr string, t arrow.DataType, bare string) []string {
	text := KeyText(d, expr, t)
	if !schemas.SameType(t, schemas.Text) {
		return []string{text}
	}
	return []string{text, "CASE WHEN " + bare + " THEN " + expr + " END"}
}

// JSONText returns an expression for the JSON text of the value expr, which has type t. The text of a JSON column may
// be invalid JSON. Then the result is this text as a JSON string.
func JSONText(d Dialect, expr string, t arrow.DataType) string {
	if !schemas.SameType(t, schemas.JSON) {
		return d.Cast(expr, t, schemas.JSON)
	}
	return "CASE WHEN json_valid(" + expr + ") THEN " + expr + " ELSE " + d.Cast(expr, schemas.Text, schemas.JSON) + " END"
}

// asJSON returns an expression that stores the JSON text expr in one of penstock's own tables.
func (t Traits) asJSON(expr string) string {
	if t.JSON == "" {
		return expr
	}
	return "CAST(" + expr + " AS " + t.JSON + ")"
}

// sameName reports whether two names mean the same table or column.
func (t Traits) sameName(a, b string) bool { return a == b || !t.ExactNames && strings.EqualFold(a, b) }

// The constant all is a condition that is true for each row. It does not use the word true, because a column may have
// this name.
const all = "1 = 1"

// rowsSQL returns a FROM item for the rows of a table (alias t), and a WHERE clause that the caller can
// extend. If the table is shared, these are only the rows of the source. The item has no subquery, because SQLite
// renames the columns true and false of a subquery.
func rowsSQL(d Dialect, t schemas.Table, source string) string {
	if source == "" || !load.Shared(t.Columns) {
		return d.Place(t.Name) + " AS t WHERE " + all
	}
	return d.Place(t.Name) + " AS t WHERE t." + schemas.ColSource + " = " + d.Literal(source)
}

// ScalarType returns the Arrow type for the SQL type of a column. It returns false for JSON and lists.
// The last argument is the format of a decimal type, such as NUMERIC(%d,%d), for the precision and the scale.
func ScalarType(d Dialect, sql, decimal string) (arrow.DataType, bool) {
	for _, t := range []arrow.DataType{schemas.Bool, schemas.Int64, schemas.Float64, schemas.Date, schemas.Timestamp, schemas.Text} {
		if d.Type(t) == sql {
			return t, true
		}
	}
	var t arrow.Decimal128Type
	n, _ := fmt.Sscanf(sql, decimal, &t.Precision, &t.Scale) // an error means fewer than two numbers
	if n < 2 || t.Precision > 38 || t.Scale < 0 || t.Scale > t.Precision {
		return nil, false
	}
	return &t, true
}

// countIf returns an expression for the number of rows for which a condition holds.
func countIf(condition string) string { return "count(CASE WHEN " + condition + " THEN 1 END)" }
