package sqlmerge

import (
	"fmt"
	"strings"
)

// maxListed is the number of rows up to which keys are written into a statement. SQLite limits the depth of an expression
// to 1,000.
const maxListed = 100

// replaceListed writes a few rows to one of penstock's own tables, in place of those with the same keys. It takes two
// statements, instead of the ten of keyed. It returns false, and does nothing, if keyed must write the rows: if there are
// many, if two have the same key, or if users have added columns to the table.
func (m *merge) replaceListed(t *target) (done bool, err error) {
	if t.staged.Rows > maxListed || len(t.userColumns) > 0 {
		return false, nil
	}
	keys := map[string]bool{}
	var listed []string
	err = StagedColumns(t.staged, t.Columns, t.Key, "").Each(m.ctx, func(values []any) error {
		and := make([]string, len(values))
		for i, v := range values {
			and[i] = "t." + Ident(t.Key[i]) + " = " + m.b.Literal(fmt.Sprint(v)) // the keys of these tables are texts
		}
		key := strings.Join(and, " AND ")
		keys[key], listed = true, append(listed, "("+key+")")
		return nil
	})
	if err != nil || len(keys) < len(listed) {
		return false, err
	}
	if !t.empty {
		q := "DELETE FROM " + m.b.Place(t.Name) + " AS t WHERE (" + strings.Join(listed, " OR ") + ")" + m.ownRowsSQL(t, "t.")
		if err := m.change(t.Name, q); err != nil {
			return false, err
		}
	}
	return true, m.s.Insert(m.ctx, Insertion{Table: t.Table, Staged: t.staged})
}
