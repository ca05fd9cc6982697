package loadtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// testTrim removes old certificates and notes. The newest certificate of each stream stays. The rows of other pipelines
// stay too.
func testTrim(t *testing.T, d Driver) {
	b := newFixture(t, d)
	trimmer, able := b.dest.(load.Trimmer)
	if !able {
		t.Skip("the destination cannot remove old rows")
	}
	n, err := trimmer.Trim(t.Context(), "nightly", []string{"people"}, noon.AddDate(0, 0, -1))
	require.NoError(t, err)
	require.Zero(t, n, "before the first run")
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	certificate := func(run, pipeline, stream string, at time.Time) []any {
		return []any{run, pipeline, stream, at, "proven", `{}`, 1, 1, 0, 1, 0, 0, 0, 1, 1}
	}
	note := func(table string, at time.Time) []any {
		return []any{at, "r1", table, "name", "", load.ActionDrift, "", "", "warned: null_rate"}
	}
	old, young := noon.Add(-time.Hour), noon.Add(time.Hour)
	write := func(t schemas.Table, rows ...[]any) {
		next := state.Cursor(t.Name)
		require.NoError(b, load.CommitRows(b.Context(), b.dest, b.key, b.cursor, next, b.pass, t, rows...))
		b.cursor = next
	}
	write(load.Certificates,
		certificate("r1", "nightly", "a", old), certificate("r2", "nightly", "a", young),
		certificate("r1", "nightly", "b", old), certificate("r0", "nightly", "b", old),
		certificate("r0", "hourly", "a", old), certificate("r1", "hourly", "a", old))
	write(load.Changes, note("people", old), note("people", young), note("people__phones", old), note("peoples", old))
	made := len(b.driver.Rows(t, b.dest, load.Changes.Name))
	n, err = trimmer.Trim(t.Context(), "nightly", []string{"people"}, noon)
	require.NoError(t, err)
	require.Equal(t, load.Trimmed{Certificates: 1, Notes: 2}, n, "only the run r0 has no certificate that is the newest of its stream")
	require.Len(t, b.driver.Rows(t, b.dest, load.Certificates.Name), 5)
	require.Len(t, b.driver.Rows(t, b.dest, load.Changes.Name), made-2)
	write(load.Certificates, certificate("r0", "nightly", "a", old))
	n, err = trimmer.Trim(t.Context(), "nightly", []string{"people"}, noon)
	require.NoError(t, err)
	require.Zero(t, n, "an earlier call on this day has removed the rows")
	n, err = trimmer.Trim(t.Context(), "nightly", []string{"people"}, noon.AddDate(0, 0, 1))
	require.NoError(t, err)
	require.EqualValues(t, 1, n.Certificates)
	b.reopen()
	b.run(2)
	require.EqualValues(t, 1, b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}).Unchanged)
}
