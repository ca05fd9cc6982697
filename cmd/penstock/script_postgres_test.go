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

// TestScriptsPostgres runs the scripts whose name begins with postgres. They
// share a server at $POSTGRES, where each has a schema of its own, $SCHEMA.
// `postgres SQL [VALUE]` runs statements there as the role that may do
// everything, and holds the last one's answer.
func TestScriptsPostgres(t *testing.T) {
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
	})
}

// firstText runs statements and gives the first value of the last one's answer.
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
