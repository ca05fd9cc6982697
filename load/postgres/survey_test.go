//go:build unix

package postgres

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// If the rows of one table are hidden from penstock's role, the survey still reads the tables of the other streams.
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

// If a user has dropped the table of the cursors, a survey still reads the open rejects. // Invariant 14
func TestSurveyWithoutCursors(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	reject := []any{"r1", leads.Pipeline, leads.Stream, 1, 1, "", time.Now(), "id", "", "", "", true, nil, "id", "extract", nil}
	require.NoError(t, load.CommitRows(t.Context(), d, leads, "", "c1", load.Pass{Run: runID(1)}, load.Rejects, reject))
	server.Exec("DROP TABLE s._penstock_state")
	d = open(t, Options{URL: server.URL(), Schema: "s"})
	rows := int64(0)
	own := []load.SurveyedOwn{{Table: load.Rejects.Name, Columns: []string{"record_id"}, Visit: func(b arrow.RecordBatch) error { rows += b.NumRows(); return nil }}}
	require.NoError(t, d.Survey(t.Context(), []load.Surveyed{{Key: leads}}, own))
	require.EqualValues(t, 1, rows)
	_, ok := d.SurveyOf(leads)
	require.False(t, ok)
}

// A settlement moves a cursor even if a user has set the time in the cursor's row to NULL.
func TestSettleCursorWithoutTime(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	require.NoError(t, load.CommitRows(t.Context(), d, leads, "", "c1", load.Pass{Run: runID(1)}, load.Runs))
	server.Exec("UPDATE s._penstock_state SET updated_at = NULL")
	d = open(t, Options{URL: server.URL(), Schema: "s"})
	require.NoError(t, d.Survey(t.Context(), []load.Surveyed{{Key: leads}}, nil))
	errs := d.Settle(t.Context(), []load.Settlement{{Key: leads, Expected: "c1", Next: "c2", Pass: load.Pass{Run: runID(2)}}})
	require.Equal(t, []error{nil}, errs)
	at, err := d.Cursor(t.Context(), leads)
	require.NoError(t, err)
	require.EqualValues(t, "c2", at)
}
