package postgres

import (
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// currentSuffix ends the names of the views of current rows.
const currentSuffix = "_current"

// current creates the view of the current rows of t, or replaces it if the table has new columns. It does nothing if
// the name is too long or taken. // Invariant 16
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

// dropOwnView drops the view of that name if penstock made it, because a table needs the name.
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

// inOrder puts the columns of the existing view first, in its order. A view can be replaced by one with further
// columns, but not by one with other columns in their places.
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
