package pipeline

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/schemas"
)

func TestIncrementalContinuesWhileThereAreChanges(t *testing.T) {
	m := atRest(true)
	r := newMoving(t, m, schemas.Incremental{Field: "updated_at", Format: schemas.MomentRFC3339})
	r.config.limits = perPage
	r.once()
	m.mu.Lock()
	for i := range 100 {
		m.rows[i].Name, m.rows[i].at = "changed", m.clock
	}
	m.mu.Unlock()
	m.clock = m.clock.Add(10 * time.Second)
	require.Equal(t, StatusComplete, r.once().Status)
	require.Empty(t, r.missing())
}

// Rows that change because the stream's rules changed do not count as changes that incremental passes missed.
func TestIncrementalReadsAllAfterTheRulesChange(t *testing.T) {
	m := atRest(false)
	r := newMoving(t, m, sinceFilter)
	r.once()
	r.once()
	mask := schemas.Rules{Masks: []schemas.MaskRule{{Column: "name", Exact: true, Mask: schemas.Mask{Action: schemas.MaskRedact}}}}
	r.config.Streams[0].Rules = mask
	r.restart(nil)
	rep := r.once()
	require.EqualValues(t, 500, rep.Counts.Written)
	require.Empty(t, rep.Notices)
	for _, row := range r.memory.Rows("items") {
		require.NotEqual(t, "new", row["name"])
	}
	before := m.requests
	require.Equal(t, Consistent, r.once().Verdict)
	require.Less(t, m.requests-before, 5, "the next pass is incremental again")
}

func TestIncrementalReadsAllAfterAColumnIsWidened(t *testing.T) {
	m := atRest(false)
	for i := range m.rows {
		m.rows[i].Size = json.RawMessage("1.50")
	}
	r := newMoving(t, m, sinceFilter)
	r.once()
	m.clock = m.clock.Add(time.Hour)
	m.rows[0].at, m.rows[0].Size = m.clock, "many"
	r.once()
	for _, n := range r.once().Notices {
		require.NotEqual(t, drift.NoticeIncremental, n.Kind, "rows written again are not a sign of missed changes")
	}
	sizes := map[string]int{}
	for _, row := range r.memory.Rows("items") {
		require.NotEmpty(t, row[schemas.ColHash])
		sizes[row["size"]]++
	}
	require.Equal(t, map[string]int{"many": 1, "1.50": 499}, sizes)
	before := m.requests
	r.once()
	require.Less(t, m.requests-before, 5)
}

// If the filter now leaves out a record, its row is deleted. If a later version of the record arrives in the same
// pass, the row stays.
func TestIncrementalFilter(t *testing.T) {
	for name, newest := range map[string]bool{"by a filter of the source": false, "the latest change first": true} {
		t.Run(name, func(t *testing.T) {
			m := atRest(newest)
			i := sinceFilter
			if newest {
				i.Param = ""
			}
			r := newMoving(t, m, i)
			r.config.Streams[0].Rules.Filter = []schemas.Condition{{Column: "name", NotIn: []string{"hidden"}}}
			m.rows[9].Name = "hidden"
			r.once()
			rename := func(to string, ids ...int) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.clock = m.clock.Add(time.Minute)
				for _, id := range ids {
					m.rows[id-1].Name, m.rows[id-1].at = to, m.clock
				}
				m.clock = m.clock.Add(10 * time.Second)
			}
			alive := func() map[string]string {
				all := map[string]string{}
				for _, row := range r.memory.Rows("items") {
					if row[schemas.ColDeletedAt] == "" {
						all[row["id"]] = row["name"]
					}
				}
				return all
			}
			require.Len(t, alive(), 499)
			rename("hidden", 3, 4)
			rename("changed", 5)
			before := m.requests
			rep := r.once()
			require.Less(t, m.requests-before, 10)
			require.EqualValues(t, 2, rep.Counts.Deleted)
			require.Len(t, alive(), 497)
			require.NotContains(t, alive(), "3")
			require.Equal(t, "changed", alive()["5"])
			rename("seen again", 3)
			require.EqualValues(t, 1, r.once().Counts.Written)
			require.Equal(t, "seen again", alive()["3"])
			require.Zero(t, r.once().Counts.Deleted)
			require.Len(t, alive(), 498)
		})
	}
}
