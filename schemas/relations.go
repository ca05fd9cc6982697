package schemas

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed relations/relations.yaml
var relationsFile []byte

// Relations says which tables the columns of other tables refer to, and which values a column has.
type Relations struct {
	Relations []struct {
		To      []string // tables, the preferred one first; empty: none, or unknown
		Columns []string // patterns: TABLE.COLUMN
	}
	Values []struct {
		Columns []string // patterns: TABLE.COLUMN
		Values  []string
	}
}

// LoadRelations returns the embedded relations.
func LoadRelations() (Relations, error) {
	var r Relations
	if err := decode(relationsFile, &r); err != nil {
		return r, errors.Join(inFile("relations/relations.yaml", err)...)
	}
	var patterns []string
	for _, rule := range r.Relations {
		patterns = append(patterns, rule.Columns...)
	}
	for _, rule := range r.Values {
		if patterns = append(patterns, rule.Columns...); len(rule.Values) == 0 {
			return r, fmt.Errorf("relations.yaml: %v: no values", rule.Columns)
		}
	}
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || strings.Count(p, ".") != 1 {
			return r, fmt.Errorf("relations.yaml: pattern %q: want TABLE.COLUMN", p)
		}
	}
	return r, nil
}

// Targets returns the tables that a column may refer to, the preferred one first.
func (r Relations) Targets(table, column string) []string {
	name := table + "." + innermost(column)
	for _, rule := range r.Relations {
		if slices.ContainsFunc(rule.Columns, func(p string) bool { return matches(p, name) }) {
			return rule.To
		}
	}
	return nil
}

// AcceptedValues returns the values that a column has, and nil if they are not known.
func (r Relations) AcceptedValues(table, column string) []string {
	name := table + "." + column
	for _, rule := range r.Values {
		if slices.ContainsFunc(rule.Columns, func(p string) bool { return matches(p, name) }) {
			return rule.Values
		}
	}
	return nil
}

// innermost returns the last part of a nested column name: customer_id for invoice__customer_id, and also for
// customer__id, because a nested record has its id.
func innermost(column string) string {
	parts := strings.Split(column, "__")
	last := len(parts) - 1
	if parts[last] == "id" && last > 0 {
		return parts[last-1] + "_id"
	}
	return parts[last]
}
