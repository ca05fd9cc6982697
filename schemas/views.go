package schemas

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

//go:embed views/*.yaml
var viewFiles embed.FS

// View is a question that many workspaces have. One SELECT over the current rows answers it.
type View struct {
	Name  string                     // name of the file, without .yaml
	Title string                     // the question
	Needs map[string]map[string]Kind // columns that the SELECT reads, by table and name
	SQL   string                     // SELECT for both DuckDB and Postgres; {table} stands for the current rows of a table
}

// Kind is what a view requires of a column's type. A workspace can use the view if its columns are of these kinds.
type Kind string

// The kinds of columns.
const (
	KindAny       Kind = "any"
	KindText      Kind = "text"
	KindNumber    Kind = "number"
	KindDate      Kind = "date"
	KindTimestamp Kind = "timestamp"
)

// Fits reports whether a column of type t is of kind k.
func (k Kind) Fits(t arrow.DataType) bool {
	switch k {
	case KindText:
		return SameType(t, Text)
	case KindNumber:
		return arrow.IsInteger(t.ID()) || arrow.IsDecimal(t.ID())
	case KindDate:
		return t.ID() == arrow.DATE32
	case KindTimestamp:
		return t.ID() == arrow.TIMESTAMP
	}
	return k == KindAny
}

// LoadViews returns the embedded views, by name.
func LoadViews() ([]View, error) { return loadViews(viewFiles) }

func loadViews(fsys fs.FS) ([]View, error) {
	names, err := fs.Glob(fsys, "views/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list views: %w", err)
	}
	var views []View
	var faults []error
	for _, name := range names {
		v, err := readView(fsys, name)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
		views = append(views, v)
	}
	return views, errors.Join(faults...)
}

func readView(fsys fs.FS, name string) (View, error) {
	v := View{Name: strings.TrimSuffix(strings.TrimPrefix(name, "views/"), ".yaml")}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return v, err
	}
	var file struct {
		Title string
		Needs map[string]map[string]Kind
		SQL   string
	}
	if err := decode(data, &file); err != nil {
		return v, err
	}
	v.Title, v.Needs, v.SQL = file.Title, file.Needs, strings.TrimSpace(file.SQL)
	return v, v.validate()
}

var viewTable = regexp.MustCompile(`\{([a-z][a-z0-9_]*)\}`)

func (v View) validate() error {
	if v.Title == "" || v.SQL == "" {
		return errors.New("title or sql is missing")
	}
	used := map[string]bool{}
	for _, m := range viewTable.FindAllStringSubmatch(v.SQL, -1) {
		if used[m[1]] = true; v.Needs[m[1]] == nil {
			return fmt.Errorf("sql reads {%s}, which is not among needs", m[1])
		}
	}
	for table, columns := range v.Needs {
		if !used[table] || len(columns) == 0 {
			return fmt.Errorf("needs %s, which sql does not read", table)
		}
		for column, k := range columns {
			if !slices.Contains([]Kind{KindAny, KindText, KindNumber, KindDate, KindTimestamp}, k) {
				return fmt.Errorf("needs %s.%s of kind %q", table, column, k)
			}
		}
	}
	return nil
}

// Lacks returns the tables and columns that the view needs and the workspace does not have, sorted.
func (v View) Lacks(tables map[string]Table) []string {
	var lacks []string
	for table, columns := range v.Needs {
		t, ok := tables[table]
		if !ok {
			lacks = append(lacks, "table "+table)
			continue
		}
		for column, k := range columns {
			switch i := t.Columns.FieldIndices(column); {
			case len(i) == 0:
				lacks = append(lacks, fmt.Sprintf("column %s.%s", table, column))
			case !k.Fits(TypeOf(t.Columns.Field(i[0]))):
				lacks = append(lacks, fmt.Sprintf("column %s.%s of kind %s (it is %s)", table, column, k, TypeName(TypeOf(t.Columns.Field(i[0])))))
			}
		}
	}
	slices.Sort(lacks)
	return lacks
}

// Query returns the view's SELECT. It reads only the current rows and the needed columns of each table. The parameter
// schema is the database schema of the tables, or "".
//
// If several sources share the tables, equal ids of two sources are two records. So the view is computed for each
// source separately, and the first column names the source.
func (v View) Query(schema string, tables map[string]Table) string {
	owner := ""
	if at := viewTable.FindStringSubmatch(v.SQL); at != nil && sharedTable(tables[at[1]]) {
		owner = at[1]
	}
	query := viewTable.ReplaceAllStringFunc(v.SQL, func(place string) string {
		name := place[1 : len(place)-1]
		return currentRows(schema, tables[name], v.Needs[name], owner != "")
	})
	if owner == "" {
		return query
	}
	return "SELECT * FROM (SELECT DISTINCT " + quote(ColSource) + " FROM " + quoteIn(schema, tables[owner].Name) + ") penstock_of CROSS JOIN LATERAL (" + query + ") penstock_one"
}

func sharedTable(t Table) bool { return t.Columns != nil && t.Columns.HasField(ColSource) }

// currentRows returns a subquery of the current rows of a table. If several sources share the table, the subquery
// returns the rows of the source that the outer query names.
func currentRows(schema string, t Table, needs map[string]Kind, shared bool) string {
	var columns []string
	for name := range needs {
		columns = append(columns, quote(name))
	}
	slices.Sort(columns)
	list, from, alive := strings.Join(columns, ", "), quoteIn(schema, t.Name), quote(ColDeletedAt)+" IS NULL"
	ours, owner := "", ""
	if shared {
		ours, owner = " AND "+quote(ColSource)+" = penstock_of."+quote(ColSource), quote(ColSource)+", "
	}
	switch {
	case t.Mode == History:
		alive = quote(ColValidTo) + " IS NULL"
	case t.Mode == Append && len(t.Key) > 0:
		var key []string
		for _, k := range t.Key {
			key = append(key, quote(k))
		}
		from = fmt.Sprintf("(SELECT %s%s, row_number() OVER (PARTITION BY %s%s ORDER BY %s DESC, %s DESC) AS penstock_newest FROM %s) v",
			owner, list, owner, strings.Join(key, ", "), quote(ColRun), quote(ColSyncedAt), from)
		alive = "penstock_newest = 1"
	}
	return "(SELECT " + list + " FROM " + from + " WHERE " + alive + ours + ")"
}

func quoteIn(schema, table string) string {
	if schema == "" {
		return quote(table)
	}
	return quote(schema) + "." + quote(table)
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
