package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// children are the tables whose rows hang from those of t.
func (m *merge) children(t *target) []*target {
	var out []*target
	for _, c := range m.tables {
		if load.Hangs(c.Table, t.Name) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *target) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// linkOf are two expressions that are equal where a row of the children c, called
// t, hangs from a record: one over the k0, k1… of the record, and one over the
// row. The link is the key where that is one column, else the JSON array of its
// values. Where a type of the key has grown since, links that were written
// before stand as they were then.
func (m *merge) linkOf(t, c *target) (key, link string) {
	column := load.Link(c.Columns)
	link = "t." + ident(column)
	if len(t.Key) == 1 {
		from, to := load.TypeOf(t.Columns, t.Key[0]), load.TypeOf(c.Columns, column)
		wide := schemas.Join(from, to)
		return m.db.cast("k0", from, wide), m.db.cast(link, to, wide)
	}
	links := []string{"'['"}
	for i, k := range t.Key {
		comma := " || ',' || "
		if i == 0 {
			comma = " || "
		}
		var longer []string
		for _, value := range spellings(fmt.Sprintf("k%d", i), load.TypeOf(t.Columns, k)) {
			for _, l := range links {
				longer = append(longer, l+comma+value)
			}
		}
		links = longer
	}
	if len(links) == 1 {
		return links[0] + " || ']'", link
	}
	return "pg_catalog.unnest(ARRAY[" + strings.Join(links, " || ']', ") + " || ']'])", link
}

// spellings are the ways in which the value of a key may stand in links: a text
// that looks like a number or a truth may have been one, and what stands for a
// zero byte stands there as JSON has it.
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

// insertChildren copies what hangs from the records that were written.
func (m *merge) insertChildren(t *target, only *ordinals) error {
	if err := m.db.step("children"); err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.rowsStaged() == 0 {
			continue
		}
		if err := m.insert(c, only); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// forget clears the hashes of the records with a row for which the condition
// holds, in their own table or in that of children, so that they are written
// again.
func (m *merge) forget(table, where string) error {
	root := rootOf(table)
	t := m.tables[root]
	if t == nil || !t.has(schemas.ColHash) {
		return nil
	}
	hash := ident(schemas.ColHash)
	if root != table && where != "true" {
		where = fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s)", hash, hash, m.db.place(table), where)
	}
	stands := ""
	if t.Mode == schemas.History {
		stands = " AND " + t.ended() + " IS NULL"
	}
	if err := m.s.run(m.ctx, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %s%s", m.db.place(root), hash, where, stands)); err != nil {
		return fmt.Errorf("clear hashes of %s: %w", root, err)
	}
	if len(t.Key) > 0 {
		return nil
	}
	for _, c := range m.children(t) { // they are found by the hash alone
		err := m.s.run(m.ctx, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %[2]s NOT IN (SELECT %[2]s FROM %[3]s)%[4]s",
			m.db.place(c.Name), hash, m.db.place(root), stands))
		if err != nil {
			return fmt.Errorf("clear hashes of %s: %w", c.Name, err)
		}
	}
	return nil
}

// reunite does what is to be done where somebody has dropped one table of a
// family: what hung from its rows goes with them, and rows that have lost what
// hung from them are written again.
func (m *merge) reunite(t *target) error {
	if !m.dropped[t.Name] || load.IsInternal(t.Name) {
		return nil
	}
	if load.Child(t.Columns) {
		return m.forget(t.Name, "true")
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

// rootOf is the root table of a family.
func rootOf(table string) string {
	root, _, _ := strings.Cut(table, "__")
	return root
}

// forgetAll clears the hashes of all records of the family of a table.
func (m *merge) forgetAll(table string) error {
	root := rootOf(table)
	if m.tables[root] == nil {
		return nil
	}
	return m.forget(root, "true")
}
