package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// trusted returns the SQL condition that a role already has all rights of penstock's role. The condition is true if the
// given role is penstock's role, a member of penstock's role, or a superuser. If penstock calls a function of such a
// role, the role gains no new rights.
func trusted(role string) string {
	return "pg_catalog.pg_has_role(" + role + ", current_user, 'MEMBER')"
}

// ownedBy returns the SQL condition that penstock's role has the owner's rights on the objects of the given role.
// penstock's role has these rights if it is the given role or a member of that role. Postgres treats a superuser as a
// member of every role. So if penstock's role is a superuser, the condition is instead that the given role is trusted.
func ownedBy(role string) string {
	return "CASE WHEN (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN " + trusted(role) + " ELSE pg_catalog.pg_has_role(" + role + ", 'USAGE') END"
}

// suspect is the SQL condition that the relation c may be unsafe: it belongs to another role, or it may have triggers
// or rules. foreignSQL examines such relations in detail.
var suspect = "(c.relhastriggers OR c.relhasrules OR NOT " + trusted("c.relowner") + " OR NOT " + ownedBy("c.relowner") + ")"

// foreignSQL selects the relations c of the schema to which it is not safe to write, and the reasons. The reasons are:
//
//   - Another role owns the table.
//   - The table has a rule.
//   - Row-level security hides rows of the table.
//   - A trigger, a check or another expression calls a function of a role that is not trusted. The function would run
//     with the rights of penstock's role.
//
// Invariant 16
func foreignSQL(schema, where string) string {
	table := "pg_catalog.quote_ident(t.nspname) || '.' || pg_catalog.quote_ident(t.relname)"
	return `WITH t AS (SELECT c.oid, c.relname, n.nspname, c.relkind, c.relowner FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = ` + literal(schema) + ` AND ` + where + `),
		code AS (SELECT 'pg_proc'::regclass AS class, oid, oid AS function FROM pg_catalog.pg_proc WHERE oid >= 16384 AND NOT ` + trusted("proowner") + `
			UNION ALL SELECT 'pg_operator'::regclass, oid, oprcode::oid FROM pg_catalog.pg_operator WHERE oid >= 16384 AND NOT ` + trusted("oprowner") + `)
		SELECT t.relname, 'table ' || ` + table + ` || ' belongs to role ' || pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(t.relowner)) || ': ALTER TABLE ' || ` + table + ` || ' OWNER TO ' || pg_catalog.quote_ident(current_user)
			FROM t WHERE t.relkind = 'r' AND NOT ` + ownedBy("t.relowner") + `
		UNION ALL SELECT t.relname, 'rule ' || pg_catalog.quote_ident(r.rulename) || ' changes what is written to table ' || ` + table + ` || ': DROP RULE ' || pg_catalog.quote_ident(r.rulename) || ' ON ' || ` + table + `
			FROM t JOIN pg_catalog.pg_rewrite r ON r.ev_class = t.oid WHERE t.relkind = 'r'
		UNION ALL SELECT t.relname, 'row-level security hides rows of table ' || ` + table + ` || ': ALTER TABLE ' || ` + table + ` || ' NO FORCE ROW LEVEL SECURITY, or give role ' || pg_catalog.quote_ident(current_user) || ' BYPASSRLS'
			FROM t WHERE t.relkind = 'r' AND pg_catalog.row_security_active(t.oid)
		UNION ALL SELECT DISTINCT t.relname, pg_catalog.pg_describe_object(f.classid, f.objid, f.objsubid) || ' calls function ' || p.proname || ', which belongs to role ' || pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(p.proowner)) ||
			' and would act with the rights of role ' || pg_catalog.quote_ident(current_user) || ': drop it, or change the owner of the function to ' || pg_catalog.quote_ident(current_user)
			FROM code JOIN pg_catalog.pg_proc p ON p.oid = code.function
			JOIN pg_catalog.pg_depend f ON f.refclassid = code.class AND f.refobjid = code.oid
				AND f.classid IN ('pg_catalog.pg_trigger'::regclass, 'pg_catalog.pg_constraint'::regclass, 'pg_catalog.pg_attrdef'::regclass, 'pg_catalog.pg_class'::regclass, 'pg_catalog.pg_statistic_ext'::regclass)
			JOIN pg_catalog.pg_depend o ON o.classid = f.classid AND o.objid = f.objid AND o.refclassid = 'pg_catalog.pg_class'::regclass
			JOIN t ON t.oid = o.refobjid
		ORDER BY 1, 2`
}

// foreign returns the reasons that foreignSQL selects, by name of the relation.
func foreign(ctx context.Context, s *session, schema, where string) (map[string][]string, error) {
	found := map[string][]string{}
	err := s.query(ctx, foreignSQL(schema, where), func(v [][]byte) error {
		found[string(v[0])] = append(found[string(v[0])], string(v[1]))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check the owners of the tables: %w", err)
	}
	return found, nil
}

// ownRelations is the condition that the relation c has the name of one of penstock's own tables.
func ownRelations() string { return "c.relname IN (" + literals(ownNames()) + ")" }

// ownNamesSQL returns a query for objects that have the name of one of penstock's own tables, but are not tables. The
// result has the name and kind of each object. The query runs outside a transaction, where penstock's settings do not
// apply. So the query names the schema of each operator, and escapes backslashes.
func ownNamesSQL(schema string) string {
	named := "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(schema) + "'::pg_catalog.name"
	return `SELECT c.relname, c.relkind FROM pg_catalog.pg_class c
		WHERE c.relname OPERATOR(pg_catalog.=) ANY ('{` + strings.Join(ownNames(), ",") + `}'::pg_catalog.name[]) AND c.relkind OPERATOR(pg_catalog.<>) ALL ('{r,i,S}'::pg_catalog."char"[])
		AND c.relnamespace OPERATOR(pg_catalog.=) (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) ` + named + `)`
}

// checkOwnNames returns an error if a view or another object has the name of one of penstock's own tables. Reading such
// an object would run code of its owner.
func checkOwnNames(ctx context.Context, s *session, sql dialect) error {
	return s.query(ctx, ownNamesSQL(sql.schema), func(v [][]byte) error {
		return fmt.Errorf("%w: %s has the name of penstock's table %s: drop it, or use another schema", ErrUnsafe, cmp.Or(kindName(string(v[1])), "a view"), sql.Place(string(v[0])))
	})
}

// ownCheck is the result of the checks in the first transaction of a process.
type ownCheck struct {
	unsafe   []string // why it is not safe to write to one of penstock's own tables
	carried  []string // tables of carried keys
	warnings []string // see excessSQL
}

// checkOwn makes the checks of the first transaction, in one statement.
func checkOwn(ctx context.Context, s *session, schema string) (found ownCheck, err error) {
	query := "SELECT 1, x.* FROM (" + foreignSQL(schema, ownRelations()) + ") AS x (name, text) UNION ALL SELECT 2, x.name, '' FROM (" + passTablesSQL(schema, carriedPrefix) +
		") AS x (name) UNION ALL SELECT 3, '', x.text FROM (" + excessSQL(schema) + ") AS x (text)"
	first := ""
	err = s.query(ctx, query, func(v [][]byte) error {
		switch name := string(v[1]); string(v[0]) {
		case "1":
			if first = cmp.Or(first, name); name == first {
				found.unsafe = append(found.unsafe, string(v[2]))
			}
		case "2":
			found.carried = append(found.carried, name)
		default:
			found.warnings = append(found.warnings, string(v[2]))
		}
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("check the owners of the tables: %w", err)
	}
	return found, nil
}

// excessSQL selects warnings about rights that penstock's role has but does not need.
func excessSQL(schema string) string {
	quoted := literal(ident(schema))
	return `SELECT 'role ' || quote_ident(rolname) || ' is a superuser: penstock only needs CREATE ROLE penstock LOGIN PASSWORD …; CREATE SCHEMA … AUTHORIZATION penstock'
			FROM pg_roles WHERE rolname = current_user AND rolsuper
		UNION ALL SELECT 'role ' || quote_ident(current_user) || ' is a member of ' || quote_ident(rolname) || ', which acts on the server itself: REVOKE ' || quote_ident(rolname) || ' FROM ' || quote_ident(current_user)
			FROM pg_roles WHERE rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program') AND pg_has_role(oid, 'USAGE')
			AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
		UNION ALL SELECT CASE a.grantee WHEN 0 THEN 'everybody' ELSE 'role ' || quote_ident(pg_get_userbyid(a.grantee)) END || ' may create tables and functions in schema ' || ` + quoted + ` || ': REVOKE CREATE ON SCHEMA ' || ` + quoted + ` || ' FROM ' ||
				CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
			FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = ` + literal(schema) + ` AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner AND (a.grantee = 0 OR NOT ` + trusted("a.grantee") + `)`
}
