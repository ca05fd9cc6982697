//go:build unix

package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// BenchmarkTrim removes a million old row changes, which are stored before as many young ones. It reports the longest transaction. The
// second case has an open snapshot, which keeps a vacuum from removing the deleted rows.
func BenchmarkTrim(b *testing.B) {
	if testing.Short() {
		b.Skip("two million rows")
	}
	const rows = 1_000_000
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprintf("snapshot=%t", held), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				server := pgtest.Start(b, honest...)
				d, err := Open(b.Context(), Options{URL: server.URL(), Schema: "trim", JSON: "json"})
				require.NoError(b, err)
				now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
				require.NoError(b, load.CommitRows(b.Context(), d, state.Key{Pipeline: "p", Stream: "s"}, "", "1", load.Pass{Run: "r", Whole: true}, load.RowChanges))
				for _, at := range []time.Time{now.Add(-time.Hour), now.Add(time.Hour)} {
					server.Exec(fmt.Sprintf(`INSERT INTO trim._penstock_changes SELECT 'r', 'p', 's', 's', '%s', 'update', '["' || i || '"]', '{"name":"some name","city":"Zürich","n":1}', '{"name":"some other name","city":"Bern","n":2}' FROM generate_series(1, %d) i`, at.Format(time.RFC3339), rows))
				}
				server.Exec("VACUUM ANALYZE trim._penstock_changes")
				if held {
					x, err := Open(b.Context(), Options{URL: server.URL(), Schema: "trim", JSON: "json"})
					require.NoError(b, err)
					s, err := x.b.pool.acquire(b.Context())
					require.NoError(b, err)
					require.NoError(b, s.run(b.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"))
				}
				longest := watch(b, server)
				b.StartTimer()
				n, err := d.Trim(b.Context(), load.Retention{Pipeline: "p", Source: "a", Before: now})
				b.StopTimer()
				require.NoError(b, err)
				require.EqualValues(b, rows, n.RowChanges)
				b.ReportMetric(float64(longest().Milliseconds()), "longest-ms")
				require.NoError(b, d.Close())
			}
		})
	}
}

// watch measures the transactions that write, until the caller calls the function that it returns. That function
// returns the time of the longest transaction.
func watch(b *testing.B, server *pgtest.Server) func() time.Duration {
	d, err := Open(b.Context(), Options{URL: server.URL(), Schema: "other", JSON: "json"})
	require.NoError(b, err)
	s, err := d.b.pool.acquire(b.Context())
	require.NoError(b, err)
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		longest := int64(0)
		for {
			select {
			case <-stop:
				result <- time.Duration(longest) * time.Microsecond
				return
			case <-time.After(2 * time.Millisecond):
			}
			var age int64
			_ = s.numbers(b.Context(), "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start) * 1e6), 0)::bigint FROM pg_stat_activity WHERE backend_xid IS NOT NULL", &age)
			longest = max(longest, age)
		}
	}()
	return func() time.Duration { close(stop); return <-result }
}
