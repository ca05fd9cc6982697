package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
)

// Schema implements [load.Viewer].
func (d *DB) Schema() string { return d.o.Schema }

// View implements [load.Viewer]. The query names its tables with the schema. All other names in it mean built-in
// objects, so that no object of another role becomes part of the view. Grants on the view stay. If the columns of the
// view have changed, the view is dropped and created again. That fails if another view depends on it.
func (d *DB) View(ctx context.Context, name, query string) error {
	return d.retry(ctx, func() error { return d.CreateView(ctx, name, query) })
}

// Accept implements [load.Destination].
func (d *DB) Accept(ctx context.Context, table string) (changes []load.Change, err error) {
	err = d.retry(ctx, func() error {
		changes, err = d.Store.Accept(ctx, table)
		return err
	})
	return changes, err
}

// View implements [sqlmerge.Session]. It replaces a view that penstock made.
func (t *transaction) View(ctx context.Context, v sqlmerge.View) error {
	place := t.db.place(v.Name)
	if v.Query == "" {
		_, err := t.undo(ctx, codeDependent, func() error { return t.run(ctx, "DROP VIEW "+place) })
		return err // a view on which others depend stays
	}
	create, err := t.createView(ctx, v)
	if err != nil {
		return err
	}
	if done, err := t.undo(ctx, codeOtherColumns, func() error { return t.run(ctx, create) }); done || err != nil {
		return err
	}
	oids, err := t.strings(ctx, "SELECT "+literal(place)+"::regclass::oid")
	if err != nil {
		return err
	}
	grants, err := t.strings(ctx, grantsSQL(oids[0], place))
	if err != nil {
		return err
	}
	return t.run(ctx, "DROP VIEW "+place+"; "+create+"; "+strings.Join(grants, "; "))
}

// invokerVersion is the first version of the server in which a view can use the rights of the querying role, in the
// form of server_version_num.
const invokerVersion = 150000

// createView returns the statement that creates a view. A new view reads tables with the rights of the querying role,
// if the server supports that. An existing view keeps its options, so that its readers do not lose access.
func (t *transaction) createView(ctx context.Context, v sqlmerge.View) (string, error) {
	place := t.db.place(v.Name)
	options, err := t.strings(ctx, "SELECT coalesce((SELECT "+optionsSQL("c")+" FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass("+literal(place)+")), "+
		"CASE WHEN pg_catalog.to_regclass("+literal(place)+") IS NULL AND pg_catalog.current_setting('server_version_num')::int >= "+strconv.Itoa(invokerVersion)+" THEN 'security_invoker = true' ELSE '' END)")
	if err != nil {
		return "", err
	}
	with := ""
	if options[0] != "" {
		with = " WITH (" + options[0] + ")"
	}
	create := "CREATE OR REPLACE VIEW " + place + with + " AS " + v.Query
	if v.Comment != "" {
		create += "; COMMENT ON VIEW " + place + " IS " + literal(v.Comment)
	}
	return create, nil
}
