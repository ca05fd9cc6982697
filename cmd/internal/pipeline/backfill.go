package pipeline

import (
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Backfill makes a run read every stream whole, or only the records of a time range. A cursor stores the position of
// each backfill beside the position of the scheduled runs. A run with the same range continues an interrupted
// backfill. A backfill deletes no rows, except where it replaces a whole table in one transaction.
type Backfill struct {
	From, Until time.Time // see [schemas.Range]; zero From: everything
	StartOver   bool      // start over, even if it was begun or completed before
}

// Ranged reports whether b covers only a range of each stream.
func (b Backfill) Ranged() bool { return !b.From.IsZero() }

// Name returns the range as text: 2025-01-01..2025-07-01. A range up to the present is 2025-01-01.., and a backfill
// of everything is named with two dots.
func (b Backfill) Name() string { return moment(b.From) + ".." + moment(b.Until) }

func moment(at time.Time) string {
	at = at.UTC()
	switch {
	case at.IsZero():
		return ""
	case at.Equal(at.Truncate(24 * time.Hour)):
		return at.Format(time.DateOnly)
	}
	return at.Format(time.RFC3339)
}

func called(stream, backfill string) string {
	switch backfill {
	case "":
		return stream
	case Backfill{}.Name():
		return stream + " backfill"
	}
	return stream + " backfill " + backfill
}

// Title returns the name of the stream and the backfill's range, as certificates and runs show it.
func (s StreamReport) Title() string { return called(s.Stream, s.Backfill) }

// Title returns the name of the pipeline and the backfill's range.
func (r Report) Title() string {
	if len(r.Streams) == 0 {
		return r.Pipeline
	}
	return called(r.Pipeline, r.Streams[0].Backfill)
}

func (r *run) backfill() string {
	if r.Options.Backfill == nil {
		return ""
	}
	return r.Options.Backfill.Name()
}

// partialBackfill reports whether the run is a backfill that commits in parts. Its passes delete nothing.
func (st *streamRun) partialBackfill() bool { return st.Options.Backfill != nil && st.parts() }

func (st *streamRun) rangeOf() schemas.Range {
	b := st.Options.Backfill
	switch {
	case b == nil:
		return schemas.Range{Whole: !st.parts()}
	case !b.Ranged():
		return schemas.Range{Whole: true}
	}
	return schemas.Range{From: b.From, Until: b.Until}
}

// RangeError reports why a range of a stream cannot be read.
type RangeError struct{ Stream, Reason string }

// Error names the stream and the reason.
func (e *RangeError) Error() string {
	return e.Stream + ": cannot read a range of it: " + e.Reason
}

func (st *streamRun) rangeable() error {
	switch {
	case st.Options.Backfill == nil || !st.Options.Backfill.Ranged():
		return nil
	case !st.stream.Ranged():
		return &RangeError{st.stream.Name, "its endpoint can be filtered neither by the time of the last change nor by month"}
	case !st.parts():
		return &RangeError{st.stream.Name, "its table has no key, or is replaced by each pass"}
	}
	return nil
}

func (k *destinationRun) ownPosition(stored state.Cursor) (pos cursor.Position, err error) {
	k.main, err = cursor.Decode(stored)
	if err != nil || k.report.Backfill == "" {
		return k.main, err
	}
	return k.main.Backfill(k.report.Backfill)
}

// storedPosition returns what the cursor will store: the position of the scheduled runs and the positions of all
// backfills. pos replaces the position that this run has moved.
func (k *destinationRun) storedPosition(p *pass, g *group, pos cursor.Position) (cursor.Position, error) {
	if k.report.Backfill == "" {
		pos.Backfills, pos.Events = k.main.Backfills, k.main.Events
		if pos.Ended {
			pos = k.announced(pos, k.all(p, g))
		}
		return k.held.AddDoubtful(pos)
	}
	if pos.Ended {
		pos.DoneAt = p.Now().UTC().Format(time.RFC3339)
	}
	main := k.main
	if main.Pass == "" {
		main.TouchedBy = p.id
	}
	err := main.SetBackfill(k.report.Backfill, pos)
	return main, err
}

func (k *destinationRun) wasDone(pos cursor.Position) {
	k.finished = true
	k.report.Status = StatusComplete
	k.report.Done, _ = time.Parse(time.RFC3339, pos.DoneAt)
}

func unranged(err error) bool {
	_, ok := errors.AsType[*RangeError](err)
	return ok
}
