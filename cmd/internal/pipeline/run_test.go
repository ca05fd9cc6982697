package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func TestRunLoadsEveryStreamAndRecordsIt(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{
		"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true},
		"crm_deals": {Records: sourcetest.Records(0, 7), Size: 10, End: extract.End{Reread: true}},
	}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))

	rep := r.must(StatusComplete)
	require.Equal(t, 0, rep.ExitCode())
	require.Equal(t, sourcetest.Records(0, 25), r.alive("crm_leads"))
	require.Equal(t, sourcetest.Records(0, 7), r.alive("crm_deals"))
	require.Equal(t, StreamReport{
		Stream: "crm_leads", Table: "crm_leads", Destination: "warehouse", Status: StatusComplete, Verdict: Proven,
		Reasons: "the source states 25 records, and 25 distinct records arrived",
		Counts:  Counts{Fetched: 25, Written: 25}, Passes: 1, Pages: 3, Requests: 3,
		Bytes: rep.Streams[0].Bytes, Duration: rep.Streams[0].Duration, ended: true,
	}, rep.Streams[0])

	certs := r.certificates("crm_leads")
	require.Len(t, certs, 1)
	require.Equal(t, "25", certs[0]["distinct"])
	require.Equal(t, "3", certs[0]["pages"])
	var w witnesses
	require.NoError(t, json.Unmarshal([]byte(certs[0]["witnesses"]), &w))
	require.Empty(t, w.Pass, "the pass has the same id as the run, so its own field is empty")
	require.EqualValues(t, 25, w.LastTotal)
	require.Empty(t, w.Second)

	runs := r.memory.Rows(load.Runs.Name)
	require.Len(t, runs, 1, "one row per run")
	require.Equal(t, rep.Run, runs[0]["run"])
	require.Equal(t, "complete", runs[0]["status"])
	require.NotEmpty(t, runs[0]["ended_at"])
	require.Contains(t, runs[0]["counts"], `"fetched":32`)
	require.NotContains(t, runs[0], "error")
}

func TestRunAgainWritesNothing(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	before := r.memory.Rows("crm_leads")
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.Equal(t, Counts{Fetched: 25, Unchanged: 25}, rep.Streams[0].Counts)
	require.Equal(t, before, r.memory.Rows("crm_leads"))
}

func TestRunRejectsAreKeptAndCounted(t *testing.T) {
	rs := sourcetest.Records(0, 9)
	rs[4].ID = -1
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: rs, Size: 3, Total: true}}, sourcetest.Stream("crm_leads"))
	rep := r.must(StatusPartial)
	require.Equal(t, Counts{Fetched: 9, Written: 8, Rejected: 1}, rep.Streams[0].Counts)
	require.Equal(t, 75, rep.ExitCode())
	require.ErrorContains(t, rep.Streams[0].Err, "1 record could not be stored")
	require.Len(t, r.memory.Rows(load.Rejects.Name), 1)
}

// A record is rejected. Another reading of the unchanged source adds no reject. After the loss is accepted, the
// stream is complete until a record is rejected for another reason.
func TestStreamIsPartialUntilItsRejectsAreResolvedOrAccepted(t *testing.T) {
	fresh := func() (*rig, *sourcetest.List) {
		l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
		l.Records[4].ID, l.Records[7].ID = -1, -2
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l, "crm_deals": {Records: sourcetest.Records(0, 9), Size: 3, Total: true}}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
		for range 3 {
			rep := r.must(StatusPartial)
			require.Equal(t, StatusPartial, rep.Streams[0].Status)
			require.Equal(t, StatusComplete, rep.Streams[1].Status, "the other stream")
			require.Equal(t, Proven, rep.Streams[1].Verdict, "the other stream")
			require.EqualValues(t, 2, rep.Streams[0].Counts.Rejected)
			require.Len(t, r.memory.Rows(load.Rejects.Name), 2, "an unchanged source adds nothing")
			r.restart(nil)
		}
		return r, l
	}
	t.Run("resolved at the source", func(t *testing.T) {
		r, l := fresh()
		l.Records[4].ID, l.Records[7].ID = 4, 7
		r.must(StatusComplete)
		require.Empty(t, r.unresolved())
		require.Len(t, r.alive("crm_leads"), 9)
	})
	t.Run("one of two rejected records is gone at the source", func(t *testing.T) {
		r, l := fresh()
		l.Records = append(l.Records[:4:4], l.Records[5:]...)
		rep := r.must(StatusPartial)
		require.ErrorContains(t, rep.Streams[0].Err, "1 record could not be stored")
		require.Len(t, r.unresolved(), 1)
	})
}

func TestStreamFailsIfNoRecordCanBeStored(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
	for i := range l.Records {
		l.Records[i].ID = -1 - i
	}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l, "crm_deals": {Size: 3, Total: true}}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
	rep := r.must(StatusFailed)
	require.ErrorContains(t, rep.Streams[0].Err, "none of 9 records could be stored")
	require.Equal(t, StatusComplete, rep.Streams[1].Status, "an empty list has lost no record")
	require.Len(t, r.memory.Rows(load.Rejects.Name), 9, "the records are kept as rejects")
	l.Records = sourcetest.Records(0, 9)
	r.restart(nil)
	require.Equal(t, Counts{Fetched: 9, Written: 9}, r.must(StatusComplete).Streams[0].Counts)
	require.Empty(t, r.unresolved())
}

// After the resumed pass, the run reads the list once more, because the pages before the interruption may have
// changed.
func TestResumeAfterEveryPage(t *testing.T) {
	for k := range 6 {
		t.Run(fmt.Sprintf("after page %d", k), func(t *testing.T) {
			broken := errors.New("connection reset")
			l := &sourcetest.List{Records: sourcetest.Records(0, 50), Size: 10, Total: true}
			l.Fail = func(page int) error {
				if page == k+1 {
					return broken
				}
				return nil
			}
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
			if k < 5 {
				rep := r.must(StatusFailed)
				require.Equal(t, 1, rep.ExitCode())
				require.ErrorIs(t, rep.Streams[0].Err, broken)
				require.ErrorContains(t, rep.Streams[0].Err, fmt.Sprintf("crm_leads: page %d: ", k+1))
				require.Equal(t, sourcetest.Records(0, 10*k), nilIfEmpty(r.alive("crm_leads")), "pages read before are kept")
			}
			l.Fail = nil
			r.restart(nil)
			before := r.source.Read
			rep := r.must(StatusComplete)
			require.Equal(t, sourcetest.Records(0, 50), r.alive("crm_leads"))
			if k < 5 {
				want, passes := 5-k+5, 2
				if k == 0 {
					want, passes = 5, 1
				}
				require.Equal(t, want, r.source.Read-before, "pages read after the resume")
				require.Equal(t, passes, rep.Streams[0].Passes)
				require.Equal(t, Proven, rep.Streams[0].Verdict)
			}
		})
	}
}

func nilIfEmpty(rs []sourcetest.Record) []sourcetest.Record {
	if len(rs) == 0 {
		return nil
	}
	return rs
}

// A resumed pass does not know which unchanged rows its first part has found in the list. So a whole pass follows.
func TestResumedPassIsFollowedByAWholeOne(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 50), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)

	l.Records = append(sourcetest.Records(1, 30), sourcetest.Records(31, 52)...)
	l.Fail = func(page int) error {
		if page == 3 {
			return errors.New("connection reset")
		}
		return nil
	}
	r.restart(nil)
	r.must(StatusFailed)
	require.Len(t, r.alive("crm_leads"), 50, "nothing is deleted before the pass has ended")

	l.Fail = nil
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.Equal(t, l.Records, r.alive("crm_leads"))
	require.Equal(t, 3, rep.Streams[0].Passes)
	require.Equal(t, []Verdict{Proven, Consistent, Proven, Proven}, verdictsOf(r.certificates("crm_leads")))
	require.EqualValues(t, 2, rep.Streams[0].Counts.Deleted)
}

// After an interruption, unread records move to pages that were already read. The next run must not miss them.
func TestListMovesBeforeAPassIsResumed(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 30), Size: 10, Fail: func(page int) error {
		if page == 2 {
			return errors.New("broken")
		}
		return nil
	}}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusFailed)
	l.Fail, l.Records = nil, sourcetest.Records(5, 30)
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.Equal(t, 3, rep.Streams[0].Passes, "the rest, a whole pass, and a pass to prove that the first five records are gone")
	require.Equal(t, sourcetest.Records(5, 30), r.alive("crm_leads"))
}

// The list may no longer have the position of the interruption. Then the run starts at the beginning.
func TestFailingResumeStartsAgain(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 50), Size: 10, Total: true}
	l.Fail = func(page int) error {
		if page == 3 {
			return &wire.Error{Class: wire.Malformed, Path: "/api/leads", Message: "the page repeats an earlier one"}
		}
		return nil
	}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusFailed)
	failed := false
	l.Fail = func(page int) error {
		if page == 3 && !failed {
			failed = true
			return &wire.Error{Class: wire.Malformed, Path: "/api/leads", Message: "the page repeats an earlier one"}
		}
		return nil
	}
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.True(t, failed)
	require.Equal(t, 2, rep.Streams[0].Passes)
	require.Equal(t, Proven, rep.Streams[0].Verdict)
	require.Equal(t, sourcetest.Records(0, 50), r.alive("crm_leads"))
}

func TestFullReadsFromTheBeginning(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 50), Size: 10, Total: true}
	l.Fail = func(page int) error {
		if page == 3 {
			return errors.New("connection reset")
		}
		return nil
	}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusFailed)
	l.Fail = nil
	r.config.Options.Full = true
	before := r.source.Read
	rep := r.must(StatusComplete)
	require.Equal(t, 5, r.source.Read-before)
	require.Equal(t, Proven, rep.Streams[0].Verdict)
	require.Equal(t, sourcetest.Records(0, 50), r.alive("crm_leads"))
}

func TestCommitFailsAtEveryStep(t *testing.T) {
	steps := 0
	count := func(string) error { steps++; return nil }
	changed := func() *sourcetest.List {
		return &sourcetest.List{Records: append(sourcetest.Records(2, 20), sourcetest.Records(30, 42)...), Size: 10, Total: true}
	}
	prepare := func() *rig {
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))
		r.must(StatusComplete)
		r.source.Lists["crm_leads"] = changed()
		return r
	}
	r := prepare()
	r.restart(count)
	r.must(StatusComplete)
	require.Equal(t, changed().Records, r.alive("crm_leads"))
	t.Logf("%d steps", steps)

	broken := errors.New("disk full")
	for n := 1; n <= steps; n++ {
		r := prepare()
		at, left := "", n
		r.restart(func(step string) error {
			if left--; left == 0 {
				at = step
				return broken
			}
			return nil
		})
		rep, _ := r.run(context.Background())
		require.Equal(t, StatusFailed, rep.Status, "step %d (%s)", n, at)
		r.restart(nil)
		rep = r.must(StatusComplete)
		require.Equal(t, changed().Records, r.alive("crm_leads"), "after step %d (%s) failed; %+v", n, at, rep.Streams)
	}
}

func TestTombstonesNeedProof(t *testing.T) {
	gone := func(l *sourcetest.List) { l.Records = sourcetest.Records(0, 20) }
	tests := []struct {
		name     string
		list     sourcetest.List
		change   func(*sourcetest.List)
		status   Status
		verdicts []Verdict
		deleted  int64
	}{
		{"proven by the total", sourcetest.List{Total: true}, gone, StatusComplete, []Verdict{Proven, Proven}, 5},
		{"proven by a second request for the page", sourcetest.List{End: extract.End{Reread: true}}, gone, StatusComplete, []Verdict{Proven, Proven}, 5},
		{"proven, but the second reading has one record less", sourcetest.List{Total: true}, func(l *sourcetest.List) {
			l.Pages = func(pass int) []sourcetest.Record { return sourcetest.Records(0, 20-pass) }
		}, StatusPartial, []Verdict{Proven, Proven}, 0},
		{"proven by a second pass", sourcetest.List{}, gone, StatusComplete, []Verdict{Consistent, Proven}, 5},
		{"not proven by a second pass that finds other records", sourcetest.List{}, func(l *sourcetest.List) {
			l.Pages = func(pass int) []sourcetest.Record { return sourcetest.Records(0, 20-pass) }
		}, StatusPartial, []Verdict{Consistent, Unproven, Unproven, Unproven, Unproven}, 0},
		{"empty list", sourcetest.List{Total: true}, func(l *sourcetest.List) { l.Records = nil }, StatusPartial, []Verdict{Proven}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.list
			l.Records, l.Size = sourcetest.Records(0, 25), 10
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": &l}, sourcetest.Stream("crm_leads"))
			r.must(StatusComplete)
			tt.change(&l)
			r.restart(nil)
			rep := r.must(tt.status)
			require.Equal(t, tt.deleted, rep.Streams[0].Counts.Deleted)
			require.Len(t, r.alive("crm_leads"), 25-int(tt.deleted))
			require.Equal(t, tt.verdicts, verdictsOf(r.certificates("crm_leads")[1:]))
			if tt.status == StatusPartial {
				require.Equal(t, 75, rep.ExitCode())
				require.Equal(t, StatusHeld, rep.Streams[0].Status)
				require.Error(t, rep.Streams[0].Err)
			}
		})
	}
}

func TestBrakeHoldsUntilConfirmed(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 400), Size: 100, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	l.Records = sourcetest.Records(0, 250)
	for range 2 {
		r.restart(nil)
		rep := r.must(StatusPartial)
		require.Equal(t, StatusHeld, rep.Streams[0].Status)
		require.EqualValues(t, 150, rep.Streams[0].Missing)
		require.ErrorContains(t, rep.Streams[0].Err, "150 of 400 rows are missing")
		require.Len(t, r.alive("crm_leads"), 400)
	}
	r.config.Options.ConfirmShrink = true
	rep := r.must(StatusComplete)
	require.EqualValues(t, 150, rep.Streams[0].Counts.Deleted)
	require.Equal(t, sourcetest.Records(0, 250), r.alive("crm_leads"))
}

// A list is cut at a round number of records, so each reading returns the same records. The source still has the other
// records, so their rows are kept.
func TestCutListDeletesNothing(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 95), Size: 1000, End: extract.End{Rule: extract.RuleOnePage, Reread: true}}
	r := newRig(t, map[string]*sourcetest.List{"users_log": l}, sourcetest.Stream("users_log"))
	r.must(StatusComplete)
	l.Records, l.End.Round = sourcetest.Records(4, 104), true
	r.restart(nil)
	rep := r.must(StatusPartial)
	require.Equal(t, StatusHeld, rep.Streams[0].Status)
	require.Equal(t, 1, rep.Streams[0].Passes)
	require.Equal(t, sourcetest.Records(0, 104), r.alive("users_log"))

	l.Records, l.End.Round = sourcetest.Records(3, 104), false
	r.restart(nil)
	r.must(StatusComplete)
	l.Records, l.End.Round = sourcetest.Records(4, 104), true
	r.restart(nil)
	require.Equal(t, Proven, r.must(StatusComplete).Streams[0].Verdict, "the list was longer than 100 records before, so it is not cut at 100")
	require.Equal(t, sourcetest.Records(4, 104), r.alive("users_log"))
}

// A list that keeps its length while its records change may show only its latest records. Then no row is deleted.
func TestListOfConstantLengthDeletesNothing(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 37), Size: 1000, End: extract.End{Rule: extract.RuleOnePage, Reread: true}}
	r := newRig(t, map[string]*sourcetest.List{"users_log": l}, sourcetest.Stream("users_log"))
	r.must(StatusComplete)
	for _, from := range []int{3, 5, 5} {
		l.Records = sourcetest.Records(from, 37+from)
		r.restart(nil)
		rep := r.must(StatusPartial)
		require.Equal(t, StatusHeld, rep.Streams[0].Status)
		require.ErrorContains(t, rep.Streams[0].Err, "the list has 37 records again although some of them are new")
		require.Equal(t, sourcetest.Records(0, 37+from), r.alive("users_log"))
	}
	l.Records = sourcetest.Records(5, 41)
	r.restart(nil)
	require.Equal(t, Proven, r.must(StatusComplete).Streams[0].Verdict)
	require.Equal(t, sourcetest.Records(5, 41), r.alive("users_log"))
	l.Records = sourcetest.Records(6, 44)
	r.restart(nil)
	require.Equal(t, Proven, r.must(StatusComplete).Streams[0].Verdict)
	require.Equal(t, sourcetest.Records(6, 44), r.alive("users_log"))
}

func TestWindowDeletesNothing(t *testing.T) {
	s := sourcetest.Stream("hr_attendance_history")
	s.Window = true
	l := &sourcetest.List{Records: sourcetest.Records(0, 30), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{s.Name: l}, s)
	r.must(StatusComplete)
	l.Records = sourcetest.Records(28, 31)
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.Equal(t, Proven, rep.Streams[0].Verdict)
	require.Equal(t, 1, rep.Streams[0].Passes)
	require.Zero(t, rep.Streams[0].Missing)
	require.Equal(t, sourcetest.Records(0, 31), r.alive(s.Name))
}

// After the clock was set back, rows of the previous run must not look as if the current run had written them.
func TestRunAfterTheClockWasSetBack(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 20), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	future := runid.New(time.Now().Add(time.Hour))
	r.config.Run = future
	r.must(StatusComplete)
	r.config.Run = ""
	l.Records = sourcetest.Records(2, 20)
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.Greater(t, rep.Run, future)
	require.EqualValues(t, 2, rep.Streams[0].Counts.Deleted)
	require.Equal(t, sourcetest.Records(2, 20), r.alive("crm_leads"))
}

func TestHeldParentProvesNothingWhereItIsHeld(t *testing.T) {
	child := sourcetest.Stream("crm_lead_notes")
	child.Parent = "crm_leads"
	notes := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, End: extract.End{Rule: extract.RuleParents, Parents: 3}}
	leads := &sourcetest.List{Records: sourcetest.Records(0, 400), Size: 100, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": leads, "crm_lead_notes": notes}, sourcetest.Stream("crm_leads"), child)
	r.must(StatusComplete)
	leads.Records, notes.Records = sourcetest.Records(0, 250), sourcetest.Records(0, 8)
	second := loadtest.NewMemory(nil)
	r.config.Destinations = []Destination{{"warehouse", r.memory}, {"bi", second}}
	r.must(StatusPartial)
	require.Len(t, r.alive("crm_leads"), 400)
	require.Len(t, r.alive("crm_lead_notes"), 9)
	require.Len(t, second.Rows("crm_lead_notes"), 8)
}

// If a parent record has no key, its child records cannot be requested. So the child stream proves nothing.
func TestParentsWithoutAKeyProveNothing(t *testing.T) {
	for _, dry := range []bool{false, true} {
		child := sourcetest.Stream("crm_lead_notes")
		child.Parent = "crm_leads"
		leads := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
		leads.Records[4].ID = -1
		notes := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, End: extract.End{Rule: extract.RuleParents, Parents: 8}}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": leads, "crm_lead_notes": notes}, sourcetest.Stream("crm_leads"), child)
		r.config.Options.DryRun = dry
		rep, err := r.run(t.Context())
		require.NoError(t, err)
		require.Equal(t, Unproven, rep.Streams[1].Verdict, "dry run: %t", dry)
		require.Contains(t, rep.Streams[1].Reasons, "the list of parents is only unproven")
	}
}

func TestDriftLeadsToASecondPass(t *testing.T) {
	drifted := append(sourcetest.Records(0, 11), sourcetest.Records(10, 19)...)
	l := &sourcetest.List{Size: 11, Pages: func(pass int) []sourcetest.Record {
		if pass == 1 {
			return drifted
		}
		return sourcetest.Records(0, 20)
	}}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	rep := r.must(StatusComplete)
	require.Equal(t, []Verdict{Unproven, Unproven, Proven}, verdictsOf(r.certificates("crm_leads")))
	require.Equal(t, sourcetest.Records(0, 20), r.alive("crm_leads"))
	require.Equal(t, Counts{Fetched: 60, Written: 20, Unchanged: 39, Deduplicated: 1}, rep.Streams[0].Counts)
}

func TestKeylessPassIsOneCommit(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 30), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"hr_report": l}, sourcetest.Keyless("hr_report"))
	r.must(StatusComplete)
	require.Equal(t, sourcetest.Records(0, 30), r.alive("hr_report"))

	l.Records = append(sourcetest.Records(5, 30), sourcetest.Records(3, 5)...)
	l.Records[7].Name = "changed"
	l.Fail = func(page int) error {
		if page == 3 {
			return errors.New("connection reset")
		}
		return nil
	}
	r.restart(nil)
	r.must(StatusFailed)
	require.Equal(t, sourcetest.Records(0, 30), r.alive("hr_report"), "half a pass changes nothing")

	l.Fail = nil
	r.restart(nil)
	rep := r.must(StatusComplete)
	slices.SortFunc(l.Records, func(a, b sourcetest.Record) int { return a.ID - b.ID })
	require.Equal(t, l.Records, r.alive("hr_report"))
	require.Equal(t, Counts{Fetched: 27, Written: 1, Unchanged: 26, Deleted: 4}, rep.Streams[0].Counts)
}

func TestUnprovenKeylessPassChangesNothing(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 30), Size: 10}
	r := newRig(t, map[string]*sourcetest.List{"hr_report": l}, sourcetest.Keyless("hr_report"))
	r.must(StatusComplete)
	before := r.memory.Rows("hr_report")
	l.Pages = func(pass int) []sourcetest.Record {
		rs := sourcetest.Records(0, 30)
		rs[0].Name = fmt.Sprint(pass)
		return rs
	}
	rep := r.must(StatusPartial)
	require.Equal(t, StatusHeld, rep.Streams[0].Status)
	require.Equal(t, before, r.memory.Rows("hr_report"))

	l.Pages, l.Records[0].Name = nil, "changed"
	r.must(StatusComplete)
	require.Equal(t, l.Records, r.alive("hr_report"))
}

func TestUnavailableStreamKeepsItsTable(t *testing.T) {
	for class, want := range map[wire.Class]Status{
		wire.NotEntitled: StatusUnavailable, wire.Missing: StatusUnavailable, wire.Throttled: StatusParked,
		wire.Malformed: StatusFailed, wire.Transient: StatusFailed,
	} {
		t.Run(class.String(), func(t *testing.T) {
			l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": l, "crm_deals": {Records: sourcetest.Records(0, 5), Size: 10, Total: true}},
				sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
			r.must(StatusComplete)
			l.Fail = func(int) error { return &wire.Error{Class: class, Status: 403, Path: "/api/leads", Message: "no"} }
			r.source.Lists["crm_deals"].Records = sourcetest.Records(0, 6)
			rep, err := r.run(context.Background())
			require.NoError(t, err)
			require.Equal(t, want, rep.Streams[0].Status)
			require.Equal(t, StatusComplete, rep.Streams[1].Status)
			require.Equal(t, map[Status]int{StatusUnavailable: 75, StatusParked: 75, StatusFailed: 1}[want], rep.ExitCode())
			require.Len(t, r.alive("crm_leads"), 25)
			require.Len(t, r.alive("crm_deals"), 6)
		})
	}
}

func TestUnknownCredentialEndsTheRunSoon(t *testing.T) {
	lists := map[string]*sourcetest.List{}
	var streams []schemas.Stream
	for i := range 40 {
		name := fmt.Sprintf("crm_list%d", i)
		lists[name] = &sourcetest.List{Fail: func(int) error {
			return &wire.Error{Class: wire.Auth, Status: 401, Path: "/api/" + name, Message: "Unauthenticated."}
		}}
		streams = append(streams, sourcetest.Stream(name))
	}
	r := newRig(t, lists, streams...)
	r.config.Workers = 4
	rep, err := r.run(context.Background())
	require.ErrorContains(t, err, "surface app: ")
	require.Equal(t, StatusFailed, rep.Status)
	require.Equal(t, 1, rep.ExitCode())
	require.LessOrEqual(t, len(r.source.Asked), refusals+4, "streams that were tried")
	require.Len(t, rep.Streams, 40)
}

func TestPanicEndsOneStreamOnly(t *testing.T) {
	for _, page := range []int{1, 2} {
		r := newRig(t, map[string]*sourcetest.List{
			"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true, Fail: func(p int) error {
				if p == page {
					panic("index out of range")
				}
				return nil
			}},
			"crm_deals": {Records: sourcetest.Records(0, 5), Size: 10, Total: true},
		}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
		rep := r.must(StatusFailed)
		require.ErrorContains(t, rep.Streams[0].Err, "panic: index out of range")
		require.ErrorContains(t, rep.Streams[0].Err, "crm_leads")
		require.Equal(t, StatusComplete, rep.Streams[1].Status)
	}
}

func TestPanicInTheDestinationEndsOneStreamOnly(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{
		"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true},
		"crm_deals": {Records: sourcetest.Records(0, 5), Size: 10, Total: true},
	}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
	r.config.Workers = 1
	commits := 0
	r.restart(func(step string) error {
		if step == "children" {
			if commits++; commits == 3 {
				panic("boom")
			}
		}
		return nil
	})
	rep := r.must(StatusFailed)
	failed := 0
	for _, s := range rep.Streams {
		if s.Status == StatusFailed {
			failed++
			require.ErrorContains(t, s.Err, "panic: boom")
		}
	}
	require.Equal(t, 1, failed)
}

// Another process has moved the cursor. The stream must not overwrite it.
func TestMovedCursorEndsTheStream(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 30), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	key := state.Key{Pipeline: "nightly", Stream: "crm_leads"}
	l.Wait = func(ctx context.Context, page int) {
		if page != 3 {
			return
		}
		for err := state.ErrMoved; err != nil; { // another goroutine of this process may be committing just now
			at, _ := r.memory.Cursor(ctx, key)
			tx, _ := r.memory.Begin(ctx, key, at, load.Pass{Run: "zzzzzzzzzzzz", Whole: true})
			err = tx.Commit(ctx, `{"pass":"zzzzzzzzzzzz","at":"x","end":true}`)
		}
	}
	rep := r.must(StatusFailed)
	require.ErrorIs(t, rep.Streams[0].Err, state.ErrMoved)
	at, err := r.memory.Cursor(context.Background(), key)
	require.NoError(t, err)
	require.Contains(t, at, "zzzzzzzzzzzz")
	require.Less(t, len(r.alive("crm_leads")), 30)
}

func TestParentsComeFirstAndProveTheirChildren(t *testing.T) {
	child := sourcetest.Stream("crm_lead_notes")
	child.Parent = "crm_leads"
	notes := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, End: extract.End{Rule: extract.RuleParents, Parents: 3}}
	leads := &sourcetest.List{Records: sourcetest.Records(0, 3), Size: 10}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": leads, "crm_lead_notes": notes}, sourcetest.Stream("crm_leads"), child)
	r.config.Workers = 2
	rep := r.must(StatusComplete)
	require.Equal(t, []string{"crm_leads", "crm_lead_notes"}, r.source.Asked)
	require.Equal(t, Consistent, rep.Streams[1].Verdict)

	notes.Records = sourcetest.Records(0, 8)
	r.restart(nil)
	rep = r.must(StatusComplete)
	require.Equal(t, []string{"crm_leads", "crm_leads", "crm_lead_notes", "crm_lead_notes"}, r.source.Asked[2:],
		"the parents' list is proven first, and a second reading confirms that the note is gone")
	require.Equal(t, Proven, rep.Streams[1].Verdict)
	require.Equal(t, sourcetest.Records(0, 8), r.alive("crm_lead_notes"))
}

func TestKilledRunIsRecordedByTheNext(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 5), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))
	killed, err := newRun(Config{Name: "nightly", Source: r.source, Destinations: []Destination{{"warehouse", r.memory}}})
	require.NoError(t, err)
	require.NoError(t, killed.open(context.Background()))
	r.must(StatusComplete)
	r.must(StatusComplete)
	runs := r.memory.Rows(load.Runs.Name)
	require.Len(t, runs, 3)
	require.Equal(t, "failed", runs[0]["status"])
	require.Equal(t, killed.Run, runs[0]["run"])
	require.Contains(t, runs[0]["error"], "killed")
	require.Equal(t, "complete", runs[1]["status"])
}

func TestDryRunTouchesNothing(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))
	r.config.Options.DryRun = true
	rep, err := r.run(context.Background())
	require.NoError(t, err)
	require.Equal(t, StatusComplete, rep.Status)
	require.EqualValues(t, 25, rep.Streams[0].Counts.Fetched)
	require.Equal(t, Proven, rep.Streams[0].Verdict)
	require.Empty(t, r.memory.Rows(load.Runs.Name))
	require.Empty(t, r.memory.Rows("crm_leads"))
}

func TestDestinationsAtOneCursorShareAReading(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	second := loadtest.NewMemory(nil)
	r.config.Destinations = []Destination{{"warehouse", r.memory}, {"bi", second}}
	rep := r.must(StatusComplete)
	require.Len(t, rep.Streams, 2)
	require.Equal(t, 1, r.source.Passes["crm_leads"])
	require.Len(t, second.Rows("crm_leads"), 25)
	untimed := func(rows []loadtest.Row) []loadtest.Row { // without the commit times, which differ between destinations
		for i := range rows {
			rows[i] = maps.Clone(rows[i])
			delete(rows[i], schemas.ColSyncedAt)
		}
		return rows
	}
	require.Equal(t, untimed(r.memory.Rows("crm_leads")), untimed(second.Rows("crm_leads")))

	third := loadtest.NewMemory(nil)
	r.config.Destinations = append(r.config.Destinations, Destination{"lake", third})
	r.must(StatusComplete)
	require.Equal(t, 2, r.source.Passes["crm_leads"])
	require.Len(t, third.Rows("crm_leads"), 25)
}

func TestFaultAffectsOnlyItsDestination(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	writes := 0
	bad := loadtest.NewMemory(func(step string) error {
		if step == "insert" {
			if writes++; writes == 3 {
				return fmt.Errorf("file of the lake: %w", state.ErrLocked)
			}
		}
		return nil
	})
	r.config.Destinations = []Destination{{"lake", bad}, {"warehouse", r.memory}}
	rep := r.must(StatusPartial)
	require.Equal(t, StatusParked, rep.Streams[0].Status)
	require.Equal(t, StatusComplete, rep.Streams[1].Status)
	require.Len(t, r.alive("crm_leads"), 25)
}

func TestLockedDestinationDefersTheRun(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 5), Size: 10}}, sourcetest.Stream("crm_leads"))
	r.restart(func(string) error { return state.ErrLocked })
	rep, err := r.run(context.Background())
	require.ErrorIs(t, err, state.ErrLocked)
	require.Equal(t, 75, rep.ExitCode())
	require.Empty(t, r.source.Asked)
}

func TestProgressAddsUpToTheReport(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))
	var kinds []string
	var fetched int64
	var mu sync.Mutex
	r.config.Progress = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		kinds = append(kinds, string(e.Kind))
		fetched += e.Records
	}
	r.must(StatusComplete)
	require.EqualValues(t, 25, fetched)
	require.Equal(t, "start", kinds[0])
	require.Equal(t, "end", kinds[len(kinds)-1])
	require.Equal(t, 3, strings.Count(strings.Join(kinds, " "), "page"))
	require.Equal(t, 3, strings.Count(strings.Join(kinds, " "), "commit"))
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{}, {Name: "a"}, {Name: "a", Source: sourcetest.New(nil)}} {
		rep, err := Run(context.Background(), c)
		require.Error(t, err)
		require.Equal(t, 1, rep.ExitCode())
	}
}
