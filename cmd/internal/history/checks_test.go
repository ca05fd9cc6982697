package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/state"
)

// A failed check stays until a newer result of the same check is good, or until the check is removed from the
// configuration. A run that makes only some checks hides nothing.
func TestFailedChecks(t *testing.T) {
	d, noon := loadtest.NewMemory(nil), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	row := func(run, name, result string, at time.Time) []any {
		return []any{run, "nightly", "crm.leads", "t", name, "unique", "warn", at, result, 2, nil, `[["bob@example.com"]]`, nil, 1}
	}
	k := state.Key{Pipeline: "nightly", Stream: "crm.leads"}
	require.NoError(t, load.CommitRows(t.Context(), d, state.Key{Pipeline: "nightly", Stream: "_run"}, "", "c", load.Pass{Run: "r2"}, load.Checks,
		row("r1", "emails", "failed", noon), row("r1", "mended", "failed", noon), row("r1", "removed", "failed", noon), row("r1", "attempts", "failed", noon),
		row("r1", "attempts", "ok", noon.Add(time.Minute)), row("r2", "mended", "ok", noon), row("r2", "fresh", "ok", noon)))
	failed, err := FailedChecks(t.Context(), d, func(_, check string) bool { return check != "removed" })
	require.NoError(t, err)
	require.Equal(t, "emails: 2 rows fail", failed[k], "without values of rows")
}
