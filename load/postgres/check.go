package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// minVersion is the oldest supported version of the server, in the form of server_version_num.
const minVersion = 120000

// Problems lists rights that penstock's role lacks, and other problems of the database. Each line includes the
// statement that solves the problem, if there is one.
type Problems []string

// Error returns the first eight problems and the number of the others.
func (l Problems) Error() string {
	const most = 8
	if len(l) <= most {
		return strings.Join(l, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(l[:most], "; "), len(l)-most)
}

// lackingRights lists the problems that would make a run fail.
func lackingRights(ctx context.Context, s *session, schema string) (Problems, error) {
	var role, database string
	var version, utf8, replica, temp, exists, creator, usage, create int64
	err := s.query(ctx, "SELECT pg_catalog.quote_ident(current_user), pg_catalog.quote_ident(pg_catalog.current_database())", func(v [][]byte) error {
		role, database = string(v[0]), string(v[1])
		return nil
	})
	if err != nil {
		return nil, err
	}
	right := "(SELECT pg_catalog.has_schema_privilege(oid, '%s')::int FROM pg_catalog.pg_namespace WHERE nspname = " + literal(schema) + ")"
	err = s.numbers(ctx, "SELECT current_setting('server_version_num')::int, (current_setting('server_encoding') = 'UTF8')::int, pg_catalog.pg_is_in_recovery()::int, "+
		"pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP')::int, (SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = "+literal(schema)+"), "+
		"pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')::int, coalesce("+fmt.Sprintf(right, "USAGE")+", 1), coalesce("+fmt.Sprintf(right, "CREATE")+", 1)",
		&version, &utf8, &replica, &temp, &exists, &creator, &usage, &create)
	if err != nil {
		return nil, err
	}
	var out Problems
	quoted := ident(schema)
	for _, c := range []struct {
		bad bool
		say string
	}{
		{version < minVersion, fmt.Sprintf("the server has version %d; want 12 or later", version/10000)},
		{utf8 == 0, "the database's encoding is not UTF8: CREATE DATABASE … ENCODING 'UTF8'"},
		{replica == 1, "the server is a read-only replica: connect to the primary"},
		{temp == 0, fmt.Sprintf("the role has no right to create temporary tables: GRANT TEMP ON DATABASE %s TO %s", database, role)},
		{exists == 0 && creator == 0, fmt.Sprintf("schema %s is missing, and the role has no right to create it: CREATE SCHEMA %s AUTHORIZATION %s", quoted, quoted, role)},
		{usage == 0, fmt.Sprintf("the role has no right to use schema %s: GRANT USAGE ON SCHEMA %s TO %s", quoted, quoted, role)},
		{create == 0, fmt.Sprintf("the role has no right to create tables in schema %s: GRANT CREATE ON SCHEMA %s TO %s", quoted, quoted, role)},
	} {
		if c.bad {
			out = append(out, c.say)
		}
	}
	tables, err := lackingTables(ctx, s, schema)
	return append(out, tables...), err
}

// lackingTables checks the tables that penstock has made. The role must own them and see all of their rows. Other roles
// must not have attached functions to these tables, because such functions would run with the rights of penstock's
// role.
func lackingTables(ctx context.Context, s *session, schema string) (out Problems, err error) {
	found, err := foreign(ctx, s, schema, `NOT pg_catalog.starts_with(c.relname::text, `+literal(carriedPrefix)+`) AND (pg_catalog.starts_with(c.relname::text, `+literal(load.Prefix)+
		`) OR EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = `+literal(schemas.ColHash)+`))`)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[name]...)
	}
	return out, err
}
