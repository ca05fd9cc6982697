package state

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Limits of the history of runs. // Invariant 6
const (
	HourAge     = 8 * 24 * time.Hour  // older hours become days
	HistoryAge  = 92 * 24 * time.Hour // older days are deleted
	KeptHistory = 1_000_000           // points at the end of a day; if there are more, the oldest are deleted
)

// History stores what runs did, as sums of an hour, and later of a day. It is only for display: the tables of each
// destination say what was loaded. A History is safe for concurrent use.
type History interface {
	// Add adds what runs did. Once a day, it also joins old hours to days, and deletes what the limits do not allow.
	Add(ctx context.Context, work []Work) error
	// Points returns the points of the series that begin at the given time or later, sorted by series and time. The
	// points of an hour come before those of a day.
	Points(ctx context.Context, of []Series, since time.Time) ([]Point, error)
	// Close closes the History.
	Close() error
}

// Series names what is summed: a pipeline, or one of its sources, or one of its streams in all sources.
type Series struct {
	Pipeline string
	Source   string // "" if the sum is over all sources
	Stream   string // "" if the sum is over all streams
}

// Work is what a run did for a series.
type Work struct {
	Series
	At         time.Time // when the run ended
	Runs       int64     // 1; 0 if another Work of the same run counts the run
	Incomplete int64     // how many of Runs are not complete
	Took       time.Duration
	Complete   time.Time // when everything in the series was complete; zero: it is not complete
	WorkCounts
}

// WorkCounts are the numbers of a Work or a [Point].
type WorkCounts struct {
	Fetched, Written, Deleted, Rejected int64
	Requests                            int64
	Allowed                             int64 // requests that the rate limit allowed in the same time; 0: unknown
}

func (c *WorkCounts) add(o WorkCounts) {
	c.Fetched += o.Fetched
	c.Written += o.Written
	c.Deleted += o.Deleted
	c.Rejected += o.Rejected
	c.Requests += o.Requests
	c.Allowed += o.Allowed
}

// Point is the sum of the Work of one hour or one day.
type Point struct {
	Series
	At               time.Time     // the beginning
	Width            time.Duration // an hour or a day
	Runs, Incomplete int64
	Took             time.Duration // sum over the runs
	Longest          time.Duration // the longest run
	Complete         time.Time     // the last time when the series was complete; zero: it was not
	WorkCounts
}

// Hours returns the sums of Work for each series and hour, sorted by series and time. All processes store points in this
// order, so they do not wait for each other in a circle.
func Hours(work []Work) []Point {
	type hour struct {
		Series
		at int64
	}
	sums := map[hour]*Point{}
	var all []*Point
	for _, w := range work {
		at := w.At.UTC().Truncate(time.Hour)
		k := hour{w.Series, at.Unix()}
		p := sums[k]
		if p == nil {
			p = &Point{Series: w.Series, At: at, Width: time.Hour}
			sums[k] = p
			all = append(all, p)
		}
		p.Runs += w.Runs
		p.Incomplete += w.Incomplete
		p.Took += w.Took
		p.Longest = max(p.Longest, w.Took)
		if w.Complete.After(p.Complete) {
			p.Complete = w.Complete
		}
		p.add(w.WorkCounts)
	}
	slices.SortFunc(all, func(a, b *Point) int { return cmp.Or(a.compare(b.Series), a.At.Compare(b.At)) })
	points := make([]Point, len(all))
	for i, p := range all {
		points[i] = *p
	}
	return points
}

func (s Series) compare(o Series) int {
	return cmp.Or(cmp.Compare(s.Pipeline, o.Pipeline), cmp.Compare(s.Source, o.Source), cmp.Compare(s.Stream, o.Stream))
}

// Newest returns the time of the newest point.
func Newest(points []Point) (at time.Time) {
	for _, p := range points {
		if p.At.After(at) {
			at = p.At
		}
	}
	return at
}
