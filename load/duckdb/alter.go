//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// Alter implements [sqlmerge.Session].
func (t *transaction) Alter(ctx context.Context, a sqlmerge.Alteration) error {
	t.altered = true
	copied := a.Changed && !a.Create && len(a.Add)+len(a.Widen) > 0
	if copied {
		if err := t.copyTable(ctx, a.Table.Name); err != nil {
			return err
		}
	}
	if err := t.changeColumns(ctx, a.Plan); err != nil {
		return err
	}
	if err := t.comment(ctx, a, copied); err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	return nil
}

// copyTable replaces a table by a copy. The engine cannot commit a transaction that first changes rows of a table, and
// then alters the same table.
func (t *transaction) copyTable(ctx context.Context, name string) error {
	copied := dialect{}.Place(load.Prefix + "copy")
	for _, q := range []string{
		"CREATE TABLE " + copied + " AS FROM " + dialect{}.Place(name),
		"DROP TABLE " + dialect{}.Place(name),
		"ALTER TABLE " + copied + " RENAME TO " + sqlmerge.Ident(name),
	} {
		if err := t.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) changeColumns(ctx context.Context, p load.Plan) error {
	if p.Create {
		return t.Exec(ctx, createSQL(p.Table))
	}
	table := dialect{}.Place(p.Table.Name)
	for _, f := range p.Add {
		// The column gets no default, because a default that calls a function would break the replay of the log.
		if err := t.Exec(ctx, "ALTER TABLE "+table+" ADD COLUMN "+sqlmerge.Definition(dialect{}, f.Name, schemas.TypeOf(f))); err != nil {
			return err
		}
	}
	for _, w := range p.Widen {
		to := schemas.TypeOf(w.Column)
		q := "ALTER TABLE " + table + " ALTER " + sqlmerge.Ident(w.Column.Name) + " TYPE " + sqlType(to) +
			" USING " + cast(sqlmerge.Ident(w.Column.Name), w.From, to)
		if err := t.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func createSQL(t schemas.Table) string {
	defs := make([]string, 0, t.Columns.NumFields())
	for _, f := range t.Columns.Fields() {
		def := sqlmerge.Definition(dialect{}, f.Name, schemas.TypeOf(f))
		if f.Name == schemas.ColHash && !load.Child(t.Columns) {
			def += " USING COMPRESSION uncompressed" // hashes are all different: compression costs more than it saves
		}
		defs = append(defs, def)
	}
	return "CREATE TABLE " + dialect{}.Place(t.Name) + " (" + strings.Join(defs, ", ") + ")"
}

// View implements [sqlmerge.Session]. While the view is created, the file's database is the current database, so that
// the engine finds the tables that the view's query names.
func (t *transaction) View(ctx context.Context, v sqlmerge.View) (err error) {
	t.altered = true
	if v.Query == "" {
		return t.Exec(ctx, "DROP VIEW "+dialect{}.Place(v.Name))
	}
	if err := t.Exec(ctx, "USE db"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Exec(ctx, "USE memory")) }()
	return t.Exec(ctx, "CREATE OR REPLACE VIEW main."+sqlmerge.Ident(v.Name)+" AS "+v.Query)
}
