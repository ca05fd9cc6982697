//go:build cgo && duckdb_arrow && unix

package main

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// TestUnchangedNights: many workspaces share the tables of one schema. There is one run each night, and nothing has
// changed at the sources. The work of the server in each run stays below the limits for a run without changes. With
// all streams, each run adds less than 83 kB to penstock's own tables for each workspace, or 1 MB for twelve
// workspaces. The short form has 3 nights and 2 workspaces with few streams. If PENSTOCK_TEST_TRIALS sets another
// number of nights, there are 12 workspaces.
func TestUnchangedNights(t *testing.T) {
	if os.Getenv(pgtest.Env) != "" {
		t.Skip("counting statements needs a server that only this test uses")
	}
	nights, workspaces := 3, 3
	if testing.Short() {
		workspaces = 2
	}
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		nights, workspaces = n, 12
	}
	// There must be no checkpoint during the test, because after a checkpoint the server writes whole pages to the
	// WAL. The server's own vacuum, some minutes after the first load, would write 3 MB of WAL.
	to := newPostgresTarget(t, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=20000", "checkpoint_timeout=1d", "autovacuum=off")
	w := newWorlds(t, workspaces)
	w.configure(t, to.url(), `"*"`, unchangedStreams())
	sync := func() {
		t.Helper()
		code, out, errs := w.penstock(t, "sync")
		require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	}
	sync()
	sync()
	c := to.connect(t)
	_, err := c.Exec(t.Context(), "CREATE EXTENSION pg_stat_statements")
	require.NoError(t, err)
	streams := count(t, c, "SELECT count(*)::int FROM _penstock_state")
	before := bookkeepingBytes(t, c)
	for range nights {
		did := measureServer(t, c, sync)
		t.Logf("penstock's own tables have grown by %d kB since the first night began", (bookkeepingBytes(t, c)-before)>>10)
		did.bounded(t, workspaces, streams)
	}
	const perStream, lastPages = 1_000_000 / 12 / 149, 8 * 8192
	require.Less(t, bookkeepingBytes(t, c)-before, nights*streams*perStream+lastPages)
}

// bookkeepingBytes returns the size of penstock's own tables. It vacuums the tables first, which a server otherwise
// does by itself from time to time.
func bookkeepingBytes(t *testing.T, c *pgx.Conn) int {
	t.Helper()
	for _, table := range []string{"state", "runs", "certificates", "rejects", "conventions", "parents", "schema"} {
		_, err := c.Exec(t.Context(), "VACUUM _penstock_"+table)
		require.NoError(t, err)
	}
	return count(t, c, "SELECT sum(pg_total_relation_size(oid))::int FROM pg_class WHERE relkind = 'r' AND relname LIKE '\\_penstock\\_%'")
}

// measureServer measures what the server does while f runs.
func measureServer(t *testing.T, c *pgx.Conn, f func()) serverWork {
	t.Helper()
	const wal = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int"
	const calls = "SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%pg_current_wal_lsn%'"
	_, err := c.Exec(t.Context(), "SELECT pg_stat_statements_reset()")
	require.NoError(t, err)
	begun, used, before := time.Now(), cpu(), count(t, c, wal)
	f()
	used = cpu() - used
	did := serverWork{wal: count(t, c, wal) - before, statements: count(t, c, calls), commits: count(t, c, calls+" AND query = 'COMMIT'"), took: time.Since(begun)}
	t.Logf("%d statements, %d commits, %d KB of WAL; %.2f s of CPU in %v", did.statements, did.commits, did.wal>>10, used, time.Since(begun))
	return did
}
