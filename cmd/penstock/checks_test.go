package main

import (
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load/sqlite"
	"github.com/penstock-data/penstock/schemas"
)

// A long list is committed in parts. If a row of a later part fails a check that holds rows back, the earlier parts
// stay, and the cursor stays at the held part. When the check only warns, the next run goes on from there.
func TestHoldInTheMiddleOfAPass(t *testing.T) {
	db, err := sqlite.Open(sqlite.Options{Path: filepath.Join(t.TempDir(), "w.sqlite")})
	require.NoError(t, err)
	defer db.Close()
	source := sourcetest.New(map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true}})
	check := schemas.Check{Name: "ids", Kind: schemas.CheckRange, Columns: []string{"id"}, Max: "21", Hold: true}
	conf := pipeline.Config{
		Name: "nightly", Source: source, Streams: []schemas.Stream{sourcetest.Stream("crm_leads")}, GroupRows: 1, GroupBytes: 1,
		Destinations: []pipeline.Destination{{Name: "warehouse", Destination: db}}, Checks: map[string][]schemas.Check{"crm_leads": {check}},
	}
	run := func(status pipeline.Status) pipeline.StreamReport {
		t.Helper()
		rep, err := pipeline.Run(t.Context(), conf)
		require.NoError(t, err)
		require.Equal(t, status, rep.Streams[0].Status, "%+v", rep.Streams)
		return rep.Streams[0]
	}
	numbers := func(sql string) (all []int64) {
		t.Helper()
		require.NoError(t, db.Query(t.Context(), sql, func(b arrow.RecordBatch) error {
			for i := range int(b.NumRows()) {
				all = append(all, b.Column(0).(*array.Int64).Value(i))
			}
			return nil
		}))
		return all
	}
	held := func(s pipeline.StreamReport) {
		t.Helper()
		require.ErrorContains(t, s.Err, "checks hold back rows of crm_leads: ids: 3 rows fail")
		require.Empty(t, s.Verdict, "no end of a pass is committed")
		require.Len(t, s.Checks, 1)
		require.Equal(t, checks.Held, s.Checks[0].Outcome)
		require.Equal(t, []int64{20}, numbers("SELECT count(*) FROM crm_leads"))
		require.Equal(t, []int64{0}, numbers("SELECT count(*) FROM sqlite_master WHERE name = '_penstock_certificates'"))
	}
	held(run(pipeline.StatusHeld))
	stored, err := db.Cursor(t.Context(), conf.Key("crm_leads"))
	require.NoError(t, err)
	held(run(pipeline.StatusHeld))
	again, err := db.Cursor(t.Context(), conf.Key("crm_leads"))
	require.NoError(t, err)
	require.Equal(t, stored, again)
	require.Equal(t, []int64{2}, numbers("SELECT count(*) FROM _penstock_checks WHERE result = 'held'"))

	check.Hold = false
	conf.Checks["crm_leads"][0] = check
	s := run(pipeline.StatusComplete)
	require.Equal(t, checks.Failed, s.Checks[0].Outcome)
	require.Equal(t, []int64{25}, numbers("SELECT count(*) FROM crm_leads"))
	conf.Checks["crm_leads"][0].Hold = true
	s = run(pipeline.StatusComplete)
	require.Equal(t, checks.Failed, s.Checks[0].Outcome, "rows that are stored fail the check, and hold nothing back")
}

// A stream without records has no table. Its checks still have results.
func TestChecksOfAnAbsentTable(t *testing.T) {
	db, err := sqlite.Open(sqlite.Options{Path: filepath.Join(t.TempDir(), "w.sqlite")})
	require.NoError(t, err)
	defer db.Close()
	source := sourcetest.New(map[string]*sourcetest.List{"crm_leads": {Size: 10, Total: true}})
	unchecked := 0
	rep, err := pipeline.Run(t.Context(), pipeline.Config{
		Name: "nightly", Source: source, Streams: []schemas.Stream{sourcetest.Stream("crm_leads")},
		Destinations: []pipeline.Destination{{Name: "warehouse", Destination: db}},
		Checks:       map[string][]schemas.Check{"crm_leads": {{Name: "some", Kind: schemas.CheckRows, Min: "1"}}},
		Progress: func(e pipeline.Event) {
			if e.Kind == pipeline.EventEnd && e.Report.Unchecked && len(e.Report.Checks) == 0 {
				unchecked++
			}
		},
	})
	require.NoError(t, err)
	require.Equal(t, 1, unchecked, "the checks run after the last stream")
	require.Equal(t, pipeline.StatusComplete, rep.Streams[0].Status)
	require.Len(t, rep.Streams[0].Checks, 1)
	require.Equal(t, "some: the table does not exist: 0 rows, fewer than 1", rep.Streams[0].Checks[0].String())
}
