//go:build cgo && duckdb_arrow

package duckdb

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user's column with the name rowid hides the engine's column. A removal of old rows deletes no other row then.
func TestDeleteBesideUserColumn(t *testing.T) {
	d, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "a.duckdb")})
	require.NoError(t, err)
	defer d.Close()
	_, release, err := d.acquire(t.Context(), writing)
	require.NoError(t, err)
	defer release()
	x := &transaction{session: d.window.engine.write, d: d}
	for _, q := range []string{
		"CREATE TABLE db.main.own (rowid BIGINT, old BOOLEAN)",
		"INSERT INTO db.main.own VALUES (1, true), (1, false), (1, false)",
	} {
		require.NoError(t, x.Exec(t.Context(), q))
	}
	n, _, err := x.DeleteSome(t.Context(), "own", "old", "", 10)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}
