package sqlmerge

import (
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// fitting is the first part of an Apply: it creates and alters tables so that all staged rows fit. DuckDB cannot commit
// a table that was altered after its rows were changed. So all tables are altered before rows of any table are changed.
type fitting struct {
	sql     *statements
	c       *catalog
	in      *scope
	seen    *seen
	stream  string // the stream that writes the tables
	pending []*load.Staged
	tables  targets              // the result: all tables in the families of the tables that get rows or are swept
	altered map[string]load.Plan // plans carried out, by table
	after   []func() error       // changes to rows, to be made when all tables are altered
}

// fit fits the tables to the staged rows.
func (f *fitting) fit() error {
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
		if err := f.c.record(f.sql, found.Changes()); err != nil {
			return err
		}
		f.c.made[p.Name] = found.Table
	}
	if o := f.c.live[p.Name]; o != nil && o.View && f.c.views[p.Name] { // a table needs the name of a view that penstock made
		if err := f.sql.View(f.sql.ctx, View{Name: p.Name}); err != nil {
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
		plan.Add = plan.Table.Columns.Fields() // all columns, because a user may have dropped a table that penstock has recorded
	}
	if err := f.c.checkNames(plan); err != nil {
		return err
	}
	if err := f.seen.widen(f.sql, &target{Table: have, in: f.in}, plan); err != nil {
		return err
	}
	if err := f.carryOut(plan); err != nil {
		return err
	}
	f.tables[p.Name] = &target{Table: plan.Table, in: f.in, staged: p, empty: plan.Create, userColumns: f.c.userColumns(plan.Table), lacksKey: LateKey(plan.Table) && f.c.lacksKey(plan.Table)}
	if plan.ChangesMode() && !load.Child(plan.Table.Columns) {
		return f.turnChildren(plan.Table)
	}
	return nil
}

// turnChildren changes the mode of those children of t that get no rows. The other children change their mode when
// fitTable changes them.
func (f *fitting) turnChildren(t schemas.Table) error {
	for _, c := range f.tables.children(&target{Table: t}) {
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
	if !p.ChangesShape() && f.sql.changed[p.Table.Name] {
		return nil // DuckDB would refuse to alter a table whose rows were changed; the next pass writes the description
	}
	a := Alteration{Plan: p, Stream: f.stream, Changed: f.sql.changed[p.Table.Name]}
	if err := f.sql.Alter(f.sql.ctx, a); err != nil {
		return fmt.Errorf("change table %s: %w", p.Table.Name, err)
	}
	if len(p.Add)+len(p.Widen) > 0 {
		delete(f.sql.changed, p.Table.Name) // the backend has replaced the table by a copy, which counts as unchanged
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
	return f.c.record(f.sql, p.Changes())
}

// turn changes the rows of a table for its new mode. See [load.Plan.ChangesMode].
func (f *fitting) turn(t schemas.Table) error {
	var q string
	turned := f.tables[t.Name]
	switch t.Mode {
	case schemas.History:
		q = fmt.Sprintf("UPDATE %s SET %s = %s, %s = %s", turned.place(), schemas.ColValidFrom, schemas.ColSyncedAt, schemas.ColValidTo, schemas.ColDeletedAt)
	case schemas.Replace:
		q = fmt.Sprintf("DELETE FROM %s WHERE %s IS NOT NULL", turned.place(), schemas.ColDeletedAt)
	default:
		return nil
	}
	if err := f.sql.change(turned, q); err != nil {
		return fmt.Errorf("change the mode of %s: %w", t.Name, err)
	}
	return nil
}

// repairFamily repairs a root table and its child tables after one of them was dropped by hand. If the root was
// dropped, it deletes the rows of the children. If a child was dropped, it clears the hashes of the records, so that
// the next pass writes these records again.
func (f *fitting) repairFamily(t *target) error {
	if _, dropped := f.c.made[t.Name]; !dropped || !t.empty || load.IsInternal(t.Name) {
		return nil
	}
	if load.Child(t.Columns) {
		return f.clearHashes(t.Name, "")
	}
	for _, hanging := range f.tables.children(t) {
		if err := f.sql.change(hanging, "DELETE FROM "+hanging.place()); err != nil {
			return fmt.Errorf("children %s: %w", hanging.Name, err)
		}
	}
	return nil
}

// clearHashes clears the hashes of records, so that the next pass writes these records again. It clears the hash of a
// record if one of the record's rows in the named table meets the condition in the parameter `where`. If the condition
// is "", every row meets it. In History, only current rows are compared with arriving rows, so only their hashes are
// cleared.
func (f *fitting) clearHashes(table, where string) error {
	t := f.tables.rootOf(table)
	if t == nil || !t.has(schemas.ColHash) {
		return nil
	}
	switch {
	case where == "":
		where = all
	case t.Name != table:
		where = fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s)", schemas.ColHash, schemas.ColHash, f.in.Place(table), where)
	}
	if err := f.sql.change(t, fmt.Sprintf("UPDATE %s SET %s = '' WHERE (%s)%s", t.place(), schemas.ColHash, where, t.open(""))); err != nil {
		return fmt.Errorf("clear hashes of %s: %w", t.Name, err)
	}
	if len(t.Key) > 0 {
		return nil
	}
	for _, c := range f.tables.children(t) { // a record's hash links the child rows to the record
		err := f.sql.change(c, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %[2]s NOT IN (SELECT %[2]s FROM %[3]s)%[4]s",
			c.place(), schemas.ColHash, t.place(), t.open("")))
		if err != nil {
			return fmt.Errorf("clear hashes of %s: %w", c.Name, err)
		}
	}
	return nil
}
