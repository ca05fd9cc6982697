package dbt

import (
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

// describeTable returns sentences that say what a table is.
func describeTable(t render.TableDoc) string {
	var b strings.Builder
	if t.Of.Description != "" && t.Parent == "" {
		b.WriteString(strings.TrimSuffix(t.Of.Description, ".") + ". ")
	}
	if t.Parent != "" {
		fmt.Fprintf(&b, "The list %s in each row of %s", t.Place, t.Parent)
	} else {
		fmt.Fprintf(&b, "Stream %s", t.Stream)
	}
	fmt.Fprintf(&b, ", %s.", t.Request)
	return plain(b.String())
}

// describe says what a column means. If nothing is known but the column's name, the result is empty.
func (p *project) describe(t render.TableDoc, c render.ColumnDoc) string {
	var parts []string
	if schemas.Meaning(c.Name) != "" {
		return "{{ doc('" + strings.TrimPrefix(c.Name, "_") + "') }}"
	}
	if c.Description != "" {
		parts = append(parts, strings.TrimSuffix(c.Description, "."))
	}
	target, ok := p.target(t, c)
	switch {
	case ok:
		parts = append(parts, fmt.Sprintf("%s of a row in %s", upperFirst(ownKey(target)), target.Name))
	case c.Key && t.Parent == "":
		parts = append(parts, "Key of the record")
	case len(parts) == 0 && strings.HasPrefix(c.Source, "/_context/"):
		parts = append(parts, upperFirst(c.Meaning))
	case len(parts) == 0 && "/"+c.Name != c.Source && "/"+strings.ReplaceAll(c.Name, "__", "/") != c.Source:
		parts = append(parts, "Field "+c.Source)
	}
	if c.Type == "json" {
		parts = append(parts, "JSON: the field has a list, an object, or values of several types")
	}
	if values := p.relations.AcceptedValues(t.Name, c.Name); values != nil {
		parts = append(parts, "One of: "+strings.Join(values, ", "))
	}
	if c.Mask != "" {
		parts = append(parts, "Masked: "+c.Mask)
	}
	if len(parts) == 0 {
		return ""
	}
	return plain(strings.Join(parts, ". ") + ".")
}

// plain returns a text in which dbt finds no template.
func plain(s string) string {
	return strings.NewReplacer("{{", "{ {", "{%", "{ %", "{#", "{ #").Replace(s)
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// stored returns the SQL type of a column in the destination.
func (p *project) stored(name string) string {
	if name == "json" && !p.postgres() {
		return "varchar"
	}
	return p.staged(name)
}

// staged returns the SQL type of a column in its staging model.
func (p *project) staged(name string) string {
	if elem, ok := strings.CutPrefix(name, "list("); ok {
		return p.staged(strings.TrimSuffix(elem, ")")) + "[]"
	}
	switch name {
	case "int64":
		return "bigint"
	case "float64":
		return "double precision"
	case "timestamp":
		return "timestamptz"
	case "bool":
		return "boolean"
	case "json":
		if p.postgres() {
			return "jsonb"
		}
	}
	return strings.Replace(name, "decimal", "numeric", 1)
}
