package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// children returns the tables whose rows belong to rows of t.
func (m *merge) children(t *target) []*target {
	var out []*target
	for _, c := range m.tables {
		if load.IsChildOf(c.Table, t.Name) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *target) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// linkOf returns two SQL expressions: one for a record whose key is in the columns k0, k1…, and one for a row of the
// child table c. They are equal if the row belongs to the record. A link is the value of the key if the key is one
// column. Otherwise it is the JSON array of the key's values. If the type of a key column was widened, older links
// keep the form of the old type.
func (m *merge) linkOf(t, c *target) (key, link string) {
	column := load.RootKeyColumn(c.Columns)
	link = "t." + ident(column)
	if len(t.Key) == 1 {
		from, to := load.TypeOf(t.Columns, t.Key[0]), load.TypeOf(c.Columns, column)
		wide := schemas.Join(from, to)
		return m.db.cast("k0", from, wide), m.db.cast(link, to, wide)
	}
	var forms [][]string
	for i, k := range t.Key {
		forms = append(forms, spellings(fmt.Sprintf("k%d", i), load.TypeOf(t.Columns, k)))
	}
	links := sqlmerge.Links(forms)
	if len(links) == 1 {
		return links[0], link
	}
	return "pg_catalog.unnest(ARRAY[" + strings.Join(links, ", ") + "])", link
}

// spellings returns the forms that a value of a key may have in links. A text that looks like a number or a boolean
// may have been one before the column was widened. A text of the key cannot contain a zero byte, so \u0000 stands for
// it. In a link, the zero byte is written as in JSON.
func spellings(expr string, t arrow.DataType) []string {
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

// insertChildren copies the child rows of the records whose ordinals are in subset.
func (m *merge) insertChildren(t *target, subset *ordinals) error {
	if err := m.db.step("children"); err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.rowsStaged() == 0 {
			continue
		}
		if err := m.insert(c, subset); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// clearHashes calls [sqlmerge.Family.ClearHashes] for the root table of a table and its child tables.
func (m *merge) clearHashes(table, condition string) error {
	t := m.rootOf(table)
	if t == nil {
		return nil
	}
	f := sqlmerge.Family{Root: t.Table, Place: m.db.place, Change: func(_, statement string) error { return m.s.run(m.ctx, statement) }}
	for _, c := range m.children(t) {
		f.Children = append(f.Children, c.Table)
	}
	return f.ClearHashes(table, condition)
}

// repairFamily repairs a root table and its child tables after t was dropped by hand. If t is the root table, the
// rows of the child tables are deleted. If t is a child table, the hashes of the records are cleared, so that the
// records are written again.
func (m *merge) repairFamily(t *target) error {
	if !m.dropped[t.Name] || load.IsInternal(t.Name) {
		return nil
	}
	if load.Child(t.Columns) {
		return m.clearHashes(t.Name, "")
	}
	for _, hanging := range m.children(t) {
		if hanging.made {
			continue
		}
		if err := m.s.run(m.ctx, "DELETE FROM "+m.db.place(hanging.Name)); err != nil {
			return fmt.Errorf("children %s: %w", hanging.Name, err)
		}
	}
	return nil
}

// rootOf returns the root table of the named table.
func (m *merge) rootOf(name string) *target {
	for _, n := range load.Ancestors(name) {
		if t := m.tables[n]; t != nil && !load.Child(t.Columns) {
			return t
		}
	}
	return nil
}
