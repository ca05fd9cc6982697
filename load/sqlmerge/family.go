package sqlmerge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// targets are tables by name: those that an Apply writes to or sweeps, and their child tables.
type targets map[string]*target

// children returns the tables whose rows belong to rows of t, sorted by name.
func (all targets) children(t *target) []*target {
	var out []*target
	for _, c := range all {
		if load.IsChildOf(c.Table, t.Name) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, byName)
	return out
}

func byName(a, b *target) int { return strings.Compare(a.Name, b.Name) }

// rootOf returns the root table of the named table.
func (all targets) rootOf(name string) *target {
	for _, n := range load.Ancestors(name) {
		if t := all[n]; t != nil && !load.Child(t.Columns) {
			return t
		}
	}
	return nil
}

// links returns a query whose column l has the links of the given parent records. It also returns an SQL expression for
// the link in a row of the child table c; in SQL, this row is called t. The last argument is a FROM item for the parent
// records, with the key columns k0, k1…. The query also has the columns in extra.
//
// A link is the value by which a child row refers to its record. If the key is one column, the link is the key itself.
// Otherwise it is the JSON array of the key's values. If a type of the key was widened, older links keep the format of
// the old type.
func (t *target) links(c *target, extra, records string) (query, link string) {
	link = "t." + load.RootKeyColumn(c.Columns)
	if len(t.Key) == 1 {
		from, to := load.TypeOf(t.Columns, t.Key[0]), load.TypeOf(c.Columns, load.RootKeyColumn(c.Columns))
		wide := schemas.Join(from, to)
		return "SELECT " + t.in.Cast("k0", from, wide) + " AS l" + extra + " FROM " + records, t.in.Cast(link, to, wide)
	}
	links := linkForms(t)
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

// linkForms returns expressions for the JSON array of the key k0, k1…. Child rows may have each value of the key in
// several spellings; see [Dialect].Spellings. There is one expression for each combination of these spellings.
func linkForms(t *target) []string {
	links := []string{"'['"}
	for i, k := range t.Key {
		comma := " || ',' || "
		if i == 0 {
			comma = " || "
		}
		var longer []string
		for _, value := range t.in.Spellings(fmt.Sprintf("k%d", i), load.TypeOf(t.Columns, k)) {
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

// FindColumns returns the columns of the index with which penstock finds rows. In a child table, this is the column that
// links a row to its record. In other tables, it is the key, or the hash if there is no key. Most of penstock's own
// tables without a key get an index too, because they may have millions of rows. In a shared table, the source is the
// first column. If a table needs no index, FindColumns returns no columns.
func FindColumns(t schemas.Table) []string {
	columns := load.FullKey(t)
	switch {
	case load.Child(t.Columns):
		columns = []string{load.RootKeyColumn(t.Columns)}
	case len(columns) > 0:
	case load.IsInternal(t.Name):
		columns = ownFindColumns(t.Name)
	case t.Columns.HasField(schemas.ColHash):
		columns = []string{schemas.ColHash}
	}
	if len(columns) > 0 && load.Shared(t.Columns) && columns[0] != schemas.ColSource {
		columns = append([]string{schemas.ColSource}, columns...)
	}
	return columns
}

// ownFindColumns returns the columns of the index of one of penstock's own tables that has no key. A survey looks for the
// newest certificates of each stream, and a check for its last result. [Store.Trim] looks for old rows. The table
// [load.Changes] has few rows, so it has no index.
func ownFindColumns(table string) []string {
	switch table {
	case load.Certificates.Name:
		return []string{"pipeline", "stream", "run"}
	case load.Checks.Name:
		return []string{"pipeline", "stream", "at"}
	case load.RowChanges.Name:
		return []string{"pipeline", "at"}
	case load.Events.Name:
		return []string{"source", "received_at"}
	}
	return nil
}
