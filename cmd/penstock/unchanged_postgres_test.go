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

// TestUnchangedRunIsCheap: if no record has changed, a run needs few statements, few commits and little WAL in
// Postgres. If a user has deleted or changed rows by hand, the run still loads these rows again. The short form has
// few streams.
func TestUnchangedRunIsCheap(t *testing.T) {
	if os.Getenv(pgtest.Env) != "" {
		t.Skip("counting statements needs a server that only this test uses")
	}
	p, c := newUnchanged(t)
	did := runUnchanged(t, p, c)
	did.bounded(t, 1, count(t, c, "SELECT count(*)::int FROM _penstock_state"))

	require.Zero(t, count(t, c, "SELECT coalesce(sum(written + deleted), 0)::int FROM _penstock_certificates WHERE run = (SELECT max(run) FROM _penstock_runs)"))
	require.Equal(t, count(t, c, "SELECT count(DISTINCT stream)::int FROM _penstock_certificates"),
		count(t, c, "SELECT count(DISTINCT stream)::int FROM _penstock_certificates WHERE run = (SELECT max(run) FROM _penstock_runs)"), "each stream must have a certificate of the run")
	execute := func(sql string) {
		t.Helper()
		_, err := c.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	execute("DELETE FROM crm_leads WHERE id = (SELECT min(id) FROM crm_leads)")
	execute("UPDATE v2_contacts SET _penstock_hash = '' WHERE id = (SELECT min(id) FROM v2_contacts)")
	execute("UPDATE v2_contacts SET _penstock_deleted_at = now() WHERE id = (SELECT max(id) FROM v2_contacts)")
	execute("DROP TABLE hr_leave_types CASCADE")
	runAll(t, p)
	require.Equal(t, 3, count(t, c, "SELECT sum(written)::int FROM _penstock_certificates WHERE stream IN ('crm.leads', 'v2.contacts') AND run = (SELECT max(run) FROM _penstock_runs)"))
	if d := p.compare(t); len(d) > 0 {
		t.Fatal(strings.Join(d, "\n"))
	}
}

// serverWork counts what the server did during some runs: statements, commits, and bytes of WAL.
type serverWork struct {
	statements, commits, wal int
	took                     time.Duration
}

// bounded() fails the test if the server did too much work for the runs. The runs began at the same time, and no record
// had changed. A settlement waits at most five seconds, so a longer run has more settlements. Therefore the limit of
// statements grows with the number of settlements, but not with the number of streams. The limits are less than twice
// what the runs need: 24 statements for a run and 7 for a settlement, 4 commits in a short run, and 650 bytes of WAL
// for each stream.
func (w serverWork) bounded(t *testing.T, runs, streams int) {
	t.Helper()
	const perRun, perSettlement, perStream, perCommit = 30, 9, 1000, 2000
	settlements := w.commits - 2*runs // a run also commits at its beginning and at its end
	require.LessOrEqual(t, w.statements, runs*perRun+settlements*perSettlement)
	require.LessOrEqual(t, w.commits, runs*(5+int(w.took/(5*time.Second))))
	require.LessOrEqual(t, w.wal, streams*perStream+w.commits*perCommit)
}

// unchangedStreams returns the patterns of the streams that the tests read. In the short form, these include streams
// that are read twice, parents with child streams, an incremental stream, and streams with rejects.
func unchangedStreams() string {
	if testing.Short() {
		return `["crm.*", "v2.*", "hr.leave_types", "sales.invoices", "sales.invoice"]`
	}
	return `["*"]`
}

// newUnchanged loads streams into Postgres twice, and returns a connection to the tables.
func newUnchanged(t *testing.T) (*platform, *pgx.Conn) {
	t.Helper()
	// There must be no checkpoint during the test, because after a checkpoint the server writes whole pages to the
	// WAL.
	to := newPostgresTarget(t, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=20000", "checkpoint_timeout=1d")
	p := newPlatform(t, sandbox.Options{NoLimits: true}, unchangedStreams(), to)
	runAll(t, p)
	runAll(t, p)
	c := to.connect(t)
	_, err := c.Exec(t.Context(), "CREATE EXTENSION pg_stat_statements")
	require.NoError(t, err)
	return p, c
}

func runAll(t *testing.T, p *platform) {
	t.Helper()
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
}

// runUnchanged measures one run.
func runUnchanged(t *testing.T, p *platform, c *pgx.Conn) serverWork {
	t.Helper()
	return measureServer(t, c, func() { runAll(t, p) })
}

// unchangedFigures measures what a run over all streams does in Postgres if nothing has changed.
func unchangedFigures(t *testing.T) []figure {
	p, c := newUnchanged(t)
	bounded := func(what string, bound float64) figure {
		return figure{what: "Postgres, nothing changed: " + what, base: "the bound", ratio: share, reach: "<= 1", than: []float64{bound},
			holds: func(r float64) bool { return r <= 1 }}
	}
	all := []figure{bounded("statements", 40), bounded("commits", 4), bounded("bytes of WAL", 100_000)}
	for i := range *pairs {
		did := runUnchanged(t, p, c)
		for j, n := range []int{did.statements, did.commits, did.wal} {
			f := &all[j]
			if f.ours = append(f.ours, float64(n)); i > 0 {
				f.than = append(f.than, f.than[0])
			}
		}
	}
	return all
}

func count(t *testing.T, c *pgx.Conn, sql string) (n int) {
	t.Helper()
	require.NoError(t, c.QueryRow(t.Context(), sql).Scan(&n))
	return n
}
