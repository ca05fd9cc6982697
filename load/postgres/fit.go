package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// fit creates and alters tables so that all staged rows fit.
func (m *merge) fit(pending []*load.Staged, swept string) error {
	if err := m.db.step("ddl"); err != nil {
		return err
	}
	names := make([]string, 0, len(pending)+1)
	for _, p := range pending {
		names = append(names, p.Name)
	}
	if swept != "" {
		names = append(names, swept)
	}
	c, err := m.db.readCatalog(m.ctx, m.s, names)
	if err != nil {
		return err
	}
	if c, err = m.serializeDDL(c, pending, swept, names); err != nil {
		return err
	}
	if err := m.checkTrust(c, names); err != nil {
		return err
	}
	m.tables, m.dropped = map[string]*target{}, map[string]bool{}
	for _, t := range load.ExistingTables(c.made, c.live) {
		m.tables[t.Name] = c.target(t)
	}
	for name := range c.made {
		m.dropped[name] = c.live[name] == nil
	}
	if m.tables[swept] != nil {
		if _, err := c.table(swept); err != nil {
			return err
		}
	}
	var plans []load.Plan
	for _, p := range rootsFirst(pending) {
		done, err := m.fitOne(c, p)
		if err != nil {
			return fmt.Errorf("table %s: %w", p.Name, err)
		}
		plans = append(plans, done...)
	}
	for _, p := range plans {
		if err := m.current(c, p); err != nil {
			return fmt.Errorf("view of %s: %w", p.Table.Name, err)
		}
	}
	for _, p := range pending {
		if err := m.repairFamily(m.tables[p.Name]); err != nil {
			return err
		}
	}
	return nil
}

// rootsFirst sorts tables before their children.
func rootsFirst(pending []*load.Staged) []*load.Staged {
	return slices.SortedStableFunc(slices.Values(pending), func(a, b *load.Staged) int {
		return strings.Count(a.Name, "__") - strings.Count(b.Name, "__")
	})
}

// target returns a table with the column types that it has in the database.
func (c *catalog) target(t schemas.Table) *target {
	out := &target{Table: t, types: map[string]string{}, foreign: map[string]string{}}
	o := c.live[t.Name]
	if o == nil {
		return out
	}
	for name, typ := range o.types {
		if t.Columns.HasField(name) {
			out.types[name] = typ
		} else {
			out.foreign[name] = typ
		}
	}
	return out
}

// fitOne changes a table so that the staged rows fit. If the table's mode changes, so do the modes of its child
// tables. fitOne returns the plans that were carried out.
func (m *merge) fitOne(c *catalog, p *load.Staged) ([]load.Plan, error) {
	if found, ok := c.adopt(p.Table); ok {
		if err := m.record(found.Changes()); err != nil {
			return nil, err
		}
		c.made[p.Name] = found.Table
	}
	if err := m.dropOwnView(c, p.Name); err != nil {
		return nil, err
	}
	have, err := c.table(p.Name)
	if err != nil {
		return nil, err
	}
	plan, err := load.Fit(have, p.Table)
	if err != nil {
		return nil, err
	}
	if err := m.checkOrder(c.target(have), plan); err != nil {
		return nil, err
	}
	plan.Create = c.live[p.Name] == nil
	if plan.Create {
		plan.Add = plan.Table.Columns.Fields() // all columns, because a table that was dropped by hand must be created again
	}
	plans, err := m.perform(c, plan)
	if err != nil {
		return nil, err
	}
	m.tables[p.Name].staged, m.tables[p.Name].toCompare = p, p.Rows
	if !plan.ChangesMode() || load.Child(plan.Table.Columns) || plan.Create {
		return plans, nil
	}
	for _, hanging := range m.children(m.tables[p.Name]) {
		turn, err := load.PlanModeChange(hanging.Table, plan.Table.Mode)
		if err != nil {
			return nil, err
		}
		more, err := m.perform(c, turn)
		if err != nil {
			return nil, fmt.Errorf("children %s: %w", hanging.Name, err)
		}
		plans = append(plans, more...)
	}
	return plans, nil
}

// perform carries out a plan if it is not empty.
func (m *merge) perform(c *catalog, plan load.Plan) ([]load.Plan, error) {
	if err := c.checkNames(plan); err != nil {
		return nil, err
	}
	t := c.target(plan.Table)
	t.made = plan.Create
	for _, f := range plan.Table.Columns.Fields() {
		if _, there := t.types[f.Name]; !there {
			t.types[f.Name] = m.db.sqlType(schemas.TypeOf(f))
		}
	}
	for _, w := range plan.Widen {
		t.types[w.Column.Name] = m.db.sqlType(schemas.TypeOf(w.Column))
	}
	m.tables[plan.Table.Name] = t
	if plan.Empty() {
		return nil, nil
	}
	if err := m.db.step("alter"); err != nil {
		return nil, err
	}
	if err := m.carryOut(c, plan); err != nil {
		return nil, err
	}
	c.learn(plan, t.types)
	for _, w := range plan.Widen {
		if !w.Exact() {
			if err := m.clearHashes(plan.Table.Name, ident(w.Column.Name)+" IS NOT NULL"); err != nil {
				return nil, err
			}
		}
	}
	return []load.Plan{plan}, nil
}

// learn updates the catalog after a plan was carried out.
func (c *catalog) learn(p load.Plan, types map[string]string) {
	name := p.Table.Name
	c.made[name] = p.Table
	o := c.live[name]
	if o == nil {
		o = &object{kind: "r", types: map[string]string{}}
		c.live[name] = o
	}
	for _, f := range p.Table.Columns.Fields() {
		o.types[f.Name] = types[f.Name]
	}
	if unique(p.Table) {
		o.unique = append(o.unique, load.KeyName(load.FullKey(p.Table)))
	}
}
