//go:build unix

package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/state"
)

// A table whose rows are hidden from penstock's role does not keep the other streams from the survey.
func TestSurveyLeavesOutHiddenTables(t *testing.T) {
	server, _ := attacked(t)
	server.Exec("GRANT CREATE ON DATABASE postgres TO loader")
	defer server.Exec("DROP SCHEMA IF EXISTS mine CASCADE; REVOKE CREATE ON DATABASE postgres FROM loader")
	d := open(t, Options{URL: server.As("loader", "l"), Schema: "mine"})
	keys := []state.Key{leads, {Pipeline: "nightly", Stream: "crm.deals"}, {Pipeline: "nightly", Stream: "crm.notes"}}
	tables := []string{"crm_leads", "crm_deals", "crm_notes"}
	var streams []load.Surveyed
	for i, k := range keys {
		x, err := d.Begin(t.Context(), k, "", load.Pass{Run: runID(1), Whole: true})
		require.NoError(t, err)
		table := rootTable(tables[i])
		b := loadtest.Batch(t, table, row(1, 0, "h", loadtest.Row{"id": "1"}))
		require.NoError(t, x.Write(t.Context(), table, b))
		b.Release()
		require.NoError(t, x.Commit(t.Context(), "c1"))
		streams = append(streams, load.Surveyed{Key: k, Table: tables[i]})
	}
	server.Exec("ALTER TABLE mine.crm_leads ENABLE ROW LEVEL SECURITY; ALTER TABLE mine.crm_leads FORCE ROW LEVEL SECURITY; REVOKE SELECT ON mine.crm_notes FROM loader")
	require.NoError(t, d.Survey(t.Context(), streams, nil))
	for i, k := range keys {
		st, ok := d.SurveyOf(k)
		require.Equal(t, i == 1, ok, k.Stream)
		require.Equal(t, i == 1, st.Digest != "", k.Stream)
	}
}
