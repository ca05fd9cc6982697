package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/load/sqlmerge"
)

// View implements [sqlmerge.Session]. It replaces a view that penstock made.
func (t *transaction) View(ctx context.Context, v sqlmerge.View) error {
	place := t.b.Place(v.Name)
	if v.Query == "" {
		_, err := t.undo(ctx, codeDependent, func() error { return t.run(ctx, "DROP VIEW "+place) })
		return err // a view on which other views depend is not replaced
	}
	create, err := t.createView(ctx, v)
	if err != nil {
		return err
	}
	if done, err := t.undo(ctx, codeDefinition, func() error { return t.run(ctx, create) }); done || err != nil {
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

// invokerVersion is the first version of the server in which a view can use the rights of the querying role. The number
// has the format of the server's parameter server_version_num.
const invokerVersion = 150000

// createView returns the statement that creates a view. A new view reads tables with the rights of the querying role,
// if the server supports that. An existing view keeps its options, so that its readers do not lose access.
func (t *transaction) createView(ctx context.Context, v sqlmerge.View) (string, error) {
	place := t.b.Place(v.Name)
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

// view holds the properties of a view that a user or penstock has created.
type view struct {
	oid        string
	name       string // quoted, with the schema
	columns    []string
	options    string
	definition string
	owner      string
	granted    bool     // rights on the whole view were granted or revoked
	grants     []string // GRANT statements
	comments   []string // COMMENT statements
	print      string   // fingerprint of the properties; it must be the same after the view was created again
}

// withoutViews runs f, which changes the types of the given columns. Postgres refuses this change while views depend on
// the columns. So withoutViews first drops these views, and the views that depend on them. After f, it creates all of
// them again in the same transaction, with their owners, grants, options and comments. If a view cannot be created
// again, the transaction fails. Invariant 16
func withoutViews(ctx context.Context, s *session, table string, columns []string, f func() error) error {
	if len(columns) == 0 {
		return f()
	}
	views, err := dependents(ctx, s, table, columns)
	if err != nil {
		return err
	}
	for i := len(views) - 1; i >= 0; i-- {
		if err := s.run(ctx, "DROP VIEW "+views[i].name); err != nil {
			return fmt.Errorf("widen column %s: drop view %s: %w", strings.Join(columns, ", "), views[i].name, err)
		}
	}
	if err := f(); err != nil {
		return err
	}
	for _, v := range views {
		if err := recreateView(ctx, s, v); err != nil {
			return fmt.Errorf("widen column %s: recreate view %s: %w", strings.Join(columns, ", "), v.name, err)
		}
	}
	return nil
}

// dependents returns the views that depend on columns of a table, directly or through other views. Each view comes
// before the views that depend on it.
func dependents(ctx context.Context, s *session, table string, columns []string) ([]view, error) {
	oids, err := s.strings(ctx, `WITH RECURSIVE v (oid, depth) AS (
		SELECT r.ev_class, 1 FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
		JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
		WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
		AND d.refobjid = `+literal(table)+`::regclass AND a.attname IN (`+literals(columns)+`)
		UNION SELECT r.ev_class, v.depth + 1 FROM v JOIN pg_catalog.pg_depend d ON d.refobjid = v.oid
		JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
		WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND r.ev_class <> v.oid
		) SELECT oid FROM v GROUP BY oid ORDER BY max(depth), oid`)
	if err != nil {
		return nil, err
	}
	views := make([]view, len(oids))
	for i, oid := range oids {
		if err := replaceable(ctx, s, oid); err != nil {
			return nil, fmt.Errorf("widen column %s: %w", strings.Join(columns, ", "), err)
		}
		if views[i], err = readView(ctx, s, oid); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// replaceable returns an error if the object is not a plain view. It also returns an error if something is attached to
// the view, such as a trigger, because dropping the view would drop the trigger too.
func replaceable(ctx context.Context, s *session, oid string) error {
	in, err := s.strings(ctx, `SELECT pg_catalog.pg_describe_object('pg_class'::regclass, oid, 0) FROM pg_catalog.pg_class WHERE oid = `+oid+` AND relkind <> 'v'
		UNION ALL SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_catalog.pg_depend d
		LEFT JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
		WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = `+oid+` AND d.deptype <> 'i' AND (r.oid IS NULL OR r.rulename <> '_RETURN')
		UNION ALL SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_catalog.pg_depend d
		JOIN pg_catalog.pg_type t ON d.refobjid IN (t.oid, t.typarray)
		WHERE d.refclassid = 'pg_type'::regclass AND t.typrelid = `+oid+` AND d.deptype <> 'i'`)
	if err != nil || in == nil {
		return err
	}
	return fmt.Errorf("%s depends on the column and cannot be recreated: drop that object, let the next run widen the column, then create the object again", in[0])
}

func readView(ctx context.Context, s *session, oid string) (view, error) {
	v := view{oid: oid}
	query := `SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname), pg_catalog.pg_get_viewdef(c.oid),
		pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(c.relowner)),
		` + optionsSQL("c") + `, c.relacl IS NOT NULL FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ` + oid
	err := s.query(ctx, query, func(values [][]byte) error {
		v.name, v.definition, v.owner, v.options = string(values[0]), string(values[1]), string(values[2]), string(values[3])
		v.granted = string(values[4]) == "t"
		return nil
	})
	if err != nil {
		return v, err
	}
	if v.columns, err = s.strings(ctx, "SELECT attname FROM pg_catalog.pg_attribute WHERE attnum > 0 AND attrelid = "+oid+" ORDER BY attnum"); err != nil {
		return v, err
	}
	if v.grants, err = s.strings(ctx, grantsSQL(oid, v.name)); err != nil {
		return v, err
	}
	if v.comments, err = s.strings(ctx, commentsSQL(oid, v.name)); err != nil {
		return v, err
	}
	v.print, err = fingerprint(ctx, s, oid)
	return v, err
}

// optionsSQL returns an expression for the options of the view c, in the syntax of CREATE VIEW.
func optionsSQL(c string) string {
	return `(SELECT pg_catalog.string_agg(pg_catalog.split_part(o, '=', 1) || ' = ' || pg_catalog.quote_literal(pg_catalog.substr(o, pg_catalog.strpos(o, '=') + 1)), ', ') FROM pg_catalog.unnest(` + c + `.reloptions) AS o)`
}

// grantsSQL returns a query for the GRANT statements that repeat the grants on a view.
func grantsSQL(oid, name string) string {
	to := `CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(grantee)) END || CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END`
	return `SELECT 'GRANT ' || privilege_type || ' ON ' || ` + literal(name) + ` || ' TO ' || ` + to + `
		FROM pg_catalog.pg_class c, LATERAL pg_catalog.aclexplode(c.relacl) WHERE c.oid = ` + oid + `
		UNION ALL SELECT 'GRANT ' || privilege_type || ' (' || pg_catalog.quote_ident(a.attname) || ') ON ' || ` + literal(name) + ` || ' TO ' || ` + to + `
		FROM pg_catalog.pg_attribute a, LATERAL pg_catalog.aclexplode(a.attacl) WHERE a.attrelid = ` + oid
}

func commentsSQL(oid, name string) string {
	return `SELECT 'COMMENT ON ' || CASE d.objsubid WHEN 0 THEN 'VIEW ' || ` + literal(name) + ` ELSE 'COLUMN ' || ` + literal(name) + ` || '.' || pg_catalog.quote_ident(a.attname) END
		|| ' IS ' || pg_catalog.quote_literal(d.description)
		FROM pg_catalog.pg_description d LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0
		WHERE d.classoid = 'pg_class'::regclass AND d.objoid = ` + oid
}

// fingerprint returns all properties of a view except its definition. When the type of a column has changed, Postgres
// prints the definition differently, although the view has not changed.
func fingerprint(ctx context.Context, s *session, oid string) (string, error) {
	out, err := s.strings(ctx, `SELECT pg_catalog.json_build_array(c.relname, c.relnamespace, c.relowner, c.reloptions, pg_catalog.obj_description(c.oid, 'pg_class'),
		(SELECT pg_catalog.array_agg(x::text ORDER BY x::text) FROM pg_catalog.unnest(c.relacl) AS x),
		(SELECT pg_catalog.json_agg(pg_catalog.json_build_array(a.attname, pg_catalog.col_description(c.oid, a.attnum),
			(SELECT pg_catalog.array_agg(x::text ORDER BY x::text) FROM pg_catalog.unnest(a.attacl) AS x)) ORDER BY a.attnum)
		FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0))::text FROM pg_catalog.pg_class c WHERE c.oid = `+oid)
	return strings.Join(out, ""), err
}

// recreateView creates a view again, and checks that its properties are unchanged.
func recreateView(ctx context.Context, s *session, v view) error {
	with := ""
	if v.options != "" {
		with = " WITH (" + v.options + ")"
	}
	statements := []string{
		"CREATE VIEW " + v.name + " (" + idents(v.columns) + ")" + with + " AS " + strings.TrimSuffix(strings.TrimSpace(v.definition), ";"),
		"ALTER VIEW " + v.name + " OWNER TO " + v.owner,
	}
	if err := s.run(ctx, strings.Join(append(statements, v.comments...), "; ")); err != nil {
		return err
	}
	// Revoke the rights that the new view has by default. If there were explicit grants, also revoke the default
	// rights of the owner.
	acl := "c.relacl"
	if v.granted {
		acl = "coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))"
	}
	revokes, err := s.strings(ctx, `SELECT DISTINCT 'REVOKE ALL ON `+strings.ReplaceAll(v.name, "'", "''")+` FROM ' || CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(grantee)) END
		FROM pg_catalog.pg_class c, LATERAL pg_catalog.aclexplode(`+acl+`) WHERE c.oid = `+literal(v.name)+"::regclass")
	if err != nil {
		return err
	}
	if err := s.run(ctx, strings.Join(append(revokes, v.grants...), "; ")); err != nil {
		return err
	}
	oids, err := s.strings(ctx, "SELECT "+literal(v.name)+"::regclass::oid")
	if err != nil {
		return err
	}
	print, err := fingerprint(ctx, s, oids[0])
	if err == nil && print != v.print {
		return errors.New("its grants, owner or comments would change")
	}
	return err
}
