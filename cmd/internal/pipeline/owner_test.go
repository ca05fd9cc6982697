package pipeline

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

type spoil struct {
	name string
	do   func(t *testing.T, r *rig, table string)
	says string // reason in the notice; "" if the change cannot be detected
}

var spoils = []spoil{
	{name: "nothing", do: func(*testing.T, *rig, string) {}},
	{name: "dropped", do: func(_ *testing.T, r *rig, table string) { r.memory.Drop(table, false) }, says: "does not exist any more"},
	{name: "emptied", do: func(_ *testing.T, r *rig, table string) { r.memory.Drop(table, true) }, says: "has no rows, but had some after the last pass"},
	{name: "created again", do: func(t *testing.T, r *rig, table string) {
		tables, err := r.memory.Tables(t.Context(), table)
		require.NoError(t, err)
		r.memory.Drop(table, false)
		k := (&run{Config: r.config}).Key(r.config.Streams[0].Name)
		at, err := r.memory.Cursor(t.Context(), k)
		require.NoError(t, err)
		tx, err := r.memory.Begin(t.Context(), k, at, load.Pass{Run: runid.New(time.Now())})
		require.NoError(t, err)
		b := loadtest.Batch(t, tables[0], loadtest.Row{"id": "7", "name": "n7", schemas.ColRun: "0", schemas.ColHash: "h", schemas.ColSyncedAt: "2026-11-20T08:00:00Z"})
		defer b.Release()
		require.NoError(t, tx.Write(t.Context(), tables[0], b))
		p, err := cursor.Decode(at)
		require.NoError(t, err)
		p.Passes++ // as a commit of deltas does
		require.NoError(t, tx.Commit(t.Context(), p.Encode()))
	}, says: "was created after the last pass"},
}

// If the table was dropped, emptied or replaced, the next run does not continue at the cursor. It reads the whole
// stream and reports why.
func TestCursorKnowsItsTable(t *testing.T) {
	for _, c := range spoils {
		t.Run(c.name, func(t *testing.T) {
			m := atRest(false)
			r := newMoving(t, m, sinceFilter)
			require.EqualValues(t, 500, r.once().Counts.Written)
			m.clock = m.clock.Add(10 * time.Second)
			r.once()
			c.do(t, r.rig, "items")
			before := m.requests
			rep := r.once()
			require.Equal(t, StatusComplete, rep.Status, rep.Reasons)
			if c.says == "" {
				require.LessOrEqual(t, m.requests-before, 5)
				require.Empty(t, rep.Notices)
				return
			}
			require.Empty(t, r.missing())
			require.EqualValues(t, 500, rep.Counts.Written)
			require.Len(t, rep.Notices, 1)
			require.Equal(t, drift.NoticeTable, rep.Notices[0].Kind)
			require.Contains(t, rep.Notices[0].Reason, "items "+c.says)
			before = m.requests
			require.Empty(t, r.once().Notices, "the notice is given once")
			require.LessOrEqual(t, m.requests-before, 5, "and the next pass is incremental again")
		})
	}
}

func TestResumeKnowsItsTable(t *testing.T) {
	for _, c := range spoils {
		t.Run(c.name, func(t *testing.T) {
			l := &sourcetest.List{Records: sourcetest.Records(0, 50), Size: 10, Total: true}
			l.Fail = func(page int) error {
				if page == 4 {
					return errors.New("connection reset")
				}
				return nil
			}
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
			r.must(StatusFailed)
			require.Len(t, r.alive("crm_leads"), 30)
			c.do(t, r, "crm_leads")
			l.Fail = nil
			r.restart(nil)
			before := r.source.Read
			rep := r.must(StatusComplete)
			require.Equal(t, sourcetest.Records(0, 50), r.alive("crm_leads"))
			if c.says == "" {
				require.Equal(t, 2+5, r.source.Read-before, "the interrupted pass continues, and a second pass reads the whole list")
				return
			}
			require.Equal(t, Proven, rep.Streams[0].Verdict)
			require.Equal(t, 5, r.source.Read-before)
			require.Contains(t, rep.Streams[0].Notices[0].Reason, "crm_leads "+c.says)
		})
	}
}

// A run reads no page if the address of its source differs from the address that is stored with the table. It also
// reads no page if another source or pipeline owns the table.
func TestOwnerIsCheckedFirst(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	from := func(source, address string) {
		r.config.Origins = map[string]load.Origin{"crm_leads": {Source: source, Address: address}}
	}
	from("main", "https://a.example")
	r.must(StatusComplete)
	r.must(StatusComplete)
	pages := r.source.Read

	from("main", "https://b.example")
	rep := r.must(StatusPartial)
	require.Equal(t, StatusHeld, rep.Streams[0].Status)
	require.Equal(t, 75, rep.ExitCode())
	require.ErrorContains(t, rep.Streams[0].Err, "from source main at https://a.example, which is now at https://b.example")
	require.ErrorContains(t, rep.Streams[0].Err, "penstock state adopt --stream crm_leads")

	from("other", "https://b.example")
	require.ErrorContains(t, r.must(StatusFailed).Streams[0].Err, "belongs to source main at https://a.example, not to source other at https://b.example")

	from("main", "https://a.example")
	r.config.Name = "hourly"
	require.ErrorContains(t, r.must(StatusFailed).Streams[0].Err, "of pipeline nightly, not to stream crm_leads of pipeline hourly")
	require.Equal(t, pages, r.source.Read, "nothing was read")

	r.config.Name = "nightly"
	r.must(StatusComplete)
	require.Len(t, r.alive("crm_leads"), 25)
}
