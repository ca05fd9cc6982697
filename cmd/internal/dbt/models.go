package dbt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

// modelName returns the name of a table's staging model: stg_crm__leads for crm_leads.
func modelName(t render.TableDoc) string {
	return "stg_" + t.Of.Module + "__" + strings.TrimPrefix(t.Name, t.Of.Module+"_")
}

// stagingSQL returns the SQL of a staging model: the current rows of a table, with JSON text as JSON.
func (p *project) stagingSQL(t render.TableDoc) []byte {
	var list []string
	for _, c := range t.Columns {
		if c.Name == schemas.ColDeletedAt || c.Name == schemas.ColValidTo {
			continue // always null in current rows
		}
		expr := quote(c.Name)
		if c.Type == "json" {
			expr = fmt.Sprintf("{{ penstock_json('%s') }} as %s", expr, expr)
		}
		list = append(list, "    "+expr)
	}
	from, where := "{{ "+sourceRef(t)+" }}", "\nwhere "+quote(schemas.ColDeletedAt)+" is null"
	view, hasView := p.currentView(t)
	switch {
	case hasView:
		from, where = fmt.Sprintf("{{ source('%s', '%s') }}", t.Of.Module, view), ""
	case t.Mode == string(schemas.History):
		where = "\nwhere " + quote(schemas.ColValidTo) + " is null"
	case t.Mode == string(schemas.Append) && len(t.Key) > 0:
		from = fmt.Sprintf("(\n    select *, row_number() over (partition by %s order by %s desc, %s desc) as penstock_newest\n    from %s\n) v",
			strings.Trim(row(t.Key...), "()"), quote(schemas.ColRun), quote(schemas.ColSyncedAt), from)
		where = "\nwhere penstock_newest = 1"
	}
	return []byte("select\n" + strings.Join(list, ",\n") + "\nfrom " + from + where + "\n")
}

// model describes a staging model: the columns that have a description or a test.
func (p *project) model(name string, t render.TableDoc) model {
	m := model{Name: name, Description: "Current rows. " + describeTable(t)}
	for _, c := range t.Columns {
		if strings.HasPrefix(c.Name, "_penstock_") {
			continue
		}
		col := column{Name: c.Name, Description: p.describe(t, c), Quote: true}
		if c.Type == "json" {
			col.DataType = p.staged(c.Type)
		}
		target, ok := p.target(t, c)
		switch {
		case ok && p.shared:
			m.Tests = append(m.Tests, p.relationship(t, c, target))
		case ok:
			col.Tests = append(col.Tests, p.relationship(t, c, target))
		}
		col.Tests = append(col.Tests, p.valueTests(t, c)...)
		if col.Description != "" || len(col.Tests) > 0 {
			m.Columns = append(m.Columns, col)
		}
	}
	return m
}

// target returns the table to whose key a column refers, if the table is loaded too.
func (p *project) target(t render.TableDoc, c render.ColumnDoc) (render.TableDoc, bool) {
	if c.Mask != "" || c.Type != "int64" && c.Type != "text" {
		return render.TableDoc{}, false
	}
	candidates := p.relations.Targets(t.Name, c.Name)
	if parent := p.requestedFor(t, c); parent != "" {
		candidates = []string{parent}
	}
	for _, name := range candidates {
		to, ok := p.tables[name]
		if !ok || to.Name == t.Name && c.Key {
			continue
		}
		if key := ownKey(to); key != "" {
			return to, true
		}
	}
	return render.TableDoc{}, false
}

// requestedFor returns the table of the parent stream, if the column has the key of the parent's record for which the
// record was requested.
func (p *project) requestedFor(t render.TableDoc, c render.ColumnDoc) string {
	of := t.Of
	param, ok := strings.CutPrefix(c.Name, "_context__")
	if !ok || t.Parent != "" || of.Parent == "" {
		return ""
	}
	for _, to := range p.tables {
		if to.Stream == of.Parent && to.Parent == "" && slices.ContainsFunc(of.Params, func(s schemas.Param) bool {
			return s.Name == param && s.From == "/"+ownKey(to)
		}) {
			return to.Name
		}
	}
	return ""
}

// ownKey returns the column that is the key of a table, without the source; "" if the key has more columns.
func ownKey(t render.TableDoc) string {
	key := slices.DeleteFunc(slices.Clone(t.Key), func(c string) bool { return c == schemas.ColSource })
	if len(key) != 1 || t.Parent != "" {
		return ""
	}
	return key[0]
}

func typeOf(t render.TableDoc, column string) string {
	for _, c := range t.Columns {
		if c.Name == column {
			return c.Type
		}
	}
	return ""
}

// relationship returns the test that a referenced row exists. It only warns: the source may have deleted the row, or
// the credential may not see it. The number 0 means no reference.
func (p *project) relationship(t render.TableDoc, c render.ColumnDoc, to render.TableDoc) test {
	key := ownKey(to)
	from, field, where := quote(c.Name), quote(key), quote(c.Name)+" <> 0"
	if c.Type == "text" {
		where = quote(c.Name) + " <> ''"
	}
	arguments := map[string]any{"to": "ref('" + modelName(to) + "')"}
	if c.Type != typeOf(to, key) {
		from, field = "cast("+from+" as varchar)", "cast("+field+" as varchar)"
		arguments["column_name"] = from
	}
	if p.shared {
		from, field = "("+quote(schemas.ColSource)+", "+from+")", "("+quote(schemas.ColSource)+", "+field+")"
		arguments["column_name"] = from
	}
	arguments["field"] = field
	return named("relationships", testBody{Arguments: arguments, Config: testConfig{Severity: "warn", Where: where}})
}

// valueTests returns the tests of a column's values: those of the catalogue, and the checks of the configuration.
func (p *project) valueTests(t render.TableDoc, c render.ColumnDoc) []test {
	if c.Mask != "" {
		return nil
	}
	var tests []test
	if values := p.relations.AcceptedValues(t.Name, c.Name); values != nil && c.Type == "text" {
		tests = append(tests, accepted(values, "warn"))
	}
	for _, check := range t.Of.Checks {
		if t.Parent != "" || !slices.Contains(check.Columns, c.Name) {
			continue
		}
		severity := "warn"
		if check.Hold {
			severity = "error"
		}
		switch config := (testBody{Config: testConfig{Severity: severity}}); {
		case check.Kind == schemas.CheckAccepted && c.Type == "text":
			tests = append(tests[:0], accepted(check.Values, severity))
		case check.Kind == schemas.CheckNotNull:
			tests = append(tests, named("not_null", config))
		case check.Kind == schemas.CheckUnique && len(check.Columns) == 1 && !p.shared:
			tests = append(tests, named("unique", config))
		}
	}
	return tests
}

func accepted(values []string, severity string) test {
	return named("accepted_values", testBody{Arguments: map[string]any{"values": values}, Config: testConfig{Severity: severity}})
}
