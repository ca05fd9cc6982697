package state

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If old hours cannot be joined, Add returns an error, but the new points are stored.
func TestHistoryJoinFails(t *testing.T) {
	t.Parallel()
	h, err := OpenHistory(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer h.Close()
	series, begin := Series{Pipeline: "nightly"}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	add := func(at time.Time) error { return h.Add(t.Context(), []Work{{Series: series, At: at, Runs: 1}}) }
	require.NoError(t, add(begin))
	run := func(text string) {
		require.NoError(t, h.file.change(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), text)
			return err
		}))
	}
	run("CREATE TRIGGER kept BEFORE DELETE ON points BEGIN SELECT RAISE(ABORT, 'kept'); END")
	at := begin.Add(HourAge + 24*time.Hour)
	require.ErrorContains(t, add(at), "join old hours of the history")
	require.ErrorContains(t, add(at), "join old hours of the history", "it is tried again")
	points, err := h.Points(t.Context(), []Series{series}, at)
	require.NoError(t, err)
	require.Len(t, points, 1)
	require.Equal(t, int64(2), points[0].Runs)
	run("DROP TRIGGER kept")
	require.NoError(t, add(at))
	points, err = h.Points(t.Context(), []Series{series}, begin)
	require.NoError(t, err)
	require.Len(t, points, 2)
	require.Equal(t, 24*time.Hour, points[1].Width)
}
