package history

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/state"
)

// The net effect of a key's changes is the difference between two rows: the row before the first change, and the
// row after the last change.
func TestRowLogNet(t *testing.T) {
	insert := func(after string) RowChange { return RowChange{key: `[1]`, action: "insert", after: after} }
	update := func(before, after string) RowChange {
		return RowChange{key: `[1]`, action: "update", before: before, after: after}
	}
	remove := func(before string) RowChange { return RowChange{key: `[1]`, action: "delete", before: before} }
	revive := func(after string) RowChange { return RowChange{key: `[1]`, action: "revive", after: after} }
	for name, test := range map[string]struct {
		changes []RowChange
		keyless bool
		want    string
	}{
		"inserted":                   {changes: []RowChange{insert(`{"a":1}`)}, want: `[{"change":"inserted","key":[1],"after":{"a":1}}]`},
		"inserted and changed":       {changes: []RowChange{insert(`{"a":1}`), update(`{"a":1}`, `{"a":2}`)}, want: `[{"change":"inserted","key":[1],"after":{"a":2}}]`},
		"inserted and removed":       {changes: []RowChange{insert(`{"a":1}`), remove(`{"a":1}`)}, want: `null`},
		"removed":                    {changes: []RowChange{remove(`{"a":1}`)}, want: `[{"change":"deleted","key":[1],"before":{"a":1}}]`},
		"restored":                   {changes: []RowChange{revive(`{"a":1}`)}, want: `[{"change":"inserted","key":[1],"after":{"a":1}}]`},
		"removed and restored":       {changes: []RowChange{remove(`{"a":1}`), revive(`{"a":1}`)}, want: `null`},
		"changed":                    {changes: []RowChange{update(`{"a":1,"b":2}`, `{"a":3,"b":2}`)}, want: `[{"change":"updated","key":[1],"columns":{"a":{"before":1,"after":3}}}]`},
		"changed and changed back":   {changes: []RowChange{update(`{"a":1}`, `{"a":2}`), update(`{"a":2}`, `{"a":1}`)}, want: `null`},
		"a new column":               {changes: []RowChange{update(`{"a":1}`, `{"a":1,"c":"x"}`)}, want: `[{"change":"updated","key":[1],"columns":{"c":{"before":null,"after":"x"}}}]`},
		"a new column without value": {changes: []RowChange{update(`{"a":1}`, `{"a":1,"c":null}`)}, want: `null`},
		"equal rows, one more":       {keyless: true, changes: []RowChange{insert(`{"a":1}`), insert(`{"a":1}`), remove(`{"a":1}`)}, want: `[{"change":"inserted","key":[1],"rows":1,"after":{"a":1}}]`},
		"equal rows, two fewer":      {keyless: true, changes: []RowChange{remove(`{"a":1}`), remove(`{"a":1}`)}, want: `[{"change":"deleted","key":[1],"rows":2,"before":{"a":1}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(RowLog{Changes: test.changes}.Net(test.keyless))
			require.NoError(t, err)
			require.Equal(t, test.want, string(got))
		})
	}
}

// After old row changes of a pipeline were removed, a diff must not begin before the oldest change that is left.
func TestCheckKept(t *testing.T) {
	m, noon := loadtest.NewMemory(nil), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := func(id, pipeline, counts string) []any {
		return []any{id, pipeline, noon, noon, "complete", counts, nil}
	}
	removed := `{"removed": {"changes": 3, "before": "2026-02-01T00:00:00Z"}}`
	require.NoError(t, load.CommitRows(t.Context(), m, state.Key{Pipeline: "nightly", Stream: "runs"}, "", "1", load.Pass{Run: "r", Whole: true}, load.Runs,
		run("r1", "nightly", "{}"), run("r2", "nightly", removed), run("r3", "hourly", `{"removed": {"certificates": 1, "before": "2026-02-01T00:00:00Z"}}`),
		run("r4", "daily", `{"removed": {"changes": 0, "before": "2026-02-01T00:00:00Z", "error": "killed"}}`)))
	for _, test := range []struct {
		run   string
		since time.Time
		want  string
	}{
		{"r1", noon.AddDate(0, -2, 0), "the logged changes from before 2026-02-01 00:00:00 were removed"},
		{"r1", noon, ""},
		{"r3", noon.AddDate(0, -2, 0), ""}, // only certificates were removed
		{"r4", noon.AddDate(0, -2, 0), "the logged changes from before 2026-02-01 00:00:00 were removed"}, // unknown
	} {
		if err := CheckKept(t.Context(), m, test.run, test.since); test.want != "" {
			require.EqualError(t, err, test.want)
		} else {
			require.NoError(t, err)
		}
	}
}
