package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// Alter implements [sqlmerge.Session].
func (s *session) Alter(ctx context.Context, a sqlmerge.Alteration) error {
	table := s.b.Place(a.Table.Name)
	if a.Create {
		defs := make([]string, a.Table.Columns.NumFields())
		for i, f := range a.Table.Columns.Fields() {
			defs[i] = sqlmerge.Definition(s.b, f.Name, schemas.TypeOf(f))
		}
		if err := s.Exec(ctx, "CREATE TABLE "+table+" ("+strings.Join(defs, ", ")+")"); err != nil {
			return err
		}
		return s.index(ctx, a.Table)
	}
	for _, f := range a.Add {
		if err := s.Exec(ctx, "ALTER TABLE "+table+" ADD COLUMN "+sqlmerge.Definition(s.b, f.Name, schemas.TypeOf(f))); err != nil {
			return err
		}
	}
	if len(a.Widen) == 0 {
		return nil
	}
	if err := s.rebuild(ctx, a.Plan); err != nil {
		return err
	}
	for _, w := range a.Widen {
		if to, ok := schemas.TypeOf(w.Column).(*arrow.ListType); ok && w.From.ID() == arrow.LIST {
			if err := sqlmerge.WidenLists(ctx, s, s.b, a.Table.Name, "_rowid_", w, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// View implements [sqlmerge.Session].
func (s *session) View(ctx context.Context, v sqlmerge.View) error {
	if err := s.Exec(ctx, "DROP VIEW IF EXISTS "+s.b.Place(v.Name)); err != nil || v.Query == "" {
		return err
	}
	return s.Exec(ctx, "CREATE VIEW "+s.b.Place(v.Name)+" AS "+v.Query)
}

// index creates the index with which a merge finds rows.
func (s *session) index(ctx context.Context, t schemas.Table) error {
	columns := sqlmerge.FindColumns(t)
	if columns == nil {
		return nil
	}
	return s.Exec(ctx, fmt.Sprintf("CREATE INDEX %s ON %s (%s)", s.b.Place("_penstock_find_"+t.Name), sqlmerge.Ident(t.Name), sqlmerge.Idents(columns)))
}

// rebuild replaces a table by one with wider columns, because SQLite cannot change the type of a column. It keeps
// columns, indexes and triggers that users have added. // Invariant 16
func (s *session) rebuild(ctx context.Context, a load.Plan) error {
	wide := map[string]load.Widening{}
	for _, w := range a.Widen {
		wide[w.Column.Name] = w
	}
	name := s.b.Literal(a.Table.Name)
	var defs, names, values []string
	err := s.Query(ctx, `SELECT name, type, "notnull", dflt_value, hidden FROM pragma_table_xinfo(`+name+`, 'main')`, func(v []driver.Value) error {
		if v[4] != int64(0) {
			return fmt.Errorf("column %q is generated, and a copy of the table would lose it; drop the column, run again, then add it again", v[0])
		}
		column := sqlmerge.Ident(v[0].(string))
		def, value := column+" "+v[1].(string), column
		if w, ok := wide[v[0].(string)]; ok {
			to := schemas.TypeOf(w.Column)
			def, value = sqlmerge.Definition(s.b, w.Column.Name, to), s.b.Cast(column, w.From, to)
		}
		if required, _ := v[2].(int64); required == 1 {
			def += " NOT NULL"
		}
		if v[3] != nil {
			def += fmt.Sprintf(" DEFAULT (%v)", v[3])
		}
		defs, names, values = append(defs, def), append(names, v[0].(string)), append(values, value)
		return nil
	})
	if err != nil {
		return err
	}
	var again []string
	err = s.Query(ctx, "SELECT sql FROM main.sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL AND tbl_name = "+name, func(v []driver.Value) error {
		again = append(again, v[0].(string))
		return nil
	})
	if err != nil {
		return err
	}
	table, copied := s.b.Place(a.Table.Name), s.b.Place(load.Prefix+"copy")
	statements := append([]string{
		"CREATE TABLE " + copied + " (" + strings.Join(defs, ", ") + ")",
		"INSERT INTO " + copied + " (" + sqlmerge.Idents(names) + ") SELECT " + strings.Join(values, ", ") + " FROM " + table,
		"DROP TABLE " + table,
		"ALTER TABLE " + copied + " RENAME TO " + sqlmerge.Ident(a.Table.Name),
	}, again...)
	for _, q := range statements {
		if err := s.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
