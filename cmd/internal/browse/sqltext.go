package browse

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ident quotes a name.
func ident(dialect, name string) string {
	quote := `"`
	if dialect == mysql {
		quote = "`"
	}
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}

// Select returns a statement that reads the first rows of a table.
func Select(dialect, table string) string {
	return fmt.Sprintf("SELECT *\nFROM %s\nLIMIT %d", ident(dialect, table), DefaultRows)
}

// text returns an expression for a text. The expression has only the hexadecimal digits of the text, so no text can end
// it, under any setting of a server.
func text(dialect, s string) string {
	digits := hex.EncodeToString([]byte(s))
	switch dialect {
	case postgres:
		return "pg_catalog.convert_from(pg_catalog.decode('" + digits + "', 'hex'), 'UTF8')"
	case mysql:
		return "CONVERT(x'" + digits + "' USING utf8mb4)"
	case sqlite:
		return "CAST(x'" + digits + "' AS TEXT)"
	}
	return "decode(unhex('" + digits + "'))"
}

// asText converts an expression to text.
func asText(dialect, expr string) string {
	if dialect == mysql {
		return "CAST(" + expr + " AS CHAR)"
	}
	return "CAST(" + expr + " AS TEXT)"
}

// shownText is how many characters of a text are read for a page.
const shownText = 300

// shown returns the expression for a column of a page. Long texts are cut.
func shown(dialect string, c Column) string {
	name := ident(dialect, c.Name)
	if kind(c.Type) != kindText {
		return name
	}
	return fmt.Sprintf("substr(%s, 1, %d) AS %s", asText(dialect, name), shownText, name)
}

// The kinds of columns.
const (
	kindNumber = "number"
	kindTime   = "time"
	kindBool   = "bool"
	kindText   = "text" // also JSON and lists
)

// kind returns the kind of a type.
func kind(name string) string {
	name, _, _ = strings.Cut(name, "(")
	switch name {
	case "int64", "int32", "int16", "int8", "float64", "float32", "decimal":
		return kindNumber
	case "date", "timestamp":
		return kindTime
	case "bool":
		return kindBool
	}
	return kindText
}

// Filter selects rows of a table.
type Filter struct{ Column, Operator, Value string }

// Operator is a way to compare a column with a value.
type Operator struct{ Name, Words, sign string }

// Operators returns all operators.
func Operators() []Operator {
	return []Operator{
		{"is", "is", "="}, {"not", "is not", "<>"}, {"contains", "contains", ""}, {"lt", "less than", "<"}, {"le", "at most", "<="},
		{"gt", "greater than", ">"}, {"ge", "at least", ">="}, {"null", "has no value", ""}, {"some", "has a value", ""},
	}
}

// number matches a number as a filter may have it.
var number = regexp.MustCompile(`^-?[0-9]{1,38}(\.[0-9]{1,38})?$`)

// where returns the condition of filters. All names of columns must be in the list.
func where(dialect string, columns []Column, filters []Filter) (string, error) {
	var all []string
	for _, f := range filters {
		i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == f.Column })
		j := slices.IndexFunc(Operators(), func(o Operator) bool { return o.Name == f.Operator })
		if i < 0 || j < 0 {
			return "", fmt.Errorf("filter by %s: the table has no such column, or there is no operator %q", f.Column, f.Operator)
		}
		condition, err := compare(dialect, columns[i], Operators()[j], f.Value)
		if err != nil {
			return "", err
		}
		all = append(all, condition)
	}
	if all == nil {
		return "", nil
	}
	return " WHERE " + strings.Join(all, " AND "), nil
}

// compare returns the condition of one filter. Times, JSON and lists are compared as texts, such as 2026-03-01 12:00:00.
func compare(dialect string, c Column, o Operator, value string) (string, error) {
	name := ident(dialect, c.Name)
	words := asText(dialect, name)
	switch {
	case o.Name == "null":
		return name + " IS NULL", nil
	case o.Name == "some":
		return name + " IS NOT NULL", nil
	case o.Name == "contains" && dialect == postgres:
		return "pg_catalog.strpos(" + words + ", " + text(dialect, value) + ") > 0", nil
	case o.Name == "contains":
		return "instr(" + words + ", " + text(dialect, value) + ") > 0", nil
	}
	switch kind(c.Type) {
	case kindNumber:
		if !number.MatchString(value) {
			return "", fmt.Errorf("filter by %s: %q is not a number", c.Name, value)
		}
		return name + " " + o.sign + " " + value, nil
	case kindBool:
		if value != "true" && value != "false" {
			return "", fmt.Errorf("filter by %s: want true or false, not %q", c.Name, value)
		}
		return name + " " + o.sign + " " + value, nil
	}
	return words + " " + o.sign + " " + text(dialect, value), nil
}
