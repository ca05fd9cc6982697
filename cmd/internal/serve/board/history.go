package board

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/state"
)

// timeRange is a range of time that pages show, up to now. Points of longer ranges are days.
type timeRange struct {
	Name, Title string
	step        time.Duration
	points      int
}

const oneDay = 24 * time.Hour

func timeRanges() []timeRange {
	return []timeRange{{"24h", "24 hours", time.Hour, 24}, {"7d", "7 days", time.Hour, 168}, {"30d", "30 days", oneDay, 30}, {"90d", "90 days", oneDay, 90}}
}

func rangeNames() (names []string) {
	for _, r := range timeRanges() {
		names = append(names, r.Name)
	}
	return names
}

// rangeOf returns the range that a URL selects; the default is 7 days.
func rangeOf(r *http.Request) timeRange {
	all := timeRanges()
	if i := slices.IndexFunc(all, func(t timeRange) bool { return t.Name == r.URL.Query().Get("range") }); i >= 0 {
		return all[i]
	}
	return all[1]
}

// Trend is what runs did over time: all runs, or those of a pipeline, a source or a stream.
type Trend struct {
	Pipeline string       `json:"pipeline,omitempty" jsonschema:"description=Absent: all pipelines."`
	Source   string       `json:"source,omitempty" jsonschema:"description=Absent: all sources."`
	Stream   string       `json:"stream,omitempty" jsonschema:"description=Absent: all streams."`
	Range    string       `json:"range"`
	From     time.Time    `json:"from"`
	To       time.Time    `json:"to"`
	Step     int          `json:"step_seconds" jsonschema:"description=Length of a point: an hour or a day."`
	Points   []TrendPoint `json:"points" jsonschema:"description=Oldest first."`
	Total    TrendPoint   `json:"total"`
	Complete time.Time    `json:"complete_at,omitzero" jsonschema:"description=When everything was last complete. Absent if a part of it was not complete in the last 92 days."`
}

// TrendPoint is the sum of the runs that ended in an hour or a day. The rows are counted for each destination.
type TrendPoint struct {
	At         time.Time `json:"at"`
	Runs       int64     `json:"runs"`
	Incomplete int64     `json:"incomplete" jsonschema:"description=Runs that were not complete."`
	Fetched    int64     `json:"fetched"`
	Written    int64     `json:"written"`
	Deleted    int64     `json:"deleted"`
	Rejected   int64     `json:"rejected"`
	Requests   int64     `json:"requests"`
	Mean       float64   `json:"mean_seconds" jsonschema:"description=Mean duration of a run."`
	Longest    float64   `json:"longest_seconds" jsonschema:"description=Duration of the longest run."`
	RateUsed   *float64  `json:"rate_used,omitempty" jsonschema:"description=Requests\\, as a share of the requests that the rate limit allowed during the runs."`
	Age        *float64  `json:"age_seconds,omitempty" jsonschema:"description=Time since everything was last complete\\, at the end of the point. Absent if this is not known."`

	took    time.Duration
	allowed int64
	unknown bool // a series was not complete yet
}

func (p *TrendPoint) add(o state.Point) {
	p.Runs, p.Incomplete = p.Runs+o.Runs, p.Incomplete+o.Incomplete
	p.Fetched, p.Written, p.Deleted, p.Rejected = p.Fetched+o.Fetched, p.Written+o.Written, p.Deleted+o.Deleted, p.Rejected+o.Rejected
	p.Requests, p.allowed, p.took = p.Requests+o.Requests, p.allowed+o.Allowed, p.took+o.Took
	p.Longest = max(p.Longest, o.Longest.Seconds())
}

// Changed returns the number of rows that were written or deleted.
func (p TrendPoint) Changed() int64 { return p.Written + p.Deleted }

func (p *TrendPoint) finish() {
	if p.unknown {
		p.Age = nil
	}
	if p.Runs > 0 {
		p.Mean = p.took.Seconds() / float64(p.Runs)
	}
	if p.allowed > 0 {
		used := float64(p.Requests) / float64(p.allowed)
		p.RateUsed = &used
	}
}

// historySince is the time from which points are read: the whole history, because the last complete run may be older
// than the range.
func historySince(now time.Time) time.Time { return now.Add(-state.HistoryAge - oneDay) }

// trendOf sums the points of several series, sorted by series. If a pipeline has no points, it was never complete, so the
// age is not known. A source or a stream without points may not belong to the pipeline, and changes nothing.
func (t timeRange) trendOf(of []state.Series, points []state.Point, now time.Time) Trend {
	to := now.UTC().Truncate(t.step).Add(t.step)
	out := Trend{Range: t.Name, From: to.Add(-t.step * time.Duration(t.points)), To: to, Step: int(t.step.Seconds()), Points: make([]TrendPoint, t.points)}
	for i := range out.Points {
		out.Points[i].At = out.From.Add(t.step * time.Duration(i))
	}
	known := map[state.Series]bool{}
	for len(points) > 0 {
		known[points[0].Series] = true
		n := slices.IndexFunc(points, func(p state.Point) bool { return p.Series != points[0].Series })
		if n < 0 {
			n = len(points)
		}
		out.addSeries(points[:n], t.step, now)
		points = points[n:]
	}
	missing := slices.ContainsFunc(of, func(s state.Series) bool { return s == state.Series{Pipeline: s.Pipeline} && !known[s] })
	for i := range out.Points {
		out.Points[i].unknown = out.Points[i].unknown || missing
		out.Points[i].finish()
	}
	out.Total.At = out.From
	out.Total.finish()
	if last := out.Points[t.points-1].Age; last != nil {
		out.Total.Age, out.Complete = last, now.UTC().Add(-time.Duration(*last*float64(time.Second))).Truncate(time.Second)
	}
	return out
}

// addSeries adds the points of one series. If a trend has several series, its age is the age of the oldest. If
// one of them was never complete, the age is not known.
func (t *Trend) addSeries(points []state.Point, step time.Duration, now time.Time) {
	complete := make([]time.Time, 0, len(points))
	for _, p := range points {
		if !p.Complete.IsZero() {
			complete = append(complete, p.Complete)
		}
		if i := int(p.At.Sub(t.From) / step); !p.At.Before(t.From) && i < len(t.Points) {
			t.Points[i].add(p)
			t.Total.add(p)
		}
	}
	slices.SortFunc(complete, time.Time.Compare)
	next := 0
	for i := range t.Points {
		p, end := &t.Points[i], t.Points[i].At.Add(step)
		if end.After(now) {
			end = now
		}
		for next < len(complete) && !complete[next].After(end) {
			next++
		}
		if next == 0 {
			p.unknown = true
			continue
		}
		if age := end.Sub(complete[next-1]).Seconds(); p.Age == nil || *p.Age < age {
			p.Age = &age
		}
	}
}

var errSourceAndStream = errors.New("choose a source or a stream, not both: the history of a stream is the sum over all sources")

// trends reads the history of runs.
type trends struct {
	facts Facts
	clock func() time.Time
}

// trend returns the trend that a URL selects.
func (h trends) trend(r *http.Request) (t Trend, err error) {
	q, of := queryOf(r), rangeOf(r)
	if q.Source != "" && q.Stream != "" {
		return t, errSourceAndStream
	}
	series := []state.Series{{Pipeline: q.Pipeline, Source: q.Source, Stream: q.Stream}}
	if q.Pipeline == "" {
		all, err := h.facts.Pipelines(r.Context())
		if err != nil {
			return t, err
		}
		series = nil
		for _, p := range all {
			series = append(series, state.Series{Pipeline: p.Name, Source: q.Source, Stream: q.Stream})
		}
	}
	now := h.clock()
	points, err := h.facts.Points(r.Context(), series, historySince(now))
	t = of.trendOf(series, points, now)
	t.Pipeline, t.Source, t.Stream = q.Pipeline, q.Source, q.Stream
	return t, err
}

// SeriesTotal is the sum of a series over a range of time.
type SeriesTotal struct {
	Pipeline string     `json:"pipeline"`
	Source   string     `json:"source,omitempty"`
	Stream   string     `json:"stream,omitempty"`
	Complete time.Time  `json:"complete_at,omitzero" jsonschema:"description=When everything in the series was last complete. Absent if it was not in the last 92 days."`
	Total    TrendPoint `json:"total"`
}

// The things by which series are listed.
const (
	byPipelines = "pipeline"
	bySources   = "source"
	byStreams   = "stream"
)

// seriesBy lists the series of a kind that match the query, sorted by name.
func (h trends) seriesBy(ctx context.Context, kind string, q Query) ([]state.Series, error) {
	pipelines, err := h.facts.Pipelines(ctx)
	if err != nil {
		return nil, err
	}
	var all []state.Series
	for _, p := range pipelines {
		switch {
		case q.Pipeline != "" && q.Pipeline != p.Name:
		case kind == byPipelines:
			all = append(all, state.Series{Pipeline: p.Name})
		case kind == bySources:
			for _, name := range p.From {
				if strings.Contains(name, q.Source) {
					all = append(all, state.Series{Pipeline: p.Name, Source: name})
				}
			}
		}
	}
	if kind == byStreams {
		streams, err := h.facts.Streams(ctx, "")
		if err != nil {
			return nil, err
		}
		for _, s := range streams.Items {
			if (q.Pipeline == "" || q.Pipeline == s.Pipeline) && strings.Contains(s.Name, q.Stream) {
				all = append(all, state.Series{Pipeline: s.Pipeline, Stream: s.Name})
			}
		}
	}
	slices.SortFunc(all, func(a, b state.Series) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Pipeline, b.Pipeline))
	})
	return slices.Compact(all), nil
}

// totals returns a page of the series of a kind, with their sums.
func (h trends) totals(ctx context.Context, kind string, q Query, in timeRange) (l List[SeriesTotal], err error) {
	all, err := h.seriesBy(ctx, kind, q)
	if err != nil {
		return l, err
	}
	l.Total = len(all)
	from := min(q.Offset, len(all))
	all = all[from:min(from+q.Limit, len(all))]
	now := h.clock()
	points, err := h.facts.Points(ctx, all, historySince(now))
	if err != nil {
		return l, err
	}
	of := map[state.Series][]state.Point{}
	for _, p := range points {
		of[p.Series] = append(of[p.Series], p)
	}
	for _, s := range all {
		t := in.trendOf([]state.Series{s}, of[s], now)
		l.Items = append(l.Items, SeriesTotal{Pipeline: s.Pipeline, Source: s.Source, Stream: s.Stream, Complete: t.Complete, Total: t.Total})
	}
	return l, nil
}
