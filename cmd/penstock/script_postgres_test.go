//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// objectsOf returns a query that lists the tables, views, functions, types, triggers and rules of a schema. Indexes
// and sequences are left out.
func objectsOf(schema string) string {
	const of = " WHERE n.nspname = "
	return `SELECT string_agg(name, ' ') FROM (
		SELECT relname::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace` + of + schema + ` AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
		UNION ALL SELECT proname || '()' FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace` + of + schema + `
		UNION ALL SELECT 'type:' || typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace` + of + schema + ` AND typrelid = 0 AND typelem = 0
		UNION ALL SELECT 'trigger:' || tgname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace` + of + schema + ` AND NOT tgisinternal
		UNION ALL SELECT 'rule:' || rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace` + of + schema + ` AND rulename <> '_RETURN') all_of_them`
}

// TestScriptsPostgres runs the scripts whose names begin with postgres. All scripts use the same server, at $POSTGRES.
// Each script has its own schema, $SCHEMA. The command `postgres SQL [VALUE]` runs statements as superuser, and
// compares the last result with VALUE.
func TestScriptsPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	var last atomic.Int32
	setup := func(env *testscript.Env) error {
		env.Setenv("POSTGRES", server.URL())
		env.Setenv("LIMITED", server.As("limited", "limited"))
		env.Setenv("SCHEMA", fmt.Sprintf("script_%d", last.Add(1)))
		return setupScript(env)
	}
	runScripts(t, scripts(t, "postgres*.txtar"), setup, map[string]command{
		"postgres": func(ts *testscript.TestScript, neg bool, args []string) {
			sql := strings.ReplaceAll(args[0], "SCHEMA", ts.Getenv("SCHEMA"))
			text, err := firstText(server.URL(), sql)
			ts.Check(err)
			if len(args) > 1 && (text == args[1]) == neg {
				ts.Fatalf("%s: %q", sql, text)
			}
		},
		"objects": func(ts *testscript.TestScript, _ bool, args []string) {
			schema := strings.ReplaceAll(args[0], "SCHEMA", ts.Getenv("SCHEMA"))
			text, err := firstText(server.URL(), objectsOf("'"+schema+"'"))
			ts.Check(err)
			surfaceIs(ts, args[1], withoutModes(strings.Fields(text)))
		},
	})
}

// firstText runs statements and returns the first value of the last result.
func firstText(url, sql string) (string, error) {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	results, err := c.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 || len(results[len(results)-1].Rows) == 0 {
		return "", err
	}
	return string(results[len(results)-1].Rows[0][0]), nil
}
