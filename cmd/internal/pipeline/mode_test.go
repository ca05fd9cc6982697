package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

func (r *rig) rows(table string, keep func(loadtest.Row) bool) []sourcetest.Record {
	r.t.Helper()
	var out []sourcetest.Record
	for _, row := range r.memory.Rows(table) {
		if !keep(row) {
			continue
		}
		id, err := strconv.Atoi(row["id"])
		require.NoError(r.t, err)
		out = append(out, sourcetest.Record{ID: id, Name: row["name"]})
	}
	slices.SortStableFunc(out, func(a, b sourcetest.Record) int { return a.ID - b.ID })
	return out
}

func every(loadtest.Row) bool { return true }

func current(row loadtest.Row) bool { return row[schemas.ColValidTo] == "" }

func (r *rig) mode(m schemas.Mode) {
	for i := range r.config.Streams {
		t := &r.config.Streams[i].Table
		t.Mode = t.Mode.Or(m)
	}
}

func TestStreamsHaveTheirOwnModes(t *testing.T) {
	own := sourcetest.Stream("crm_deals")
	own.Table.Mode = schemas.Append
	r := newRig(t, map[string]*sourcetest.List{
		"crm_leads": {Records: sourcetest.Records(0, 3), Size: 10, Total: true},
		"crm_deals": {Records: sourcetest.Records(0, 3), Size: 10, Total: true},
	}, sourcetest.Stream("crm_leads"), own)
	r.mode(schemas.History)
	r.must(StatusComplete)
	for table, want := range map[string]schemas.Mode{"crm_leads": schemas.History, "crm_deals": schemas.Append} {
		tables, err := r.memory.Tables(context.Background(), table)
		require.NoError(t, err)
		require.Equal(t, want, tables[0].Mode)
	}
}

// During a pass in mode replace, a reader sees either the old table or the new one, never a mixture.
func TestReplaceIsAllOrNothing(t *testing.T) {
	before, after := sourcetest.Records(0, 50), append(sourcetest.Records(5, 45), sourcetest.Records(60, 70)...)
	for k := 1; k <= 6; k++ {
		l := &sourcetest.List{Records: before, Size: 10, Total: true}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		r.mode(schemas.Replace)
		r.must(StatusComplete)

		l.Records = after
		sourcetest.FailingAt(l, k)
		l.Wait = func(context.Context, int) {
			require.Equal(t, before, r.rows("crm_leads", every), "seen while the list was read")
		}
		r.restart(nil)
		if k <= 5 {
			r.must(StatusFailed)
			require.Equal(t, before, r.rows("crm_leads", every), "interrupted at page %d", k)
			l.Fail = nil
			r.restart(nil)
		}
		rep := r.must(StatusComplete)
		require.Equal(t, after, r.rows("crm_leads", every))
		require.EqualValues(t, 10, rep.Streams[0].Counts.Deleted)
		for _, row := range r.memory.Rows("crm_leads") {
			require.NotContains(t, row, schemas.ColDeletedAt)
		}
	}
}

func TestReplaceFailsAtEveryStep(t *testing.T) {
	before, after := sourcetest.Records(0, 50), append(sourcetest.Records(5, 45), sourcetest.Records(60, 70)...)
	prepare := func() *rig {
		l := &sourcetest.List{Records: before, Size: 10, Total: true}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		r.mode(schemas.Replace)
		r.must(StatusComplete)
		l.Records = after
		return r
	}
	r, steps := prepare(), 0
	r.restart(func(string) error { steps++; return nil })
	r.must(StatusComplete)
	for n := 1; n <= steps; n++ {
		r := prepare()
		left := n
		r.restart(func(string) error {
			if left--; left == 0 {
				return errors.New("disk full")
			}
			return nil
		})
		reader := r.read(before, after)
		_, _ = r.run(context.Background())
		reader()
		r.restart(nil)
		r.must(StatusComplete)
		require.Equal(t, after, r.rows("crm_leads", every))
	}
}

// read starts a reader, which checks again and again that the table has either all of the old records or all of the new
// ones. The returned function stops the reader.
func (r *rig) read(before, after []sourcetest.Record) (stop func()) {
	done := make(chan struct{})
	var reader sync.WaitGroup
	memory := r.memory
	reader.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			rows := (&rig{t: r.t, memory: memory}).rows("crm_leads", every)
			if !slices.Equal(rows, before) && !slices.Equal(rows, after) {
				r.t.Errorf("a reader saw %d rows that are neither the old table nor the new", len(rows))
				return
			}
		}
	})
	return func() { close(done); reader.Wait() }
}

func TestUnprovenReplaceChangesNothing(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 30), Size: 10}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.mode(schemas.Replace)
	r.must(StatusComplete)
	l.Pages = func(pass int) []sourcetest.Record { return sourcetest.Records(pass, 30+pass) }
	require.Equal(t, StatusHeld, r.must(StatusPartial).Streams[0].Status)
	require.Equal(t, sourcetest.Records(0, 30), r.rows("crm_leads", every))
	l.Pages, l.Records = nil, sourcetest.Records(9, 40)
	r.must(StatusComplete)
	require.Equal(t, l.Records, r.rows("crm_leads", every))
}

// A pass was committed in parts and interrupted. If the mode is then changed to replace, a new pass begins.
func TestReplaceRestartsAfterAnInterruptedPass(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 50), Size: 10, Total: true}
	sourcetest.FailingAt(l, 3)
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusFailed)
	l.Fail = nil
	r.mode(schemas.Replace)
	r.restart(nil)
	before := r.source.Read
	r.must(StatusComplete)
	require.Equal(t, 5, r.source.Read-before)
	require.Equal(t, l.Records, r.rows("crm_leads", every))
}

func TestAppendKeepsEveryVersion(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.mode(schemas.Append)
	r.must(StatusComplete)
	l.Records = sourcetest.Records(5, 27)
	l.Records[3].Name = "changed"
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.Equal(t, Counts{Fetched: 22, Written: 3, Unchanged: 19}, rep.Streams[0].Counts)
	require.Zero(t, rep.Streams[0].Missing)
	require.Equal(t, 1, rep.Streams[0].Passes)
	want := slices.Insert(sourcetest.Records(0, 27), 9, sourcetest.Record{ID: 8, Name: "changed"})
	require.Equal(t, want, r.rows("crm_leads", every))
	r.restart(nil)
	require.Zero(t, r.must(StatusComplete).Totals().Counts.Written)
}

func TestAppendWithoutAKeyAddsWhatIsNew(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10}
	r := newRig(t, map[string]*sourcetest.List{"hr_report": l}, sourcetest.Keyless("hr_report"))
	r.mode(schemas.Append)
	r.must(StatusComplete)
	l.Records = append(sourcetest.Records(20, 26), sourcetest.Records(25, 26)...)
	rep := r.must(StatusComplete)
	require.Equal(t, Counts{Fetched: 7, Written: 2, Unchanged: 5}, rep.Streams[0].Counts)
	require.Len(t, r.memory.Rows("hr_report"), 27)
}

func TestHistoryEndsRowsProvenGone(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.mode(schemas.History)
	r.must(StatusComplete)
	l.Records = sourcetest.Records(2, 25)
	l.Records[0].Name = "changed"
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.EqualValues(t, 2, rep.Streams[0].Counts.Deleted)
	require.Equal(t, l.Records, r.rows("crm_leads", current))
	require.Len(t, r.memory.Rows("crm_leads"), 26)
	for _, row := range r.memory.Rows("crm_leads") {
		if !current(row) {
			require.LessOrEqual(t, row[schemas.ColValidFrom], row[schemas.ColValidTo])
		}
	}

	l.Records = nil
	r.restart(nil)
	rep = r.must(StatusPartial)
	require.Equal(t, StatusHeld, rep.Streams[0].Status, "many rows are deleted only after a confirmation, in every mode")
	require.Len(t, r.rows("crm_leads", current), 23)
}

func TestCommitFailsAtEveryStepInEveryMode(t *testing.T) {
	changed := sourcetest.Records(2, 20)
	changed[4].Name = "changed"
	prepare := func(mode schemas.Mode, s schemas.Stream) *rig {
		l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
		r := newRig(t, map[string]*sourcetest.List{s.Name: l}, s)
		r.mode(mode)
		r.must(StatusComplete)
		l.Records = changed
		return r
	}
	state := func(r *rig) [][]sourcetest.Record {
		return [][]sourcetest.Record{r.rows("crm_leads", every), r.rows("crm_leads", current), r.alive("crm_leads")}
	}
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Append, schemas.Replace, schemas.History} {
		for _, s := range []schemas.Stream{sourcetest.Stream("crm_leads"), sourcetest.Keyless("crm_leads")} {
			r, steps := prepare(mode, s), 0
			r.restart(func(string) error { steps++; return nil })
			r.must(StatusComplete)
			want := state(r)
			for n := 1; n <= steps; n++ {
				r := prepare(mode, s)
				left := n
				r.restart(func(string) error {
					if left--; left == 0 {
						return errors.New("disk full")
					}
					return nil
				})
				_, _ = r.run(context.Background())
				r.restart(nil)
				r.must(StatusComplete)
				require.Equal(t, want, state(r), "mode %s, key %v, step %d", mode, s.Key, n)
			}
		}
	}
}

func TestRowChangesAreLoggedOnRequest(t *testing.T) {
	leads := &sourcetest.List{Records: sourcetest.Records(0, 5), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": leads, "crm_deals": {Records: sourcetest.Records(0, 5), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
	r.config.Log = map[string]bool{"crm_leads": true}
	r.must(StatusComplete)
	leads.Records = sourcetest.Records(1, 6)
	leads.Records[0].Name = "changed"
	r.restart(nil)
	r.must(StatusComplete)
	actions := map[string]int{}
	for _, row := range r.memory.Rows(load.RowChanges.Name) {
		require.Equal(t, "crm_leads", row["stream"])
		actions[row["action"]]++
	}
	require.Equal(t, map[string]int{"insert": 6, "update": 1, "delete": 1}, actions)
}

func TestImpossibleModeChangeStopsOnlyItsStream(t *testing.T) {
	deals := sourcetest.Stream("crm_deals")
	r := newRig(t, map[string]*sourcetest.List{
		"crm_leads": {Records: sourcetest.Records(0, 5), Size: 10, Total: true}, "crm_deals": {Records: sourcetest.Records(0, 5), Size: 10, Total: true},
	}, sourcetest.Stream("crm_leads"), deals)
	r.config.Streams[0].Table.Mode = schemas.Append
	r.must(StatusComplete)
	r.config.Streams[0].Table.Mode = schemas.Merge
	r.restart(nil)
	rep := r.must(StatusFailed)
	require.ErrorContains(t, rep.Streams[0].Err, fmt.Sprintf("cannot change to mode %s", schemas.Merge))
	require.Equal(t, StatusComplete, rep.Streams[1].Status)
}
