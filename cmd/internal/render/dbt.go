package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// dbtFile is a sources.yml of dbt.
type dbtFile struct {
	Version int         `yaml:"version"`
	Sources []dbtSource `yaml:"sources"`
}

type dbtSource struct {
	Name        string       `yaml:"name"`
	Description string       `yaml:"description"`
	Schema      string       `yaml:"schema,omitempty"`
	Freshness   dbtFreshness `yaml:"freshness"`
	Tables      []dbtTable   `yaml:"tables"`
}

// dbtMeta says where the files of a lake are, in the form that dbt-duckdb reads.
type dbtMeta struct {
	ExternalLocation string `yaml:"external_location"`
}

type dbtFreshness struct {
	WarnAfter  dbtPeriod `yaml:"warn_after"`
	ErrorAfter dbtPeriod `yaml:"error_after"`
}

type dbtPeriod struct {
	Count  int    `yaml:"count"`
	Period string `yaml:"period"`
}

type dbtTable struct {
	Name          string      `yaml:"name"`
	Description   string      `yaml:"description"`
	Meta          *dbtMeta    `yaml:"meta,omitempty"`
	LoadedAtField string      `yaml:"loaded_at_field,omitempty"`
	Columns       []dbtColumn `yaml:"columns"`
	Tests         []any       `yaml:"tests,omitempty"`
}

type dbtColumn struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	DataType    string `yaml:"data_type"`
	Quote       bool   `yaml:"quote"`
	Tests       []any  `yaml:"tests,omitempty"`
}

// freshness fits a nightly pipeline: one missed night is a warning, two missed nights are an error.
var freshness = dbtFreshness{WarnAfter: dbtPeriod{36, "hour"}, ErrorAfter: dbtPeriod{60, "hour"}}

// WriteDBT writes the tables as dbt sources.
func WriteDBT(w io.Writer, d Dictionary) error {
	src := dbtSource{
		Name:        d.Destination,
		Description: fmt.Sprintf("Loaded by penstock into %s.", d.Destination),
		Schema:      cmp.Or(d.Schema, dbtSchemas[d.Kind]),
		Freshness:   freshness,
	}
	tables := map[string]TableDoc{}
	for _, g := range d.Groups {
		for _, t := range g.Tables {
			tables[t.Name] = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		src.Tables = append(src.Tables, dbtTableOf(src, tables[name], tables))
	}
	if _, err := io.WriteString(w, "# Made by `penstock docs --format dbt`. A table is as fresh as the last complete read of its stream,\n"+
		"# not as the last change of one of its rows.\n"); err != nil {
		return err
	}
	return yaml.NewEncoder(w, yaml.IndentSequence(true)).Encode(dbtFile{Version: 2, Sources: []dbtSource{src}})
}

// dbtSchemas has the default schema of tables, by the kind of destination.
var dbtSchemas = map[string]string{"duckdb": "main", "sqlite": "main", "postgres": "public", "postgresql": "public"}

func dbtTableOf(src dbtSource, t TableDoc, all map[string]TableDoc) dbtTable {
	out := dbtTable{Name: t.Name, Description: describe(t)}
	if t.Files != "" {
		out.Meta = &dbtMeta{ExternalLocation: readFiles(t.Files)}
	}
	if t.Stream != "" {
		own := src.Schema + "." + load.Certificates.Name
		if t.Files != "" {
			own = readFiles(t.Certificates)
		}
		out.LoadedAtField = fmt.Sprintf(`(select max(c."at") from %s c where c.stream = '%s')`, own, t.Stream)
	}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, dbtColumn{
			Name: c.Name, Description: sentence(c), DataType: sqlType(c.Type), Quote: true, Tests: dbtTests(src, t, c, all),
		})
	}
	out.Tests = dbtKeyTests(src, t, all)
	return out
}

// readFiles returns the SQL with which DuckDB reads the files that match a pattern.
func readFiles(pattern string) string {
	return "read_parquet('" + strings.ReplaceAll(pattern, "'", "''") + "', union_by_name = true)"
}

// dbtTests returns the tests of a column: keys are unique and not null, and a child row has a parent.
func dbtTests(src dbtSource, t TableDoc, c ColumnDoc, all map[string]TableDoc) []any {
	var tests []any
	if c.Key || c.Name == schemas.ColParent || c.Name == schemas.ColHash {
		tests = append(tests, "not_null")
	}
	oneRow := t.Mode == string(schemas.Merge) || t.Mode == string(schemas.Replace)
	if c.Key && len(t.Key) == 1 && oneRow {
		tests = append(tests, "unique")
	}
	parent, ok := all[t.Parent]
	if ok && c.Name == schemas.ColParent && len(parent.Key) == 1 && oneRow {
		tests = append(tests, map[string]any{"relationships": map[string]string{
			"to": fmt.Sprintf("source('%s', '%s')", src.Name, parent.Name), "field": parent.Key[0],
		}})
	}
	return tests
}

// dbtKeyTests returns the tests of keys with several columns. Tables that several sources share have such keys.
// The tests use the columns as one row value: ("_penstock_source", "id").
func dbtKeyTests(src dbtSource, t TableDoc, all map[string]TableDoc) []any {
	if t.Mode != string(schemas.Merge) && t.Mode != string(schemas.Replace) {
		return nil
	}
	var tests []any
	if len(t.Key) > 1 {
		tests = append(tests, map[string]any{"unique": map[string]string{"column_name": sqlRow(t.Key...)}})
	}
	parent, ok := all[t.Parent]
	if ok && len(parent.Key) == 2 && parent.Key[0] == schemas.ColSource {
		tests = append(tests, map[string]any{"relationships": map[string]string{
			"column_name": sqlRow(schemas.ColSource, schemas.ColParent),
			"to":          fmt.Sprintf("source('%s', '%s')", src.Name, parent.Name), "field": sqlRow(parent.Key...),
		}})
	}
	return tests
}

// sqlRow returns columns as one row value in SQL: ("id", "name").
func sqlRow(columns ...string) string {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = SQLName(c)
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// describe returns a sentence that says what a table is.
func describe(t TableDoc) string {
	var b strings.Builder
	switch {
	case t.Parent != "":
		fmt.Fprintf(&b, "The list %s in each row of %s", t.Place, t.Parent)
	case t.Stream != "":
		fmt.Fprintf(&b, "Stream %s", t.Stream)
	default:
		return "No stream of this configuration fills this table."
	}
	fmt.Fprintf(&b, ", %s.", t.Request)
	if t.Mode == string(schemas.Merge) {
		fmt.Fprintf(&b, " Rows that are not deleted have no %s.", schemas.ColDeletedAt)
	}
	return b.String()
}

func sentence(c ColumnDoc) string {
	if c.Source == "" {
		return c.Meaning
	}
	if c.Mask != "" {
		return fmt.Sprintf("%s (%s), masked: %s", c.Meaning, c.Source, c.Mask)
	}
	return fmt.Sprintf("%s (%s)", c.Meaning, c.Source)
}

// sqlType returns the name of a type that both DuckDB and Postgres know.
func sqlType(name string) string {
	if elem, ok := strings.CutPrefix(name, "list("); ok {
		return sqlType(strings.TrimSuffix(elem, ")")) + "[]"
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
	}
	return strings.Replace(name, "decimal", "numeric", 1)
}
