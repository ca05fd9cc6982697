package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// While another process joins old hours, Add does not wait. If they cannot be joined, Add returns an error, but the new
// points are stored.
func TestHistoryJoinFails(t *testing.T) {
	at := in(t, pgtest.Start(t).URL())
	s := New(Options{URL: at})
	defer s.Close()
	h, err := s.OpenHistory(t.Context())
	require.NoError(t, err)
	series, begin := state.Series{Pipeline: "nightly"}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	add := func(at time.Time) error { return h.Add(t.Context(), []state.Work{{Series: series, At: at, Runs: 1}}) }
	runs := func(since time.Time) (n []int64) {
		points, err := h.Points(t.Context(), []state.Series{series}, since)
		require.NoError(t, err)
		for _, p := range points {
			n = append(n, p.Runs)
		}
		return n
	}
	require.NoError(t, add(begin))
	other, err := pgx.Connect(t.Context(), at)
	require.NoError(t, err)
	defer other.Close(t.Context())
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM history_joined FOR UPDATE")
	require.NoError(t, err)
	later := begin.Add(state.HourAge + 24*time.Hour)
	require.NoError(t, add(later), "the other process joins")
	require.NoError(t, tx.Rollback(t.Context()))
	for _, text := range []string{"CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'kept'; END $$", "CREATE TRIGGER kept BEFORE DELETE ON history FOR EACH ROW EXECUTE FUNCTION kept()"} {
		_, err = other.Exec(t.Context(), text)
		require.NoError(t, err)
	}
	require.ErrorContains(t, add(later), "join old hours of the history")
	require.Equal(t, []int64{2}, runs(later))
	_, err = other.Exec(t.Context(), "DROP TRIGGER kept ON history")
	require.NoError(t, err)
	require.NoError(t, add(later))
	require.Equal(t, []int64{3, 1}, runs(begin))
}
