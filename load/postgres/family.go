package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
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

// linkOf returns two expressions, one for a record with the key k0, k1…, and one for a row of the child table c. They
// are equal if the row belongs to the record. A link is the key if that is one column, otherwise the JSON array of
// the key's values. If the type of a key column was widened, older links keep the format of the old type.
func (m *merge) linkOf(t, c *target) (key, link string) {
	column := load.RootKeyColumn(c.Columns)
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

// spellings returns the forms that a value of a key may have in links. A text that looks like a number or a boolean
// may have been one before the column was widened. In a link, a zero byte is replaced as in JSON.
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

// insertChildren copies the child rows of the records that were written.
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

// clearHashes clears the hashes of records, so that the next pass writes these records again. It finds the records by
// their rows in the given root or child table for which the condition holds.
func (m *merge) clearHashes(table, where string) error {
	root := rootOf(table)
	t := m.tables[root]
	if t == nil || !t.has(schemas.ColHash) {
		return nil
	}
	hash := ident(schemas.ColHash)
	if root != table && where != "true" {
		where = fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s)", hash, hash, m.db.place(table), where)
	}
	live := ""
	if t.Mode == schemas.History {
		live = " AND " + t.ended() + " IS NULL"
	}
	if err := m.s.run(m.ctx, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %s%s", m.db.place(root), hash, where, live)); err != nil {
		return fmt.Errorf("clear hashes of %s: %w", root, err)
	}
	if len(t.Key) > 0 {
		return nil
	}
	for _, c := range m.children(t) { // their rows are linked to the records by the hash
		err := m.s.run(m.ctx, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %[2]s NOT IN (SELECT %[2]s FROM %[3]s)%[4]s",
			m.db.place(c.Name), hash, m.db.place(root), live))
		if err != nil {
			return fmt.Errorf("clear hashes of %s: %w", c.Name, err)
		}
	}
	return nil
}

// repairFamily repairs a root table and its child tables after one of them was dropped by hand. If the root table was
// dropped, it deletes the rows of the child tables. If a child table was dropped, it clears the hashes of the
// records, so that they are written again.
func (m *merge) repairFamily(t *target) error {
	if !m.dropped[t.Name] || load.IsInternal(t.Name) {
		return nil
	}
	if load.Child(t.Columns) {
		return m.clearHashes(t.Name, "true")
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

// rootOf returns the name of a table's root table.
func rootOf(table string) string {
	root, _, _ := strings.Cut(table, "__")
	return root
}

// clearAllHashes clears the hashes of all records of a table's root table.
func (m *merge) clearAllHashes(table string) error {
	root := rootOf(table)
	if m.tables[root] == nil {
		return nil
	}
	return m.clearHashes(root, "true")
}
