package execute

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// recordGrace is how long a stopped run may still write what it did.
const recordGrace = time.Second

// keepHistory adds what runs did to the history, even if ctx has just ended. The history is only for display, so a run
// does not fail if it cannot be written.
func (x *Executor) keepHistory(ctx context.Context, c *config.Config, work ...state.Work) {
	ctx, cancel := pipeline.WithGrace(ctx, recordGrace)
	defer cancel()
	h, err := x.Open.State(c).OpenHistory(ctx)
	if err == nil {
		err = errors.Join(h.Add(ctx, work), h.Close())
	}
	if err != nil {
		x.Open.Log.Warn("cannot keep the history of runs", "error", err)
	}
}

// reach says how much of its pipeline a run has read.
type reach struct {
	streams bool            // it was to read all streams
	sources bool            // it was to read all sources, so none is paused, and each has a report
	unread  map[string]bool // streams for which the report of a source is missing
}

// whole reports whether the run was to read everything in the pipeline.
func (r reach) whole() bool { return r.streams && r.sources }

// sourceWork returns what a run did for one source. The argument `whole` is true if the run was to read all streams.
func sourceWork(at time.Time, name, source string, r pipeline.Report, whole bool) state.Work {
	return workOf(at, state.Series{Pipeline: name, Source: source}, r, whole)
}

// runWork returns what a run did in total and for each stream. A stream is complete only if it was read from all sources.
func runWork(at time.Time, r pipeline.Report, has reach) []state.Work {
	all := []state.Work{workOf(at, state.Series{Pipeline: r.Pipeline}, r, has.whole())}
	index := map[string]int{} // a stream has a report for each destination
	for _, s := range r.Streams {
		i, known := index[s.Stream]
		if !known {
			i = len(all)
			index[s.Stream] = i
			all = append(all, state.Work{Series: state.Series{Pipeline: r.Pipeline, Stream: s.Stream}, At: at, Runs: 1, WorkCounts: state.WorkCounts{Allowed: r.Allowed}})
			if has.sources && !has.unread[s.Stream] {
				all[i].Complete = at
			}
		}
		w := &all[i]
		w.Took = max(w.Took, s.Duration)
		w.Requests = max(w.Requests, int64(s.Requests)) // a request for several destinations counts once
		addCounts(&w.WorkCounts, s.Counts)
		if s.Status != pipeline.StatusComplete {
			w.Incomplete = 1
		}
		if w.Incomplete > 0 || byRange(s) {
			w.Complete = time.Time{}
		}
	}
	return all
}

// byRange reports whether a backfill has read the records of a range. The stream is then as complete as it was before.
func byRange(s pipeline.StreamReport) bool {
	return s.Backfill != "" && s.Backfill != pipeline.Backfill{}.Name()
}

// attemptWork returns what an attempt at units adds to the history. Dispatch adds the rest when the run has ended: a
// run can have many attempts, and an attempt can read some of the streams of its source.
func attemptWork(at time.Time, name, source string, r pipeline.Report) []state.Work {
	allowed := state.WorkCounts{Allowed: r.Allowed}
	return []state.Work{{Series: state.Series{Pipeline: name}, At: at, WorkCounts: allowed}, {Series: state.Series{Pipeline: name, Source: source}, At: at, WorkCounts: allowed}}
}

func workOf(at time.Time, of state.Series, r pipeline.Report, whole bool) state.Work {
	w := state.Work{Series: of, At: at, Runs: 1, WorkCounts: state.WorkCounts{Requests: int64(r.Requests), Allowed: r.Allowed}}
	if !r.Started.IsZero() {
		w.Took = max(0, r.Ended.Sub(r.Started))
	}
	addCounts(&w.WorkCounts, r.Totals().Counts)
	switch {
	case r.Status != pipeline.StatusComplete:
		w.Incomplete = 1
	case whole && !slices.ContainsFunc(r.Streams, byRange):
		w.Complete = at
	}
	return w
}

func addCounts(w *state.WorkCounts, c pipeline.Counts) {
	w.Fetched += c.Fetched
	w.Written += c.Written
	w.Deleted += c.Deleted
	w.Rejected += c.Rejected
}

// allowedBy returns how many requests the rate limits of a source allow in the given time.
func allowedBy(s *open.Source, took time.Duration) int64 {
	perSecond := 0.0
	for _, name := range s.Names {
		perSecond += s.Wires[name].Governor().Stats().Allowed
	}
	return int64(perSecond * max(0, took.Seconds()))
}
