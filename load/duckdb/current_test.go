//go:build cgo && duckdb_arrow

package duckdb

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// currentRig returns a database that has rows in the table crm_leads, and the path of its file. The file is not
// attached to the engine.
func currentRig(t *testing.T) (*DB, string) {
	path := filepath.Join(t.TempDir(), "views.duckdb")
	d := openTest(t, path, Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
	d.detachIdle()
	return d, path
}

func byHand(t *testing.T, d *DB, path string, changes ...string) {
	t.Helper()
	d.detachIdle()
	exec, done := plainSession(t, path)
	defer done()
	for _, q := range changes {
		exec(q)
	}
}

func TestCurrentView(t *testing.T) {
	d, path := currentRig(t)
	require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v1", 2)))
	require.Len(t, rowsOf(t, d, "crm_leads"), 3)
	require.Len(t, rowsOf(t, d, "crm_leads_current"), 2)
	byHand(t, d, path, "ALTER TABLE crm_leads ADD COLUMN note TEXT", "UPDATE crm_leads SET note = 'x'", "FROM crm_leads_current")
	require.NoError(t, put(t.Context(), t, d, "run000000003", "b", "c", leadRows("run000000003", "v2", 3)))
	require.Len(t, rowsOf(t, d, "crm_leads_current"), 3, "a user's column does not break the view")
	require.NoError(t, d.Close())
	elsewhere := filepath.Join(t.TempDir(), "another name.duckdb")
	require.NoError(t, os.WriteFile(elsewhere, contents(t, path), 0o600))
	plainDB(t, elsewhere)("FROM crm_leads_current")
}

func TestCurrentViewNameTaken(t *testing.T) {
	for _, theirs := range []string{
		"CREATE TABLE crm_leads_current (theirs INT)", "CREATE VIEW crm_leads_current AS SELECT 1 AS theirs", `CREATE TABLE "CRM_Leads_Current" (theirs INT)`,
	} {
		path := filepath.Join(t.TempDir(), "theirs.duckdb")
		exec, done := plainSession(t, path)
		exec(theirs)
		done()
		d := openTest(t, path, Options{})
		require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
		byHand(t, d, path, "SELECT theirs FROM crm_leads_current")
	}
	d, path := currentRig(t)
	byHand(t, d, path, "DROP VIEW crm_leads_current", "CREATE TABLE crm_leads_current (theirs INT)")
	require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3)))
	byHand(t, d, path, "SELECT theirs FROM crm_leads_current")
}

func TestCurrentViewDropped(t *testing.T) {
	d, path := currentRig(t)
	byHand(t, d, path, "DROP VIEW crm_leads_current")
	require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3)))
	require.Empty(t, rowsOf(t, d, "crm_leads_current"), "a view that a user dropped is not recreated")
	byHand(t, d, path, "DROP TABLE crm_leads")
	require.NoError(t, put(t.Context(), t, d, "run000000003", "b", "c", leadRows("run000000003", "v3", 3)))
	require.Len(t, rowsOf(t, d, "crm_leads_current"), 3, "the view is created together with its table")
}
