package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

var rangeFilter = schemas.Incremental{Field: "updated_at", Format: schemas.MomentRFC3339, Param: "updated_since", Until: "updated_before", Lookback: time.Second}

// history returns a list with 400 records. On each of 400 days, one of the records was changed.
func history(first time.Time) *moving {
	m := &moving{random: rand.New(rand.NewPCG(3, 3)), size: 10}
	for i := range 400 {
		m.next++
		m.rows = append(m.rows, change{ID: m.next, Name: "new", at: first.AddDate(0, 0, i)})
	}
	m.clock = first.AddDate(0, 0, 400)
	return m
}

var year = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

func (m *moving) in(from, until time.Time) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]string{}
	for _, r := range m.rows {
		if !r.at.Before(from) && (until.IsZero() || r.at.Before(until)) {
			all[strconv.Itoa(r.ID)] = r.Name
		}
	}
	return all
}

func (r *movingRig) holds(t require.TestingT, from, until time.Time) {
	have := map[string]string{}
	for _, row := range r.memory.Rows("items") {
		have[row["id"]] = row["name"]
	}
	for id, name := range r.server.in(from, until) {
		require.Equal(t, name, have[id], "record %s", id)
	}
}

func (r *movingRig) backfill(b Backfill) StreamReport {
	r.t.Helper()
	r.config.Options.Backfill = &b
	defer func() { r.config.Options.Backfill = nil }()
	return r.once()
}

// A backfill does not change the position of the scheduled runs.
func TestBackfillRange(t *testing.T) {
	m := history(year)
	r := newMoving(t, m, rangeFilter)
	from, until := year.AddDate(0, 1, 14), year.AddDate(0, 5, 0)
	rep := r.backfill(Backfill{From: from, Until: until})
	require.Equal(t, StatusComplete, rep.Status, rep.Err)
	require.Equal(t, Consistent, rep.Verdict, rep.Reasons)
	require.Contains(t, rep.Reasons, "only 4 time windows")
	require.Equal(t, "crm.items backfill 2024-02-15..2024-06-01", rep.Title())
	r.holds(t, from, until)
	require.InDelta(t, len(m.in(from, until)), len(r.memory.Rows("items")), 1, "hardly any record outside the range is read")
	for _, row := range r.memory.Rows("items") {
		require.Equal(t, "backfill", row[schemas.ColVia])
	}
	certificates := r.certificates(rep.Title())
	require.Len(t, certificates, 1)
	require.Contains(t, certificates[0]["witnesses"], `"rule":"windows"`)
	require.Contains(t, certificates[0]["witnesses"], `"windows":4`)
	require.Contains(t, certificates[0]["witnesses"], `"partial":true`)

	rep = r.once()
	require.GreaterOrEqual(t, rep.Counts.Fetched, int64(400), "the first scheduled pass reads the whole list")
	require.Empty(t, r.missing())
	m.change()
	rep = r.once()
	require.Less(t, rep.Counts.Fetched, int64(20), "the next scheduled pass is incremental")
	m.change()
	rep = r.backfill(Backfill{From: from})
	require.Equal(t, StatusComplete, rep.Status, rep.Err)
	rep = r.once()
	require.Less(t, rep.Counts.Fetched, int64(20), "a backfill does not move the position of the scheduled runs")
	require.Empty(t, r.missing())
	require.Zero(t, rep.Counts.Deleted)
}

func TestBackfillOnce(t *testing.T) {
	m := history(year)
	r := newMoving(t, m, rangeFilter)
	b := Backfill{From: year, Until: year.AddDate(0, 3, 0)}
	first := r.backfill(b)
	require.Zero(t, first.Done)
	r.restart(nil)
	before := m.requests
	again := r.backfill(b)
	require.Equal(t, StatusComplete, again.Status)
	require.WithinDuration(t, time.Now(), again.Done, time.Minute)
	require.Equal(t, before, m.requests)
	other := r.backfill(Backfill{From: year, Until: year.AddDate(0, 2, 0)})
	require.Zero(t, other.Done, "a completed backfill of another range does not count")
	b.StartOver = true
	again = r.backfill(b)
	require.Zero(t, again.Done)
	require.Equal(t, first.Counts.Fetched, again.Counts.Fetched)
}

// A backfill is killed, then a scheduled run follows, and then the backfill continues.
func TestBackfillIsResumed(t *testing.T) {
	for name, b := range map[string]Backfill{"range": {From: year, Until: year.AddDate(1, 0, 0)}, "whole": {}} {
		t.Run(name, func(t *testing.T) {
			m := history(year)
			r := newMoving(t, m, rangeFilter)
			r.config.limits = defaultLimits
			r.config.limits.groupRows = 25
			r.killed(b, 24)
			landed := len(r.memory.Rows("items"))
			require.Positive(t, landed)
			total := len(m.in(b.From, b.Until))
			require.Less(t, landed, total)
			rep := r.backfill(b)
			require.Equal(t, StatusComplete, rep.Status, rep.Err)
			// rows are counted, not requests: how many pages are requested ahead depends on the speed of the machine
			require.Less(t, rep.Counts.Fetched, int64(total-landed/2), "the backfill does not start from the beginning")
			r.holds(t, b.From, b.Until)
			require.NotZero(t, r.backfill(b).Done)
		})
	}
}

func TestBackfillNeedsAFilter(t *testing.T) {
	m := history(year)
	r := newMoving(t, m, schemas.Incremental{})
	before := m.requests
	rep := r.backfill(Backfill{From: year})
	require.Equal(t, StatusUnavailable, rep.Status)
	require.ErrorAs(t, rep.Err, new(*RangeError))
	require.LessOrEqual(t, m.requests-before, 10, "only probes")
	require.Empty(t, r.memory.Rows("items"))
	require.Equal(t, StatusComplete, r.backfill(Backfill{}).Status)
	require.Empty(t, r.missing())
}

func TestBackfillDeletesNothing(t *testing.T) {
	m := history(year)
	r := newMoving(t, m, rangeFilter)
	r.once()
	m.rows = slices.Delete(m.rows, 10, 20)
	rep := r.backfill(Backfill{})
	require.Equal(t, StatusComplete, rep.Status, rep.Err)
	require.Zero(t, rep.Counts.Deleted)
	require.Len(t, r.alive("items"), 400)
	r.config.Options.Full = true
	require.EqualValues(t, 10, r.once().Counts.Deleted)
}

// After a backfill, the rows of its range equal the source's records. This holds for any ranges in any order, with
// changes, scheduled runs and kills in between.
func TestBackfillProperty(t *testing.T) {
	for seed := range sourcetest.Trials(12) {
		random := rand.New(rand.NewPCG(uint64(seed), 8))
		m := history(year)
		m.exclusive = seed%2 == 0
		i := rangeFilter
		if seed%3 == 0 {
			i.Until = ""
		}
		r := newMoving(t, m, i)
		r.config.limits = defaultLimits
		r.config.limits.groupRows = 30
		for range 1 + random.IntN(3) {
			for range random.IntN(6) {
				m.change()
			}
			from := year.AddDate(0, 0, random.IntN(300))
			b := Backfill{From: from, Until: from.AddDate(0, 0, 1+random.IntN(150)), StartOver: true}
			if kill := random.IntN(60); kill > 0 {
				r.killed(b, kill)
				b.StartOver = false
			}
			if random.IntN(2) == 0 {
				r.once()
				require.Empty(t, r.missing(), "seed %d", seed)
			}
			rep := r.backfill(b)
			require.Equal(t, StatusComplete, rep.Status, "seed %d: %v", seed, rep.Err)
			if rep.Done.IsZero() {
				r.holds(t, b.From, b.Until)
			}
		}
	}
}

func (r *movingRig) killed(b Backfill, after int) {
	r.restart(func(step string) error {
		if after--; after < 0 {
			return fmt.Errorf("killed at %s", step)
		}
		return nil
	})
	r.config.Options.Backfill = &b
	_, _ = r.run(r.t.Context())
	r.config.Options.Backfill = nil
	r.restart(nil)
}

func TestBackfillMonths(t *testing.T) {
	s := sourcetest.Stream("items")
	s.Months = schemas.Months{Month: "month", Year: "year"}
	l := &sourcetest.List{Records: sourcetest.Records(1, 10), Size: 3, End: extract.End{Rule: extract.RuleWindows, Windows: 3, Partial: true}}
	r := newRig(t, map[string]*sourcetest.List{"items": l}, s)
	r.config.Options.Backfill = &Backfill{From: year}
	rep := r.must(StatusComplete)
	require.Equal(t, Consistent, rep.Streams[0].Verdict)
	require.Equal(t, "items backfill 2024-01-01..", rep.Streams[0].Title())
	require.Len(t, r.alive("items"), 9)
}
