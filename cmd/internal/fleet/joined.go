package fleet

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Joined returns the report of a run whose units have ended. If the run has several sources, the report contains the
// sums over them. If planned units are missing, the run is not complete, and the report says so. // Invariant 14
func Joined(run, name string, units []state.Unit) pipeline.Report {
	r := joinedSources(run, name, units)
	planned := 0
	for _, u := range units {
		planned = max(planned, u.Planned)
	}
	if len(units) < planned {
		r.Err = errors.Join(r.Err, fmt.Errorf("the run has %d of the %d units that it was planned with", len(units), planned))
		if r.Status == pipeline.StatusComplete {
			r.Status = pipeline.StatusPartial
		}
	}
	return r
}

// SourceUnits is the result of the units of one source in a run.
type SourceUnits struct {
	Report pipeline.Report
	Unread []string // streams of the units that have no report
}

// BySource joins the units of each source of a run.
func BySource(run, name string, units []state.Unit) iter.Seq[SourceUnits] {
	var sources []string
	of := map[string][]state.Unit{}
	for _, u := range units {
		if of[u.Source] == nil {
			sources = append(sources, u.Source)
		}
		of[u.Source] = append(of[u.Source], u)
	}
	return func(yield func(SourceUnits) bool) {
		for _, source := range sources {
			s := SourceUnits{Report: joined(run, name, of[source])}
			s.Report.Source = source
			read := map[string]bool{}
			for _, stream := range s.Report.Streams {
				read[stream.Stream] = true
			}
			s.Unread = slices.DeleteFunc(StreamsOf(of[source]), func(name string) bool { return read[name] })
			if !yield(s) {
				return
			}
		}
	}
}

func joinedSources(run, name string, units []state.Unit) pipeline.Report {
	if !slices.ContainsFunc(units, func(u state.Unit) bool { return u.Source != "" }) && len(units) > 0 {
		return joined(run, name, units)
	}
	t := NewOutcomes(run, name)
	var started, ended time.Time // by the clock of the state
	for s := range BySource(run, name, units) {
		r := s.Report
		t.Add(r.Source, r, r.Err)
		started, ended = earlier(started, r.Started), later(ended, r.Ended)
	}
	all := t.Report()
	if !started.IsZero() { // zero: no unit was begun
		all.Started, all.Ended = started, later(started, ended)
	}
	return all
}

func joined(run, name string, units []state.Unit) pipeline.Report {
	r := pipeline.Report{Run: run, Pipeline: name, Status: pipeline.StatusComplete}
	failed := 0
	for _, u := range units {
		rep := ReportOf(u)
		r.Requests += rep.Requests
		r.Started, r.Ended = earlier(r.Started, u.Started), later(r.Ended, u.Ended)
		r.Streams = append(r.Streams, rep.streams()...)
		switch {
		case u.State == state.UnitCancelled:
			r.Status = pipeline.StatusStopped
		case u.State == state.UnitDone && rep.Status == pipeline.StatusComplete:
		case r.Status == pipeline.StatusComplete:
			r.Status = pipeline.StatusPartial
		}
		if u.State == state.UnitFailed {
			failed++
		}
		if u.State == state.UnitFailed && len(rep.Streams) == 0 {
			r.Err = errors.New(rep.Reason) // units of a source begin together and fail for the same reason
		}
	}
	if failed > 0 && r.Status == pipeline.StatusPartial {
		r.Status = pipeline.StatusFailed
	}
	return r
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
