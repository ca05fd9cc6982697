//go:build unix

package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// A new lease deletes leases that expired long ago. It does not delete a lease that a process holds, however long ago the
// process took the lease, or one that expired recently. // Invariant 13
func TestUnusedLeases(t *testing.T) {
	s := New(Options{URL: in(t, pgtest.Start(t).URL())})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	held, err := s.Lease(t.Context(), "held", "", 0)
	require.NoError(t, err)
	execute(t, s, "UPDATE leases SET since = now() - interval '30 days'")
	execute(t, s, `INSERT INTO leases SELECT name, nextval('lease_tokens'), 'killed', now() - (days + 1) * interval '1 day', now() - days * interval '1 day'
		FROM (VALUES ('gone', 8), ('recent', 6)) AS v(name, days)`)
	taken, err := s.Lease(t.Context(), "taken", "", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"pipeline held", "pipeline taken", "recent"}, names(t, s, "leases"))
	require.Greater(t, taken.Token(), held.Token())
	select {
	case <-held.Lost():
		t.Fatal("lost")
	default:
	}
	execute(t, s, `INSERT INTO leases SELECT 'live ' || i, i, 'h', now(), now() FROM generate_series(1, 20000) i`)
	execute(t, s, "ANALYZE leases")
	require.Contains(t, plan(t, s, expiredLeases, unusedLease, mostUnused), "Index Scan using leases_by_age")
	require.NoError(t, taken.Release())
	require.NoError(t, held.Release())
}

// A new budget deletes budgets that were not used for a long time. It waits for no budget that a process is changing, and
// does not delete it. A budget that was deleted begins again. // Invariant 4
func TestUnusedBudgets(t *testing.T) {
	s := New(Options{URL: in(t, pgtest.Start(t).URL())})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	change := func(name string, update func(kept []byte)) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		require.NoError(t, s.ChangeBudget(ctx, name, func(_ time.Time, kept []byte) ([]byte, error) {
			update(kept)
			return []byte("kept"), nil
		}))
	}
	none := func([]byte) {}
	for _, name := range []string{"busy", "gone", "recent"} {
		change(name, none)
	}
	execute(t, s, "UPDATE budgets SET used = current_date - 31 WHERE name <> 'recent'")
	execute(t, s, "UPDATE budgets SET used = current_date - 29 WHERE name = 'recent'")
	change("busy", func([]byte) { change("new", none) })
	require.Equal(t, []string{"busy", "new", "recent"}, names(t, s, "budgets"))
	change("newer", none)
	require.Equal(t, []string{"busy", "new", "newer", "recent"}, names(t, s, "budgets"), "the budget was used today")
	change("gone", func(kept []byte) { require.Nil(t, kept) })
	execute(t, s, "INSERT INTO budgets SELECT 'live ' || i, '' FROM generate_series(1, 20000) i")
	execute(t, s, "ANALYZE budgets")
	require.Contains(t, plan(t, s, unusedBudgets, unusedBudget, mostUnused), "Index Scan using budgets_by_use")
}

func execute(t *testing.T, s *Store, sql string) {
	t.Helper()
	require.NoError(t, s.change(t.Context(), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql)
		return err
	}))
}

func names(t *testing.T, s *Store, table string) (all []string) {
	t.Helper()
	require.NoError(t, s.read(t.Context(), func(q querier) error {
		rows, err := q.Query(t.Context(), fmt.Sprintf(`SELECT name FROM %s ORDER BY name COLLATE "C"`, table))
		if err == nil {
			all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	}))
	return all
}

// plan returns the plan of a statement.
func plan(t *testing.T, s *Store, sql string, values ...any) string {
	t.Helper()
	var lines []string
	require.NoError(t, s.change(t.Context(), func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, values...)
		if err == nil {
			lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	}))
	return strings.Join(lines, "\n")
}

// A heartbeat changes one row for all units that were claimed together. The row of a claim is deleted when the claim has
// expired and none of its units is running any more, and an expired claim cannot be extended. If another process has
// locked a unit, the unit is released later, and its claim stays until then. // Invariant 13
func TestExpiredClaims(t *testing.T) {
	s := New(Options{URL: in(t, pgtest.Start(t).URL())})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	units, err := s.OpenUnits(t.Context())
	require.NoError(t, err)
	_, err = units.AddUnits(t.Context(), []state.Unit{{Run: "r", Pipeline: "p", Part: "a"}, {Run: "r", Pipeline: "p", Part: "b"}})
	require.NoError(t, err)
	held, err := units.ClaimUnits(t.Context(), state.Claim{Worker: "frozen", For: time.Minute})
	require.NoError(t, err)
	require.Len(t, held, 2)
	ids := []int64{held[0].ID, held[1].ID}
	claims := func() (n int) {
		require.NoError(t, s.read(t.Context(), func(q querier) error { return q.QueryRow(t.Context(), "SELECT count(*) FROM claims").Scan(&n) }))
		return n
	}
	kept, err := units.ExtendClaims(t.Context(), "frozen", ids, time.Minute)
	require.NoError(t, err)
	require.Equal(t, ids, kept)
	require.Equal(t, 1, claims())

	execute(t, s, "UPDATE claims SET until = now() - interval '1 second'")
	kept, err = units.ExtendClaims(t.Context(), "frozen", ids, time.Minute)
	require.NoError(t, err)
	require.Empty(t, kept)
	claim := func() int {
		got, err := units.ClaimUnits(t.Context(), state.Claim{Worker: "heir", For: time.Minute})
		require.NoError(t, err)
		return len(got)
	}
	require.NoError(t, s.change(t.Context(), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT FROM units WHERE id = $1 FOR UPDATE", ids[0])
		require.NoError(t, err)
		require.Equal(t, 1, claim(), "the unit that is not locked")
		return nil
	}))
	require.Equal(t, 2, claims())
	require.Equal(t, 1, claim(), "the unit that was locked")
	require.Zero(t, claim())
	require.Equal(t, 2, claims(), "the claim of the frozen worker is deleted")
}
