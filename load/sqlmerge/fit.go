package sqlmerge

import (
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// fitting is the first part of an Apply: it creates and alters tables so that all staged rows fit.
type fitting struct {
	*merge
	pending []*load.Staged
	altered map[string]load.Plan // plans carried out, by table
	after   []func() error       // changes to rows, to be made when all tables are altered
}

// fit alters all tables before rows of any table are changed, because DuckDB cannot commit a table that was altered
// after its rows were changed.
func (m *merge) fit(pending []*load.Staged, s load.Sweep) error {
	if err := m.b.Step("ddl"); err != nil {
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
	if err := m.c.read(m.ctx, names...); err != nil {
		return err
	}
	if err := m.serialize(pending, s.Table, names); err != nil {
		return err
	}
	if err := m.c.checkSafe(names); err != nil {
		return err
	}
	m.know(names)
	if m.tables[s.Table] != nil {
		if _, err := m.c.table(s.Table); err != nil {
			return err
		}
	}
	f := &fitting{merge: m, pending: pending, altered: map[string]load.Plan{}}
	return f.run()
}

// know sets the tables of the merge to those that exist in the families of the named tables.
func (m *merge) know(names []string) {
	m.tables = map[string]*target{}
	for _, t := range load.ExistingTables(m.c.made, m.c.live) {
		if inFamilies(t.Name, names) {
			m.tables[t.Name] = &target{Table: t, userColumns: m.c.userColumns(t)}
		}
	}
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
		if err := f.repairFamily(f.tables[p.Name]); err != nil {
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
	if found, ok := f.c.adopt(p.Table); ok {
		if err := f.record(f.ctx, found.Changes()); err != nil {
			return err
		}
		f.c.made[p.Name] = found.Table
	}
	if o := f.c.live[p.Name]; o != nil && o.View && f.c.views[p.Name] { // a table needs the name of a view that penstock made
		if err := f.s.View(f.ctx, View{Name: p.Name}); err != nil {
			return err
		}
		delete(f.c.live, p.Name)
	}
	have, err := f.c.table(p.Name)
	if err != nil {
		return err
	}
	plan, err := load.Fit(have, p.Table)
	if err != nil {
		return err
	}
	if plan.Create = f.c.live[p.Name] == nil; plan.Create {
		plan.Add = plan.Table.Columns.Fields() // also if a user has dropped the table
	}
	if err := f.c.checkNames(plan); err != nil {
		return err
	}
	if err := f.checkOrder(&target{Table: have}, plan); err != nil {
		return err
	}
	if err := f.carryOut(plan); err != nil {
		return err
	}
	f.tables[p.Name] = &target{Table: plan.Table, staged: p, empty: plan.Create, userColumns: f.c.userColumns(plan.Table)}
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
		have, err := f.c.table(c.Name)
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
		return nil // rows were changed, so DuckDB would refuse this; the next pass writes the description
	}
	a := Alteration{Plan: p, Stream: f.key.Stream, Changed: f.changed[p.Table.Name]}
	if err := f.s.Alter(f.ctx, a); err != nil {
		return fmt.Errorf("change table %s: %w", p.Table.Name, err)
	}
	if len(p.Add)+len(p.Widen) > 0 {
		delete(f.changed, p.Table.Name) // the backend had to copy the table
	}
	f.c.altered(p)
	f.altered[p.Table.Name] = p
	for _, w := range p.Widen {
		if !w.Exact() {
			f.after = append(f.after, func() error { return f.clearHashes(p.Table.Name, Ident(w.Column.Name)+" IS NOT NULL") })
		}
	}
	if p.ChangesMode() && !p.Create {
		f.after = append(f.after, func() error { return f.turn(p.Table) })
	}
	return f.record(f.ctx, p.Changes())
}

// turn changes the rows of a table for its new mode. See [load.Plan.ChangesMode].
func (m *merge) turn(t schemas.Table) error {
	var q string
	switch t.Mode {
	case schemas.History:
		q = fmt.Sprintf("UPDATE %s SET %s = %s, %s = %s", m.b.Place(t.Name), schemas.ColValidFrom, schemas.ColSyncedAt, schemas.ColValidTo, schemas.ColDeletedAt)
	case schemas.Replace:
		q = fmt.Sprintf("DELETE FROM %s WHERE %s IS NOT NULL", m.b.Place(t.Name), schemas.ColDeletedAt)
	default:
		return nil
	}
	if err := m.change(t.Name, q); err != nil {
		return fmt.Errorf("turn %s: %w", t.Name, err)
	}
	return nil
}
