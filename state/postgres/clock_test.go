//go:build unix

package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// The estimate is never ahead of the database's clock. It is behind by at most the duration of the quickest answer. The
// database's clock may differ from this machine's clock by any amount of time.
func TestClock(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		hours := rapid.IntRange(-12, 12)
		ways := rapid.SliceOfN(rapid.Int64Range(0, int64(20*time.Second)), 4, 40).Draw(r, "ways")
		apart, set := time.Duration(hours.Draw(r, "apart"))*time.Hour, time.Duration(hours.Draw(r, "set"))*time.Hour
		synctest.Test(t, func(t *testing.T) {
			c := clock{base: time.Now()}
			require.Equal(t, time.Now(), c.now(), "before the first reading, this machine's clock is used")
			quickest := time.Hour
			for i := 0; i+1 < len(ways); i += 2 {
				if i >= len(ways)/2 && set != 0 {
					apart, set, quickest = apart+set, 0, time.Hour
				}
				asked := time.Now()
				time.Sleep(time.Duration(ways[i]))
				there := time.Now().Round(0).Add(apart)
				time.Sleep(time.Duration(ways[i+1]))
				c.record(there, asked)
				quickest = min(quickest, time.Duration(ways[i+1]))
				time.Sleep(time.Minute)
				behind := time.Now().Round(0).Add(apart).Sub(c.now())
				require.GreaterOrEqual(t, behind, time.Duration(0))
				require.LessOrEqual(t, behind, quickest)
			}
		})
	})
}

func TestStoreNow(t *testing.T) {
	s := New(Options{URL: in(t, pgtest.Start(t).URL())})
	defer func() { require.NoError(t, s.Close()) }()
	pool, err := s.connections(t.Context())
	require.NoError(t, err)
	there := func() (at time.Time) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&at))
		return at
	}
	before := there()
	units, err := s.OpenUnits(t.Context())
	require.NoError(t, err)
	_, err = units.ClaimUnits(t.Context(), state.Claim{Worker: "w", For: time.Minute})
	require.NoError(t, err)
	now := s.Now()
	require.False(t, now.Before(before))
	require.False(t, now.After(there()))
}
