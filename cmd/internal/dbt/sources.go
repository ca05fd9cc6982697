package dbt

import (
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// The thresholds fit a nightly pipeline: one missed night is a warning, two missed nights are an error.
var nightly = freshness{
	WarnAfter:  period{"{{ var('penstock_warn_after_hours', 36) | as_number }}", "hour"},
	ErrorAfter: period{"{{ var('penstock_error_after_hours', 60) | as_number }}", "hour"},
}

// sourceTables returns a table as a source. If the table keeps versions and has a view of the current rows, this view
// is a source too.
func (p *project) sourceTables(t render.TableDoc) []sourceTable {
	main := sourceTable{Name: t.Name, Description: describeTable(t), Config: &tableConfig{LoadedAtQuery: p.loadedAt(t)}}
	main.Config.Meta = &meta{Penstock: &about{Mode: t.Mode, Key: t.Key, Parent: t.Parent, Shared: t.Shared}}
	if t.Files != "" {
		main.Config.Meta.ExternalLocation = readFiles(t.Files)
	}
	for _, c := range t.Columns {
		main.Columns = append(main.Columns, column{
			Name: c.Name, Description: p.describe(t, c), DataType: p.stored(c.Type), Quote: true, Tests: p.keyTests(t, c),
		})
	}
	main.Tests = p.rowTests(t)
	if t.Parent == "" {
		main.Tests = append(main.Tests, named("penstock_certified", testBody{Arguments: map[string]any{"stream": t.Stream, "shared": p.shared}}))
	}
	tables := []sourceTable{main}
	if view, ok := p.currentView(t); ok {
		current := sourceTable{Name: view, Description: fmt.Sprintf("The current rows of %s: no earlier versions, and no deleted records.", t.Name)}
		if len(t.Key) > 0 {
			current.Tests = []test{unique(t.Key)}
		}
		tables = append(tables, current)
	}
	return tables
}

// currentView returns the view of the current rows of a table that keeps versions.
func (p *project) currentView(t render.TableDoc) (string, bool) {
	name := t.Name + "_current"
	return name, keepsVersions(t) && p.views[name]
}

func keepsVersions(t render.TableDoc) bool {
	return t.Mode == string(schemas.History) || t.Mode == string(schemas.Append)
}

// loadedAt returns a query for the time of the last reading of a table's stream that is proven or consistent. If
// several sources share the table, it is the time of the source whose last such reading is the oldest.
func (p *project) loadedAt(t render.TableDoc) string {
	from := p.schemaVar() + "." + load.Certificates.Name
	if p.files() {
		from = readFiles(p.CertificateFiles)
	}
	newest := fmt.Sprintf("select max(\"at\") as \"at\" from %s\nwhere \"stream\" = %s and \"verdict\" in ('{{ var('penstock_verdicts', ['proven', 'consistent']) | join(\"', '\") }}')",
		from, text(t.Stream))
	if p.shared {
		newest += "\n{% if var('penstock_source', '') %}and \"_penstock_source\" = '{{ var('penstock_source', '') }}'{% endif %}\ngroup by \"_penstock_source\""
	}
	return "select coalesce(min(\"at\"), timestamptz '1970-01-01 00:00:00+00') from (\n" + newest + "\n) penstock_newest"
}

// keyTests returns the tests of a column of a source: keys are unique and not null, and a child row has a parent.
func (p *project) keyTests(t render.TableDoc, c render.ColumnDoc) []test {
	var tests []test
	if c.Key || c.Name == schemas.ColParent || c.Name == schemas.ColHash {
		tests = append(tests, "not_null")
	}
	if c.Key && len(t.Key) == 1 && !keepsVersions(t) {
		tests = append(tests, "unique")
	}
	parent, ok := p.tables[t.Parent]
	if ok && c.Name == schemas.ColParent && len(parent.Key) == 1 && !keepsVersions(t) {
		tests = append(tests, named("relationships", testBody{Arguments: map[string]any{"to": sourceRef(parent), "field": quote(parent.Key[0])}}))
	}
	return tests
}

// rowTests returns the tests of keys with several columns. Tables that several sources share have such keys. The tests
// use the columns as one row value: ("_penstock_source", "id").
func (p *project) rowTests(t render.TableDoc) []test {
	var tests []test
	if keepsVersions(t) {
		return nil
	}
	if len(t.Key) > 1 {
		tests = append(tests, unique(t.Key))
	}
	parent, ok := p.tables[t.Parent]
	if ok && len(parent.Key) == 2 && parent.Key[0] == schemas.ColSource {
		tests = append(tests, named("relationships", testBody{Arguments: map[string]any{
			"column_name": row(schemas.ColSource, schemas.ColParent), "to": sourceRef(parent), "field": row(parent.Key...),
		}}))
	}
	return tests
}

func named(name string, body testBody) test { return map[string]testBody{name: body} }

func unique(key []string) test {
	return named("unique", testBody{Arguments: map[string]any{"column_name": row(key...)}})
}

func sourceRef(t render.TableDoc) string {
	return fmt.Sprintf("source('%s', '%s')", t.Of.Module, t.Name)
}

// row returns columns as one row value in SQL: ("id", "name"). A single column is itself.
func row(columns ...string) string {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = quote(c)
	}
	if len(columns) == 1 {
		return quoted[0]
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

func quote(name string) string { return render.SQLName(name) }

func text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// readFiles returns the SQL with which DuckDB reads the files that match a pattern.
func readFiles(pattern string) string {
	return "read_parquet(" + text(pattern) + ", union_by_name = true)"
}
