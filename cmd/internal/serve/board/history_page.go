package board

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// measure is a column of a trend. Each measure has a chart.
type measure struct {
	Name, Title string
	Line        bool // the chart is a line, not bars
	class       string
	value       func(TrendPoint) (v float64, known bool)
	word        func(float64) string
}

func measures() []measure {
	of := func(f func(TrendPoint) float64) func(TrendPoint) (float64, bool) {
		return func(p TrendPoint) (float64, bool) { return f(p), true }
	}
	optional := func(f func(TrendPoint) *float64) func(TrendPoint) (float64, bool) {
		return func(p TrendPoint) (float64, bool) {
			if v := f(p); v != nil {
				return *v, true
			}
			return 0, false
		}
	}
	count := func(f float64) string { return grouped(int64(f)) }
	return []measure{
		{"rows", "Rows read", false, "bars", of(func(p TrendPoint) float64 { return float64(p.Fetched) }), count},
		{"changes", "Rows written or deleted", false, "bars", of(func(p TrendPoint) float64 { return float64(p.Changed()) }), count},
		{"duration", "Longest run", false, "bars", of(func(p TrendPoint) float64 { return p.Longest }), func(f float64) string { return took(seconds(f)) }},
		{"age", "Age of the data", true, "line", optional(func(p TrendPoint) *float64 { return p.Age }), func(f float64) string { return span(seconds(f)) }},
		{"rejects", "Rejects", false, "bars warn", of(func(p TrendPoint) float64 { return float64(p.Rejected) }), count},
		{"requests", "Requests", false, "bars", of(func(p TrendPoint) float64 { return float64(p.Requests) }), count},
		{"rate", "Rate limit used", false, "bars", optional(func(p TrendPoint) *float64 { return p.RateUsed }), percent},
	}
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// trendChart is the chart of a measure.
type trendChart struct {
	chart
	Name   string
	Data   string // the points for the script; "" if the chart is empty
	Latest string // the sum of the range, or the latest value
}

func (m measure) chart(t Trend) trendChart {
	c := trendChart{chart: chart{Width: chartWidth, Height: chartHeight, Title: m.Title, From: t.From, To: t.To}, Name: m.Name}
	most, peak := 0.0, TrendPoint{}
	for _, p := range t.Points {
		if v, ok := m.value(p); ok && v > most {
			most, peak = v, p
		}
	}
	v, known := m.value(t.Total)
	if c.Latest = "–"; known {
		c.Latest = m.word(v)
	}
	if most == 0 {
		c.Desc = "none in this range"
		return c
	}
	c.Data = m.plot(t)
	c.Top, c.Desc = m.word(most), fmt.Sprintf("at most %s, on %s", m.word(most), stamp(peak.At))
	var d strings.Builder
	wide, join := float64(chartWidth)/float64(len(t.Points)), "M"
	for i, p := range t.Points {
		v, ok := m.value(p)
		x, height := wide*float64(i), (chartHeight-4)*v/most
		switch {
		case !ok:
			join = "M"
		case m.Line:
			fmt.Fprintf(&d, "%s%.1f %.1f", join, x+wide, chartHeight-height)
			join = "L"
		case v > 0:
			fmt.Fprintf(&d, "M%.1f %dv%.1fh%.1fv%.1fz", x+wide/8, chartHeight, -max(1.5, height), wide*3/4, max(1.5, height))
		}
	}
	c.Paths = []shape{{m.class, d.String()}}
	return c
}

// cells returns the values of all measures in words.
func cells(p TrendPoint) (all []string) {
	for _, m := range measures() {
		word := "–"
		if v, ok := m.value(p); ok {
			word = m.word(v)
		}
		all = append(all, word)
	}
	return all
}

// plotted is the content of a chart for the script that draws it: times in seconds, and a value for each, or null.
type plotted struct {
	Times  []int64       `json:"times"`
	Series []plottedLine `json:"series"`
}

type plottedLine struct {
	Label  string     `json:"label"`
	Values []*float64 `json:"values"`
}

// plot returns the points for the script, in units whose numbers are easy to read.
func (m measure) plot(t Trend) string {
	unit, size := "", 1.0
	switch m.Name {
	case "duration":
		unit = " (s)"
	case "age":
		unit, size = " (h)", time.Hour.Seconds()
	case "rate":
		unit, size = " (%)", 0.01
	}
	all := plotted{Series: []plottedLine{{Label: m.Title + unit, Values: make([]*float64, len(t.Points))}}}
	for i, p := range t.Points {
		all.Times = append(all.Times, p.At.Unix())
		if v, ok := m.value(p); ok {
			v /= size
			all.Series[0].Values[i] = &v
		}
	}
	text, _ := json.Marshal(all) // numbers and texts always marshal
	return string(text)
}

// link is a link to a variant of the page.
type link struct {
	Name, URL string
	Here      bool
}

func rangeLinks(r *http.Request) (all []link) {
	here := rangeOf(r)
	for _, t := range timeRanges() {
		v := r.URL.Query()
		v.Del("offset")
		v.Del("said")
		v.Set("range", t.Name)
		all = append(all, link{t.Title, r.URL.Path + "?" + v.Encode(), t.Name == here.Name})
	}
	return all
}

// totalsView is a list of series with their sums.
type totalsView struct {
	listView[SeriesTotal]
	Kind, Title, Range string
	All                string // URL of the whole list; "" if this is the whole list
	Ranges             []link
}

func (v totalsView) title() string { return "History: " + strings.ToLower(v.Title) }

// URL returns the page of the history of a series.
func (v totalsView) URL(s SeriesTotal) string {
	return queryPath("/history", "pipeline", s.Pipeline, "source", s.Source, "stream", s.Stream, "range", v.Range)
}

func kindTitle(kind string) string {
	return map[string]string{byPipelines: "Pipelines", bySources: "Sources", byStreams: "Streams"}[kind]
}

type historyView struct {
	Trend
	Query     Query
	Ranges    []link
	Charts    []trendChart
	Pipelines []string
	Lists     []totalsView
	Daily     bool
}

func (v historyView) title() string {
	names := slices.DeleteFunc([]string{v.Pipeline, v.Source, v.Stream}, func(s string) bool { return s == "" })
	return strings.Join(append([]string{"History"}, names...), " ")
}

const (
	shownTotals = 15
	pageTotals  = 50
)

func (h trends) page(r *http.Request) (any, error) {
	t, err := h.trend(r)
	if err != nil {
		return nil, err
	}
	v := historyView{Trend: t, Query: queryOf(r), Ranges: rangeLinks(r), Daily: t.Step > int(time.Hour.Seconds())}
	for _, m := range measures() {
		v.Charts = append(v.Charts, m.chart(t))
	}
	pipelines, err := h.facts.Pipelines(r.Context())
	if err != nil {
		return nil, err
	}
	for _, p := range pipelines {
		v.Pipelines = append(v.Pipelines, p.Name)
	}
	if t.Source != "" || t.Stream != "" {
		return v, nil
	}
	kinds := []string{byPipelines, byStreams, bySources}
	if t.Pipeline != "" || len(pipelines) < 2 {
		kinds = kinds[1:]
	}
	for _, kind := range kinds {
		l, err := h.totals(r.Context(), kind, Query{Pipeline: t.Pipeline, Limit: shownTotals}, rangeOf(r))
		if err != nil {
			return nil, err
		}
		list := totalsView{listView: listView[SeriesTotal]{Items: l.Items, Total: l.Total}, Kind: kind, Title: kindTitle(kind), Range: t.Range}
		if l.Total > len(l.Items) {
			list.All = queryPath("/history/series", "by", kind, "pipeline", t.Pipeline, "range", t.Range)
		}
		v.Lists = append(v.Lists, list)
	}
	return v, nil
}

func kindOf(r *http.Request) string {
	kind := r.URL.Query().Get("by")
	if kindTitle(kind) == "" {
		return byStreams
	}
	return kind
}

func (h trends) totalsPage(r *http.Request) (any, error) {
	q, kind := queryOf(r), kindOf(r)
	if !r.URL.Query().Has("limit") {
		q.Limit = pageTotals
	}
	l, err := h.totals(r.Context(), kind, q, rangeOf(r))
	return totalsView{listView: viewOf(r, q, l), Kind: kind, Title: kindTitle(kind), Range: rangeOf(r).Name, Ranges: rangeLinks(r)}, err
}
