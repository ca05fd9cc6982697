package postgres

import (
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// currentSuffix ends the name of a view of current rows: crm_leads_current.
const currentSuffix = "_current"

// current creates the view of the current rows of the plan's table. If the table has new columns, it replaces the
// view. It does nothing if the view's name is too long or taken. // Invariant 16
func (m *merge) current(c *catalog, p load.Plan) error {
	t := p.Table
	name := t.Name + currentSuffix
	ended := schemas.ColDeletedAt
	switch {
	case load.IsInternal(t.Name) || len(name) > schemas.MaxName:
		return nil
	case t.Mode == schemas.History:
		ended = schemas.ColValidTo
	case t.Mode != schemas.Merge || !m.keyedFamily(t):
		return nil
	}
	o := c.live[name]
	if o != nil && (o.kind != "v" || !c.views[name]) {
		return nil
	}
	columns := inOrder(o, load.Names(t.Columns))
	create, err := m.createView(name, "SELECT "+idents(columns)+" FROM "+m.db.place(t.Name)+" WHERE "+ident(ended)+" IS NULL")
	if err != nil {
		return err
	}
	err = m.s.run(m.ctx, create+"; COMMENT ON VIEW "+m.db.place(name)+" IS "+literal("the rows of "+t.Name+" that are current"))
	if err != nil || o != nil {
		return err
	}
	c.views[name] = true
	return m.record([]load.Change{{Table: name, Action: load.ActionView, Reason: "the rows of " + t.Name + " that are current"}})
}

// dropOwnView drops the view with this name if penstock made it. A table needs the name.
func (m *merge) dropOwnView(c *catalog, name string) error {
	if o := c.live[name]; o == nil || o.kind != "v" || !c.views[name] {
		return nil
	}
	if err := m.s.run(m.ctx, "DROP VIEW "+m.db.place(name)); err != nil {
		return err
	}
	delete(c.live, name)
	delete(c.views, name)
	return nil
}

// inOrder returns the columns in an order in which the existing view can be replaced: first the columns of the view,
// in its order. Postgres can add columns to a view, but not change the place of a column.
func inOrder(view *object, columns []string) []string {
	if view == nil {
		return columns
	}
	has := map[string]bool{}
	for _, c := range columns {
		has[c] = true
	}
	var out []string
	for _, c := range view.columns {
		if has[c] {
			out = append(out, c)
			delete(has, c)
		}
	}
	for _, c := range columns {
		if has[c] {
			out = append(out, c)
		}
	}
	return out
}

// keyedFamily reports whether the root table of t has a key.
func (m *merge) keyedFamily(t schemas.Table) bool {
	root := m.rootOf(t.Name)
	return root != nil && len(root.Key) > 0
}
