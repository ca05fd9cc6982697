package sqlmerge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// linksOf returns a query for the links l of child rows in the table c, and the expression for the link of a row t of
// c. The rows belong to the records that a temporary table selects, whose key columns are k0, k1…. The query also has
// the columns in extra. A link is the key if that is one column, otherwise the JSON array of the key's values. If a
// type of the key was widened, older links keep the format of the old type.
func (m *merge) linksOf(t, c *target, extra, records string) (query, link string) {
	link = "t." + load.RootKeyColumn(c.Columns)
	if len(t.Key) == 1 {
		from, to := load.TypeOf(t.Columns, t.Key[0]), load.TypeOf(c.Columns, load.RootKeyColumn(c.Columns))
		wide := schemas.Join(from, to)
		return "SELECT " + m.b.Cast("k0", from, wide) + " AS l" + extra + " FROM " + records, m.b.Cast(link, to, wide)
	}
	var forms [][]string
	for i, k := range t.Key {
		forms = append(forms, m.b.Spellings(fmt.Sprintf("k%d", i), load.TypeOf(t.Columns, k)))
	}
	links := linkForms(forms)
	if len(links) == 1 {
		return "SELECT " + links[0] + " AS l" + extra + " FROM " + records, link
	}
	cases, numbers := "CASE v.v", "" // MySQL can read a temporary table only once
	for i, l := range links {
		cases += fmt.Sprintf(" WHEN %d THEN %s", i, l)
		numbers += fmt.Sprintf(" UNION ALL SELECT %d AS v", i)
	}
	return fmt.Sprintf("SELECT %s END AS l%s FROM (%s) AS v, %s", cases, extra, strings.TrimPrefix(numbers, " UNION ALL "), records), link
}

// linkForms returns expressions for the JSON array of a key's values. The parameter forms has the expressions for the
// forms of each value. The result has an expression for each combination of them.
func linkForms(forms [][]string) []string {
	links := []string{"'['"}
	for i, values := range forms {
		comma := " || ',' || "
		if i == 0 {
			comma = " || "
		}
		var longer []string
		for _, value := range values {
			for _, l := range links {
				longer = append(longer, l+comma+value)
			}
		}
		links = longer
	}
	for i := range links {
		links[i] += " || ']'"
	}
	return links
}

// Spellings returns the forms that a key's value may have in links. A text that looks like a number or a boolean may
// have been one before its column was widened. The parameter bare is the condition that the text expr looks so.
func Spellings(d Dialect, expr string, t arrow.DataType, bare string) []string {
	text := KeyText(d, expr, t)
	if !schemas.SameType(t, schemas.Text) {
		return []string{text}
	}
	return []string{text, "CASE WHEN " + bare + " THEN " + expr + " END"}
}

// children returns the tables whose rows belong to rows of t, sorted by name.
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

// rootOf returns the root table of the named table.
func (m *merge) rootOf(name string) *target {
	for _, n := range load.Ancestors(name) {
		if t := m.tables[n]; t != nil && !load.Child(t.Columns) {
			return t
		}
	}
	return nil
}

// repairFamily repairs a root table and its child tables after one of them was dropped by hand. If the root was
// dropped, it deletes the rows of the children. If a child was dropped, it clears the hashes of the records, so that
// they are written again.
func (m *merge) repairFamily(t *target) error {
	if _, dropped := m.c.made[t.Name]; !dropped || !t.empty || load.IsInternal(t.Name) {
		return nil
	}
	if load.Child(t.Columns) {
		return m.clearHashes(t.Name, "")
	}
	for _, hanging := range m.children(t) {
		if err := m.change(hanging.Name, "DELETE FROM "+m.b.Place(hanging.Name)); err != nil {
			return fmt.Errorf("children %s: %w", hanging.Name, err)
		}
	}
	return nil
}

// clearHashes clears the hashes of records, so that the next pass writes these records again. It finds the records by
// their rows in the named table for which the condition where holds, or by all rows if where is "". In History, only
// current rows are compared with what arrives, so only their hashes are cleared.
func (m *merge) clearHashes(table, where string) error {
	t := m.rootOf(table)
	if t == nil || !t.has(schemas.ColHash) {
		return nil
	}
	switch {
	case where == "":
		where = all
	case t.Name != table:
		where = fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s)", schemas.ColHash, schemas.ColHash, m.b.Place(table), where)
	}
	current := ""
	if t.Mode == schemas.History {
		current = " AND " + t.currentSQL("")
	}
	if err := m.change(t.Name, fmt.Sprintf("UPDATE %s SET %s = '' WHERE (%s)%s", m.b.Place(t.Name), schemas.ColHash, where, current)); err != nil {
		return fmt.Errorf("clear hashes of %s: %w", t.Name, err)
	}
	if len(t.Key) > 0 {
		return nil
	}
	for _, c := range m.children(t) { // their rows are linked to the records by the hash
		err := m.change(c.Name, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %[2]s NOT IN (SELECT %[2]s FROM %[3]s)%[4]s",
			m.b.Place(c.Name), schemas.ColHash, m.b.Place(t.Name), current))
		if err != nil {
			return fmt.Errorf("clear hashes of %s: %w", c.Name, err)
		}
	}
	return nil
}

// FindColumns returns the columns of the index with which a merge finds rows: the key, the record that child rows belong
// to, or the hash. It returns none if a table needs no index.
func FindColumns(t schemas.Table) []string {
	columns := load.FullKey(t)
	switch {
	case load.Child(t.Columns):
		columns = []string{load.RootKeyColumn(t.Columns)}
	case len(columns) > 0:
	case t.Columns.HasField(schemas.ColHash):
		columns = []string{schemas.ColHash}
	default:
		return nil
	}
	if load.Shared(t.Columns) && columns[0] != schemas.ColSource {
		columns = append([]string{schemas.ColSource}, columns...)
	}
	return columns
}
