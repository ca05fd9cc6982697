//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/state"
)

// TestSnapshotEnds: a read that is cancelled at any moment, or panics, leaves no open transaction. Otherwise all later
// reads and commits of the process would fail.
func TestSnapshotEnds(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "w.duckdb"), Options{})
	b := backend{d: d}
	write := func(ctx context.Context, query string) error {
		w, err := b.Write(ctx)
		if err != nil {
			return err
		}
		defer w.End()
		if err := w.Exec(ctx, query); err != nil {
			return fmt.Errorf("%w, %w", err, w.Rollback())
		}
		return w.Commit(t.Context())
	}
	read := func(ctx context.Context, row func([]driver.Value) error) error {
		return b.Read(ctx, func(r sqlmerge.Reader) error { return r.Query(ctx, "SELECT x FROM db.main.a", row) })
	}
	ignored := func([]driver.Value) error { return nil }
	require.NoError(t, write(t.Context(), "CREATE TABLE db.main.a AS SELECT 1 AS x"))
	reads := 60
	if !testing.Short() {
		reads = 600
	}
	for range reads {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(300*time.Microsecond))
		_ = read(ctx, ignored)
		cancel()
		require.NoError(t, read(t.Context(), ignored))
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(600*time.Microsecond))
		_ = write(ctx, "INSERT INTO db.main.a VALUES (2)")
		cancel()
		require.NoError(t, write(t.Context(), "INSERT INTO db.main.a VALUES (3)"))
	}
	require.Panics(t, func() { _ = read(t.Context(), func([]driver.Value) error { panic("in a row") }) })
	require.NoError(t, read(t.Context(), ignored))
	require.NoError(t, write(t.Context(), "INSERT INTO db.main.a VALUES (4)"))
}

// TestSurveyOfManyRows surveys more rows than the engine's memory could hold as sorted texts at once. // Invariant 6
func TestSurveyOfManyRows(t *testing.T) {
	const tables = 45
	d := openTest(t, filepath.Join(t.TempDir(), "w.duckdb"), Options{})
	var streams []load.Surveyed
	table, pages := narrow("r1", load.MostDigested, func(i int) int64 { return int64(i) })
	rows := int64(0)
	for i := range tables {
		table.Name = fmt.Sprintf("narrow%02d", i)
		k := state.Key{Pipeline: "p", Stream: table.Name}
		x, err := d.Begin(t.Context(), k, "", load.Pass{Run: "r1", Whole: true})
		require.NoError(t, err)
		rows = 0
		for _, p := range pages {
			require.NoError(t, x.Write(t.Context(), table, p))
			rows += p.NumRows()
		}
		require.NoError(t, x.Commit(t.Context(), "1"))
		streams = append(streams, load.Surveyed{Key: k, Table: table.Name})
	}
	require.NoError(t, d.Survey(t.Context(), streams, nil))
	for _, s := range streams {
		st, ok := d.SurveyOf(s.Key)
		require.True(t, ok)
		require.NotEmpty(t, st.Digest)
		require.Equal(t, rows, st.Rows)
	}
}
