package pipeline

import (
	"time"
)

// Backfill makes a run read every stream whole, or only the records of a time range. A cursor stores the position of
// each backfill beside the position of the scheduled runs. A run with the same range continues an interrupted
// backfill. A backfill deletes no rows, except where it replaces a whole table in one transaction.
type Backfill struct {
	From, Until time.Time // see [schemas.Range]; zero From: everything
	StartOver   bool      // start from the beginning, even if an earlier run has begun or completed this backfill
}

// Ranged reports whether b covers only a range of each stream.
func (b Backfill) Ranged() bool { return !b.From.IsZero() }

// Name returns the range as text, for example "2025-01-01..2025-07-01". If the range has no end, the text is
// "2025-01-01..". If the backfill reads all records, the text is "..".
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

// Title returns the name of the stream and the backfill's range. Users see this title.
func (s StreamReport) Title() string { return called(s.Stream, s.Backfill) }

// Title returns the name of the pipeline and the backfill's range.
func (r Report) Title() string {
	if len(r.Streams) == 0 {
		return r.Pipeline
	}
	return called(r.Pipeline, r.Streams[0].Backfill)
}
