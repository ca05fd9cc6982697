//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// fitting is the first part of an Apply: it creates and alters tables so that all staged rows fit.
type fitting struct {
	*merge
	*catalog
	pending []*load.Staged
	altered map[string]load.Plan // plans carried out, by table
	after   []func() error       // changes to rows, to be made when all tables are altered
}

// fit alters all tables before rows of any table are changed. The engine cannot commit a table that was altered after
// its rows were changed.
func (m *merge) fit(pending []*load.Staged, s load.Sweep) error {
	if err := m.db.step("ddl"); err != nil {
		return err
	}
	if err := m.ownTables(m.ctx); err != nil {
		return err
	}
	if m.of.Log {
		pending = append(pending[:len(pending):len(pending)], &load.Staged{Table: m.ownTable(load.RowChanges)})
	}
	names := make([]string, 0, len(pending)+1)
	for _, p := range pending {
		names = append(names, p.Name)
	}
	if s.Table != "" {
		names = append(names, s.Table)
	}
	c, err := readCatalog(m.ctx, m.s, names, m.ddl)
	if err != nil {
		return err
	}
	m.tables = map[string]*target{}
	for _, t := range load.ExistingTables(c.made, c.live) {
		m.tables[t.Name] = &target{Table: t}
	}
	if m.tables[s.Table] != nil {
		if _, err := c.table(s.Table); err != nil {
			return err
		}
	}
	f := &fitting{merge: m, catalog: c, pending: pending, altered: map[string]load.Plan{}}
	return f.run()
}

func (f *fitting) run() error {
	for _, p := range f.pending {
		if err := f.fitTable(p); err != nil {
			return err
		}
	}
	if err := f.createCurrentViews(); err != nil {
		return err
	}
	for _, p := range f.pending {
		if err := f.repairFamily(f.catalog, f.merge.tables[p.Name]); err != nil {
			return err
		}
	}
	for _, adjust := range f.after {
		if err := adjust(); err != nil {
			return err
		}
	}
	return nil
}

// fitTable changes a table so that the rows staged for it fit.
func (f *fitting) fitTable(p *load.Staged) error {
	if found, ok := f.adopt(p.Table); ok {
		if err := f.recorder.record(f.ctx, found.Changes()); err != nil {
			return err
		}
		f.made[p.Name] = found.Table
	}
	if o := f.live[p.Name]; o != nil && o.view && f.views[p.Name] { // a table needs the name of a view that penstock made
		if err := f.s.exec(f.ctx, "DROP VIEW "+place(p.Name)); err != nil {
			return err
		}
		f.live = maps.Clone(f.live) // the engine's map holds the committed state
		delete(f.live, p.Name)
	}
	have, err := f.table(p.Name)
	if err != nil {
		return err
	}
	plan, err := load.Fit(have, p.Table)
	if err != nil {
		return err
	}
	plan.Create = f.live[p.Name] == nil
	if err := f.checkNames(plan); err != nil {
		return err
	}
	if err := f.carryOut(plan); err != nil {
		return err
	}
	f.merge.tables[p.Name] = &target{Table: plan.Table, staged: p, empty: plan.Create, userColumns: f.userColumns(plan.Table)}
	if plan.ChangesMode() && !load.Child(plan.Table.Columns) {
		return f.turnChildren(plan.Table)
	}
	return nil
}

// turnChildren changes the mode of those children of t that get no rows. The other children change their mode when
// fitTable changes them.
func (f *fitting) turnChildren(t schemas.Table) error {
	for _, c := range f.children(&target{Table: t}) {
		if slices.ContainsFunc(f.pending, func(p *load.Staged) bool { return p.Name == c.Name }) {
			continue
		}
		have, err := f.table(c.Name)
		if err != nil {
			return err
		}
		plan, err := load.PlanModeChange(have, t.Mode)
		if err != nil {
			return err
		}
		if err := f.carryOut(plan); err != nil {
			return err
		}
		c.Table = plan.Table
	}
	return nil
}

// carryOut changes a table as planned, and records the changes.
func (f *fitting) carryOut(p load.Plan) error {
	if p.Empty() {
		return nil
	}
	if !p.ChangesShape() && f.changed[p.Table.Name] {
		return nil // rows were changed, so the engine would refuse this; the next pass writes the description
	}
	copied, err := f.copyBeforeAlter(p)
	if err != nil {
		return fmt.Errorf("change table %s: %w", p.Table.Name, err)
	}
	if err := carryOut(f.ctx, f.s, p); err != nil {
		return fmt.Errorf("change table %s: %w", p.Table.Name, err)
	}
	if err := f.comment(p, copied); err != nil {
		return fmt.Errorf("describe table %s: %w", p.Table.Name, err)
	}
	f.ddl = true
	f.altered[p.Table.Name] = p
	for _, w := range p.Widen {
		if !w.Exact() {
			f.after = append(f.after, func() error { return f.clearHashes(p.Table.Name, ident(w.Column.Name)+" IS NOT NULL") })
		}
	}
	if p.ChangesMode() && !p.Create {
		f.after = append(f.after, func() error { return f.turn(p.Table) })
	}
	return f.recorder.record(f.ctx, p.Changes())
}

// Before a table is altered, copyBeforeAlter replaces the table by a copy if an earlier Apply of the transaction has
// changed rows of the table. Otherwise the engine would refuse to commit.
func (f *fitting) copyBeforeAlter(p load.Plan) (bool, error) {
	if p.Create || len(p.Add)+len(p.Widen) == 0 || !f.changed[p.Table.Name] {
		return false, nil
	}
	const copied = load.Prefix + "copy"
	for _, q := range []string{
		"CREATE TABLE " + place(copied) + " AS FROM " + place(p.Table.Name),
		"DROP TABLE " + place(p.Table.Name),
		"ALTER TABLE " + place(copied) + " RENAME TO " + ident(p.Table.Name),
	} {
		if err := f.s.exec(f.ctx, q); err != nil {
			return false, err
		}
	}
	delete(f.changed, p.Table.Name)
	return true, nil
}

// change runs a statement that deletes or updates rows of the named table.
func (x *tx) change(ctx context.Context, table, q string) error {
	if x.changed == nil {
		x.changed = map[string]bool{}
	}
	x.changed[table] = true
	return x.s.exec(ctx, q)
}

// turn changes the rows of a table for its new mode. See [load.Plan.ChangesMode].
func (m *merge) turn(t schemas.Table) error {
	var q string
	switch t.Mode {
	case schemas.History:
		q = fmt.Sprintf("UPDATE %s SET %s = %s, %s = %s", place(t.Name), schemas.ColValidFrom, schemas.ColSyncedAt, schemas.ColValidTo, schemas.ColDeletedAt)
	case schemas.Replace:
		q = fmt.Sprintf("DELETE FROM %s WHERE %s IS NOT NULL", place(t.Name), schemas.ColDeletedAt)
	default:
		return nil
	}
	if err := m.change(m.ctx, t.Name, q); err != nil {
		return fmt.Errorf("turn %s: %w", t.Name, err)
	}
	return nil
}

// rootOf returns the root table of the named table.
func (m *merge) rootOf(name string) *target {
	if t := m.tables[name]; t != nil && !load.Child(t.Columns) {
		return t
	}
	for _, t := range m.tables {
		if strings.HasPrefix(name, t.Name+"__") && !load.Child(t.Columns) {
			return t
		}
	}
	return nil
}

// clearHashes clears the hashes of records, so that the next pass writes these records again. It finds the records by
// their rows in the given root or child table for which the condition holds.
func (m *merge) clearHashes(table, where string) error {
	t := m.rootOf(table)
	if t == nil || !t.has(schemas.ColHash) {
		return nil
	}
	if t.Name != table && where != "true" {
		where = fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s)", schemas.ColHash, schemas.ColHash, place(table), where)
	}
	if t.Mode == schemas.History {
		where = "(" + where + ") AND " + schemas.ColValidTo + " IS NULL"
	}
	err := m.change(m.ctx, t.Name, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %s", place(t.Name), schemas.ColHash, where))
	if err != nil {
		return fmt.Errorf("clear hashes of %s: %w", t.Name, err)
	}
	if len(t.Key) > 0 {
		return nil
	}
	for _, c := range m.children(t) { // their rows are linked to the records by the hash
		err := m.change(m.ctx, c.Name, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %[2]s NOT IN (SELECT %[2]s FROM %[3]s)",
			place(c.Name), schemas.ColHash, place(t.Name)))
		if err != nil {
			return fmt.Errorf("clear hashes of %s: %w", c.Name, err)
		}
	}
	return nil
}
