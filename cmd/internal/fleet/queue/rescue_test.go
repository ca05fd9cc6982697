package queue_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestRescueOfLostWorkers(t *testing.T) {
	b := newBench(t)
	b.plan("all", "schedule", 2)
	pool, schema, err := b.store.Queue(t.Context())
	require.NoError(t, err)
	jobs := pgx.Identifier{schema, "river_job"}.Sanitize()
	_, err = pool.Exec(t.Context(), "UPDATE "+jobs+" SET state = 'running', attempt = max_attempts, attempted_by = '{gone}', attempted_at = clock_timestamp() - interval '3 minutes'")
	require.NoError(t, err)
	end := b.work("next", 2, "all")
	require.ElementsMatch(t, []string{"all 0", "all 1"}, b.next(2))
	b.release()
	b.release()
	require.Eventually(t, func() bool {
		var left int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+jobs+" WHERE state <> 'completed'").Scan(&left))
		return left == 0
	}, time.Minute, 20*time.Millisecond)
	end()
}
