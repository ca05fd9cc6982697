package pipeline

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func (r *rig) retry() RetryReport {
	r.t.Helper()
	c := r.config
	if c.Destinations == nil {
		c.Destinations = []Destination{{Name: "warehouse", Destination: r.memory}}
	}
	rep, err := RetryRejects(context.Background(), c, RetryOptions{})
	require.NoError(r.t, err)
	return rep
}

func (r *rig) accept() AcceptReport {
	r.t.Helper()
	c := r.config
	if c.Destinations == nil {
		c.Destinations = []Destination{{Name: "warehouse", Destination: r.memory}}
	}
	rep, err := AcceptRejects(context.Background(), c)
	require.NoError(r.t, err)
	return rep
}

func (r *rig) unresolved() []loadtest.Row {
	var out []loadtest.Row
	for _, row := range r.memory.Rows(load.Rejects.Name) {
		if row["resolved_at"] == "" {
			out = append(out, row)
		}
	}
	return out
}

func strict(s schemas.Stream) schemas.Stream {
	s.Rules.Contract.Types = schemas.DiscardRow
	return s
}

func newStrictRig(t *testing.T, mode schemas.Mode) *rig {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 9), Size: 3, Total: true}}, strict(sourcetest.Stream("crm_leads")))
	r.mode(mode)
	sizes := func(words ...int) {
		for i := range r.source.Lists["crm_leads"].Records {
			r.source.Lists["crm_leads"].Records[i].Name = ""
		}
		for _, i := range words {
			r.source.Lists["crm_leads"].Records[i].Name = "many"
		}
	}
	r.source.Lists["crm_leads"].Numbers = true
	sizes()
	r.must(StatusComplete)
	sizes(4, 6)
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.EqualValues(t, 2, rep.Streams[0].Counts.Rejected)
	require.Len(t, r.unresolved(), 2)
	return r
}

func (r *rig) evolve() {
	r.config.Streams[0].Rules = schemas.Rules{}
	r.restart(nil)
}

func TestRetryWritesRecordsThatFitNow(t *testing.T) {
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Append, schemas.Replace, schemas.History} {
		t.Run(string(mode), func(t *testing.T) {
			r := newStrictRig(t, mode)
			rep := r.retry()
			require.Equal(t, 75, rep.ExitCode())
			require.EqualValues(t, 2, rep.Streams[0].Rejected)
			require.Len(t, rep.Streams[0].Still, 2)
			require.Len(t, r.unresolved(), 2)

			r.evolve()
			before := r.cursor("crm_leads")
			pages := r.source.Read
			rep = r.retry()
			require.Equal(t, []Retried{{Stream: "crm_leads", Destination: "warehouse", Retried: 2, Resolved: 2}}, rep.Streams)
			require.Equal(t, 0, rep.ExitCode())
			require.Equal(t, pages, r.source.Read, "no requests to the source")
			require.Empty(t, r.unresolved())
			require.NotEqual(t, before, r.cursor("crm_leads"))
			rows := map[string]string{}
			for _, row := range r.memory.Rows("crm_leads") {
				if current(row) && (mode != schemas.Append || row["size"] == "many") {
					rows[row["id"]] = row["size"]
				}
			}
			require.Equal(t, "many", rows["4"])
			require.Equal(t, "many", rows["6"])

			require.Empty(t, r.retry().Streams)
			r.restart(nil)
			after := r.must(StatusComplete)
			require.EqualValues(t, 0, after.Streams[0].Counts.Rejected)
			require.Equal(t, Equal, r.verify(VerifyOptions{}).Streams[0].Agreement)
		})
	}
}

func TestRetryDoesNotRestoreOldRecords(t *testing.T) {
	for _, name := range []string{"7", ""} {
		r := newStrictRig(t, schemas.Merge)
		for i := range r.source.Lists["crm_leads"].Records {
			r.source.Lists["crm_leads"].Records[i].Name = name
		}
		r.restart(nil)
		r.must(StatusComplete)
		require.Empty(t, r.unresolved(), "the pass resolves rejects that it did not meet again")
		before := r.memory.Rows("crm_leads")
		r.evolve()
		require.Empty(t, r.retry().Streams)
		require.Equal(t, before, r.memory.Rows("crm_leads"))
	}
}

// A pass was interrupted, so it is unknown whether it would have stored the rejected records. They stay rejected
// until the pass ends.
func TestRetryDuringAnUnfinishedPass(t *testing.T) {
	r := newStrictRig(t, schemas.Merge)
	sourcetest.FailingAt(r.source.Lists["crm_leads"], 2)
	r.restart(nil)
	r.must(StatusFailed)
	r.evolve()
	rep := r.retry()
	require.EqualValues(t, 2, rep.Streams[0].Rejected)
	require.Contains(t, rep.Streams[0].Still[0].Reason, "run sync first")
	require.Len(t, r.unresolved(), 2)
	r.source.Lists["crm_leads"].Fail = nil
	r.restart(nil)
	pages := r.source.Read
	r.must(StatusComplete)
	require.Equal(t, 2+3, r.source.Read-pages, "the pass continues, and a whole pass follows")
}

func TestPassContinuesAfterARetry(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 9), Size: 3, Total: true, Numbers: true}}, strict(sourcetest.Stream("crm_leads")))
	l := r.source.Lists["crm_leads"]
	for i := range l.Records {
		l.Records[i].Name = ""
	}
	r.must(StatusComplete)
	l.Records[1].Name = "many"
	sourcetest.FailingAt(l, 3)
	r.restart(nil)
	r.must(StatusFailed)
	r.evolve()
	require.EqualValues(t, 1, r.retry().Streams[0].Resolved, "the reject belongs to the unfinished pass")
	l.Fail = nil
	r.restart(nil)
	pages := r.source.Read
	r.must(StatusComplete)
	require.Equal(t, 1+3, r.source.Read-pages)
	require.Equal(t, Equal, r.verify(VerifyOptions{}).Streams[0].Agreement)
}

// If a retry fails at any step, none of its effects are stored.
func TestRetryFailsAtEveryStep(t *testing.T) {
	r, steps := newStrictRig(t, schemas.Merge), 0
	r.evolve()
	r.restart(func(string) error { steps++; return nil })
	r.retry()
	for n := 1; n <= steps; n++ {
		r := newStrictRig(t, schemas.Merge)
		r.evolve()
		left := n
		r.restart(func(string) error {
			if left--; left == 0 {
				return state.ErrLocked
			}
			return nil
		})
		rep, err := RetryRejects(context.Background(), Config{
			Name: r.config.Name, Source: r.source, Streams: r.config.Streams, Destinations: []Destination{{"warehouse", r.memory}},
		}, RetryOptions{})
		require.True(t, err != nil || rep.ExitCode() == 1, "step %d", n)
		for _, s := range rep.Streams {
			require.True(t, s.Error == "" || s.Resolved == 0, "step %d", n)
		}
		left2 := len(r.unresolved())
		written := 0
		for _, row := range r.memory.Rows("crm_leads") {
			if row["size"] == "many" {
				written++
			}
		}
		require.Equal(t, 2, left2+written, "step %d", n)
		r.restart(nil)
		r.retry()
		require.Empty(t, r.unresolved())
	}
}

func TestNextRunRetriesValues(t *testing.T) {
	s := sourcetest.Stream("crm_leads")
	s.Rules.Contract.Types = schemas.DiscardValue
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 9), Size: 3, Total: true, Numbers: true}}, s)
	l := r.source.Lists["crm_leads"]
	for i := range l.Records {
		l.Records[i].Name = ""
	}
	r.must(StatusComplete)
	l.Records[4].Name = "many"
	r.restart(nil)
	r.must(StatusComplete)
	require.Len(t, r.unresolved(), 1)
	r.evolve()
	require.EqualValues(t, 1, r.retry().Streams[0].Waiting)
	r.must(StatusComplete)
	require.Equal(t, Equal, r.verify(VerifyOptions{}).Streams[0].Agreement)
	require.Empty(t, r.unresolved())
	require.Empty(t, r.retry().Streams)
}

// A record with masked values is not stored in its original form, so it cannot be retried.
func TestRetryRefusesIncompleteRecords(t *testing.T) {
	r := newStrictRig(t, schemas.Merge)
	masks := []schemas.MaskRule{{Column: "mail", Mask: schemas.Mask{Action: schemas.MaskHash}}}
	r.config.Streams[0].Rules.Masks = masks
	r.restart(nil)
	r.must(StatusComplete)
	r.config.Streams[0].Rules = schemas.Rules{Masks: masks}
	r.restart(nil)
	before := r.memory.Rows("crm_leads")
	rep := r.retry()
	require.EqualValues(t, 2, rep.Streams[0].Rejected)
	require.Equal(t, "it was not stored in its original form; run sync to read it again", rep.Streams[0].Still[0].Reason)
	require.Equal(t, 75, rep.ExitCode())
	require.ElementsMatch(t, before, r.memory.Rows("crm_leads"))
	require.Len(t, r.unresolved(), 2)
	require.Zero(t, r.must(StatusComplete).Streams[0].Counts.Rejected)
	require.Empty(t, r.unresolved())
}
