package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/load"
)

// View implements [load.Viewer]. The query finds the tables of the schema
// without naming it. Whoever has rights on the view keeps them. One whose columns
// have changed must go and come back, and with somebody else's view upon it
// cannot.
func (d *DB) View(ctx context.Context, name, query string) error {
	err := d.change(ctx, func(m *merge) (bool, error) {
		c, err := d.readCatalog(ctx, m.s, []string{name})
		if err != nil {
			return false, err
		}
		if o := c.live[name]; o != nil && (o.kind != "v" || !c.views[name]) {
			return false, load.ErrTaken // Invariant 16
		}
		if err := m.view(name, query); err != nil || c.views[name] {
			return true, err
		}
		return true, m.record([]load.Change{{Table: name, Action: load.ActionView, Reason: "asked for"}})
	})
	if err != nil {
		return fmt.Errorf("view %s: %w", name, err)
	}
	return nil
}

// view makes a view, in the place of one of ours.
func (m *merge) view(name, query string) error {
	if err := m.s.run(m.ctx, "SET LOCAL search_path = "+ident(m.db.o.Schema)+", pg_catalog; SAVEPOINT penstock_view"); err != nil {
		return err
	}
	create := "CREATE OR REPLACE VIEW " + m.db.place(name) + " AS " + query
	err := m.s.run(m.ctx, create)
	if code(err) != codeOtherColumns {
		return err
	}
	if err := m.s.run(m.ctx, "ROLLBACK TO SAVEPOINT penstock_view"); err != nil {
		return err
	}
	oids, err := m.s.strings(m.ctx, "SELECT "+literal(m.db.place(name))+"::regclass::oid")
	if err != nil {
		return err
	}
	grants, err := m.s.strings(m.ctx, grantsSQL(oids[0], m.db.place(name)))
	if err != nil {
		return err
	}
	return m.s.run(m.ctx, "DROP VIEW "+m.db.place(name)+"; "+create+"; "+strings.Join(grants, "; "))
}
