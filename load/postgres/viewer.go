package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/load"
)

// Schema implements [load.Viewer].
func (d *DB) Schema() string { return d.o.Schema }

// View implements [load.Viewer]. The query names tables with their schema: all other
// names in it are the server's own, so that nothing others have made gets into the view.
// Whoever has rights on the view keeps them. One whose columns have changed must go and
// come back, and with somebody else's view upon it cannot.
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
	create, err := m.createView(name, query)
	if err != nil {
		return err
	}
	if err := m.s.run(m.ctx, "SAVEPOINT penstock_view"); err != nil {
		return err
	}
	err = m.s.run(m.ctx, create)
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

// invokerVersion is the first server whose views can read with the rights of who asks,
// as server_version_num.
const invokerVersion = 150000

// createView is the statement that makes a view. A new one reads tables with the rights
// of who asks, where the server can do that. One that is there keeps its options: whom it
// lets see what it shows goes on seeing it.
func (m *merge) createView(name, query string) (string, error) {
	options, err := m.s.strings(m.ctx, "SELECT coalesce((SELECT "+optionsSQL("c")+" FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass("+literal(m.db.place(name))+")), "+
		"CASE WHEN pg_catalog.to_regclass("+literal(m.db.place(name))+") IS NULL AND pg_catalog.current_setting('server_version_num')::int >= "+strconv.Itoa(invokerVersion)+" THEN 'security_invoker = true' ELSE '' END)")
	if err != nil {
		return "", err
	}
	with := ""
	if options[0] != "" {
		with = " WITH (" + options[0] + ")"
	}
	return "CREATE OR REPLACE VIEW " + m.db.place(name) + with + " AS " + query, nil
}
