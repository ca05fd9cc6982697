package sqlmerge

import (
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// LateKey reports whether a new table gets its primary key only after rows were inserted. This is the case for a child
// table: no insertion relies on its key, because the key of the root table finds rows that arrive twice. If many sources
// share a table, one source could not add the key while another source writes.
func LateKey(t schemas.Table) bool {
	return OneRowPerKey(t) && load.Child(t.Columns) && !t.Columns.HasField(schemas.ColSource)
}

// addKeys adds the primary keys that the given child tables lack. They have none while all rows of a first load are
// inserted uncompared, which makes the load faster. If a reader blocks a table, its key is added in a later transaction.
func (m *merge) addKeys(children []*target) error {
	for _, c := range children {
		if !c.lacksKey || !LateKey(c.Table) { // the mode may have changed since the catalog was read
			continue
		}
		if err := m.sql.step("key"); err != nil {
			return err
		}
		if err := m.sql.Session.(Keyed).AddKey(m.sql.ctx, c.Table); err != nil {
			return fmt.Errorf("add the primary key of %s: %w", c.Name, err)
		}
		c.lacksKey = false
	}
	return nil
}
