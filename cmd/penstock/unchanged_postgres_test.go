//go:build cgo && duckdb_arrow && unix

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// TestUnchangedRunIsCheap: a run over all streams in which no record has changed needs few statements, few commits and
// little WAL in Postgres. But rows that a user deleted by hand are loaded again.
func TestUnchangedRunIsCheap(t *testing.T) {
	if os.Getenv(pgtest.Env) != "" {
		t.Skip("counting statements needs a server of the test's own")
	}
	to := newPostgresTarget(t, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=20000")
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["*"]`, to)
	run := func() {
		t.Helper()
		code, out, errs := p.penstock(t, "sync")
		require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	}
	run()
	run()
	c := to.connect(t)
	execute := func(sql string) {
		t.Helper()
		_, err := c.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	execute("CREATE EXTENSION pg_stat_statements")
	execute("SELECT pg_stat_statements_reset()")
	begun, used, before := time.Now(), cpu(), writtenWAL(t, c)
	run()
	used = cpu() - used
	wal := writtenWAL(t, c) - before
	statements, commits := serverWork(t, c)
	t.Logf("%d statements, %d commits, %d KB of WAL; %.2f s of CPU in %v", statements, commits, wal>>10, used, time.Since(begun))
	require.Less(t, statements, mostStatements)
	require.Less(t, commits, mostCommits)
	require.Less(t, wal, mostWAL)

	require.Zero(t, count(t, c, "SELECT coalesce(sum(written + deleted), 0)::int FROM _penstock_certificates WHERE run = (SELECT max(run) FROM _penstock_runs)"))
	require.Equal(t, count(t, c, "SELECT count(DISTINCT stream)::int FROM _penstock_certificates"),
		count(t, c, "SELECT count(DISTINCT stream)::int FROM _penstock_certificates WHERE run = (SELECT max(run) FROM _penstock_runs)"), "each stream has a certificate of the run")
	execute("DELETE FROM crm_leads WHERE id = (SELECT min(id) FROM crm_leads)")
	execute("UPDATE v2_contacts SET _penstock_hash = '' WHERE id = (SELECT min(id) FROM v2_contacts)")
	execute("UPDATE v2_contacts SET _penstock_deleted_at = now() WHERE id = (SELECT max(id) FROM v2_contacts)")
	execute("DROP TABLE hr_leave_types CASCADE")
	run()
	require.Equal(t, 3, count(t, c, "SELECT sum(written)::int FROM _penstock_certificates WHERE stream IN ('crm.leads', 'v2.contacts') AND run = (SELECT max(run) FROM _penstock_runs)"))
	if d := p.compare(t); len(d) > 0 {
		t.Fatal(strings.Join(d, "\n"))
	}
}

// Bounds of what a run over all streams without a change does in Postgres. A slow machine needs a few more commits.
const (
	mostStatements = 1000
	mostCommits    = 40
	mostWAL        = 1 << 20
)

func count(t *testing.T, c *pgx.Conn, sql string) (n int) {
	t.Helper()
	require.NoError(t, c.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// serverWork returns how many statements and commits the server has counted in the database.
func serverWork(t *testing.T, c *pgx.Conn) (statements, commits int) {
	t.Helper()
	const calls = "SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
	return count(t, c, calls), count(t, c, calls+" AND query = 'COMMIT'")
}

func writtenWAL(t *testing.T, c *pgx.Conn) int {
	t.Helper()
	return count(t, c, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int")
}
