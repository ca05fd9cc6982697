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

// View implements [load.Viewer]. The query names its tables with the schema. All other names in it mean built-in
// objects, so that no object of another role becomes part of the view. Grants on the view stay. If the columns of the
// view have changed, the view is dropped and created again. That fails if another view depends on it.
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
		return true, m.record([]load.Change{{Table: name, Action: load.ActionView, Reason: "requested"}})
	})
	if err != nil {
		return fmt.Errorf("view %s: %w", name, err)
	}
	return nil
}

// view creates a view. It replaces a view that penstock made.
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

// invokerVersion is the first version of the server in which a view can use the rights of the querying role, in the
// form of server_version_num.
const invokerVersion = 150000

// createView returns the statement that creates a view. A new view reads tables with the rights of the querying role,
// if the server supports that. An existing view keeps its options, so that its readers do not lose access.
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
