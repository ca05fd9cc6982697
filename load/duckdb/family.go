//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// linkOf returns two expressions: one for a record with the key k0, k1…, and one for a row t of the child table c. They
// are equal if the row belongs to the record. A link is the key if that is one column, otherwise the JSON array of the
// key's values. If a type of the key was widened, older links keep the format of the old type.
func linkOf(t, c *target) (key, link string) {
	link = "t." + load.RootKeyColumn(c.Columns)
	if len(t.Key) == 1 {
		from, to := load.TypeOf(t.Columns, t.Key[0]), load.TypeOf(c.Columns, load.RootKeyColumn(c.Columns))
		wide := schemas.Join(from, to)
		return cast("k0", from, wide), cast(link, to, wide)
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
	return "unnest([" + strings.Join(links, " || ']', ") + " || ']'])", link
}

// spellings returns the forms that a key's value may have in links. A text that looks like a number or a boolean may
// have been one before its column was widened.
func spellings(expr string, t arrow.DataType) []string {
	if !schemas.SameType(t, schemas.Text) {
		return []string{keyText(expr, t)}
	}
	bare := "CASE WHEN regexp_full_match(" + expr + `, '-?[0-9]+(\.[0-9]+)?|true|false') THEN ` + expr + " END"
	return []string{keyText(expr, t), bare}
}

// children returns the tables whose rows belong to rows of t.
func (m *merge) children(t *target) []*target {
	var out []*target
	for _, c := range m.tables {
		if load.IsChildOf(c.Table, t.Name) {
			out = append(out, c)
		}
	}
	return out
}

// repairFamily repairs a root table and its child tables after one of them was dropped by hand. If the root was
// dropped, it deletes the rows of the children. If a child was dropped, it clears the hashes of the records, so that
// they are written again.
func (m *merge) repairFamily(c *catalog, t *target) error {
	if _, dropped := c.made[t.Name]; !dropped || !t.empty || load.IsInternal(t.Name) {
		return nil
	}
	if load.Child(t.Columns) {
		return m.clearHashes(t.Name, "true")
	}
	for _, hanging := range m.children(t) {
		if err := m.change(m.ctx, hanging.Name, "DELETE FROM "+place(hanging.Name)); err != nil {
			return fmt.Errorf("children %s: %w", hanging.Name, err)
		}
	}
	return nil
}
