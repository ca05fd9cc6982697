package board_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
)

func decoded[T any](t *testing.T, s *served, path string) (v T) {
	t.Helper()
	resp := s.do(t, "GET", path, "")
	require.Equal(t, 200, resp.StatusCode, path)
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&v))
	return v
}

// The sums of a range are the sums of its points, and the age of the data grows until the next complete run.
func TestHistory(t *testing.T) {
	f, now := telling(1, plain), time.Now().UTC()
	hour := now.Truncate(time.Hour)
	f.points = []state.Point{
		{At: hour.Add(-24 * time.Hour), Width: time.Hour, Runs: 1, Complete: hour.Add(-23 * time.Hour)}, // before the range
		{At: hour.Add(-3 * time.Hour), Width: time.Hour, Runs: 2, Incomplete: 1, Took: 30 * time.Second, Longest: 20 * time.Second, Complete: hour.Add(-2*time.Hour - 30*time.Minute),
			WorkCounts: state.WorkCounts{Fetched: 100, Written: 7, Deleted: 3, Rejected: 1, Requests: 10, Allowed: 40}},
		{At: hour, Width: time.Hour, Runs: 1, Incomplete: 1, Took: 5 * time.Second, Longest: 5 * time.Second, WorkCounts: state.WorkCounts{Fetched: 1, Requests: 2}},
	}
	s := boardOf(t, f, "")
	d := decoded[board.Trend](t, s, "/api/v1/history?range=24h")
	require.Len(t, d.Points, 24)
	require.Equal(t, hour, d.Points[23].At)
	three, last := d.Points[20], d.Points[23]
	require.Equal(t, []int64{2, 1, 100, 7, 3, 1, 10}, []int64{three.Runs, three.Incomplete, three.Fetched, three.Written, three.Deleted, three.Rejected, three.Requests})
	require.InDelta(t, 15, three.Mean, 1e-9)
	require.InDelta(t, 20, three.Longest, 1e-9)
	require.InDelta(t, 0.25, *three.RateUsed, 1e-9)
	require.Nil(t, last.RateUsed)
	require.InDelta(t, time.Hour.Seconds(), *d.Points[0].Age, 1, "the run before the range counts")
	require.InDelta(t, 20*time.Hour.Seconds(), *d.Points[19].Age, 1)
	require.InDelta(t, 30*60, *three.Age, 1)
	require.InDelta(t, now.Sub(hour.Add(-150*time.Minute)).Seconds(), *last.Age, 60)
	require.Equal(t, []int64{3, 2, 101, 12}, []int64{d.Total.Runs, d.Total.Incomplete, d.Total.Fetched, d.Total.Requests})
	days := decoded[board.Trend](t, s, "/api/v1/history?range=30d&pipeline=nightly")
	require.Len(t, days.Points, 30)
	require.Equal(t, int64(101), days.Points[28].Fetched+days.Points[29].Fetched)
	for by, names := range map[string][]string{"pipeline": {"nightly"}, "source": {"main"}, "stream": {"crm.leads"}} {
		list := listOf[board.SeriesTotal](t, s, "/api/v1/history/series?range=24h&by="+by)
		require.Len(t, list, len(names), by)
		require.Contains(t, []string{list[0].Stream, list[0].Source, list[0].Pipeline}, names[0])
		require.Equal(t, int64(101), list[0].Total.Fetched)
	}
}

// The age of several series is that of the oldest. If one of them was never complete, the age is not known. A complete run
// counts even if it is much older than the range.
func TestHistoryAge(t *testing.T) {
	now := time.Now().UTC()
	point := func(pipeline string, ago time.Duration, complete bool) state.Point {
		p := state.Point{Series: state.Series{Pipeline: pipeline}, At: now.Add(-ago).Truncate(time.Hour), Width: time.Hour, Runs: 1}
		if complete {
			p.Complete = now.Add(-ago)
		}
		return p
	}
	const days = 24 * time.Hour
	for name, c := range map[string]struct {
		points []state.Point
		age    time.Duration // 0: not known
	}{
		"oldest":               {[]state.Point{point("nightly", 2*days, true), point("hourly", 3*time.Hour, true)}, 2 * days},
		"before the range":     {[]state.Point{point("nightly", 10*days, true), point("nightly", time.Hour, false), point("hourly", 80*days, true)}, 80 * days},
		"one never complete":   {[]state.Point{point("nightly", time.Hour, true), point("hourly", time.Hour, false)}, 0},
		"one without any runs": {[]state.Point{point("nightly", time.Hour, true)}, 0},
	} {
		f := telling(1, plain)
		f.pipelines = []board.Pipeline{{Name: "nightly"}, {Name: "hourly"}}
		f.points = c.points
		d := decoded[board.Trend](t, boardOf(t, f, ""), "/api/v1/history?range=24h")
		if c.age == 0 {
			require.Nil(t, d.Total.Age, name)
			require.Zero(t, d.Complete, name)
			continue
		}
		require.NotNil(t, d.Total.Age, name)
		require.InDelta(t, c.age.Seconds(), *d.Total.Age, 60, name)
	}
}

// The graph leads from the source to the view. A page has a limited number of streams.
func TestGraph(t *testing.T) {
	f := telling(45, plain)
	for i := range f.streams {
		f.streams[i].Pipeline, f.streams[i].Source, f.streams[i].Name, f.streams[i].Table = "nightly", "", fmt.Sprintf("crm.s%02d", i), fmt.Sprintf("crm_s%02d", i)
	}
	f.pipelines = f.pipelines[:1]
	f.views[0].Tables = []string{"crm_s01", "crm_s44"}
	s := boardOf(t, f, "")
	streams, pages := map[string]bool{}, 0
	for next := "/api/v1/graph"; next != ""; pages++ {
		g := decoded[board.Graph](t, s, next)
		require.Equal(t, 45, g.Streams)
		edges := map[board.GraphEdge]bool{}
		for _, e := range g.Edges {
			edges[e] = true
		}
		for _, n := range g.Nodes {
			if n.Kind == "stream" {
				streams[n.Name] = true
				require.True(t, edges[board.GraphEdge{From: "source:nightly/main", To: n.ID}] || edges[board.GraphEdge{From: "source:/main", To: n.ID}], n.ID)
			}
		}
		if pages == 0 {
			require.True(t, edges[board.GraphEdge{From: "stream:nightly/crm.s01", To: "table:warehouse/crm_s01"}])
			require.True(t, edges[board.GraphEdge{From: "table:warehouse/crm_s01", To: "view:warehouse/receivables_ageing"}])
		}
		next = g.Next
	}
	require.Len(t, streams, 45)
	require.Equal(t, 3, pages)
	v := tab(t)
	v.run(t, chromedp.Navigate(s.URL+"/graph?stream=s01"), chromedp.WaitReady(chromedp.CSS("svg.graph a")))
	require.Equal(t, 4, eval[int](t, v, `document.querySelectorAll("svg.graph a").length`))
	v.run(t, chromedp.Navigate(s.URL+"/graph?pipeline=nothing"), chromedp.WaitReady(chromedp.CSS("#graph .empty")))
}

// The history works without scripts: the charts and the table are in the page, and the links lead to the other ranges
// and series.
func TestHistoryInBrowser(t *testing.T) {
	s := boardOf(t, telling(3, plain), "")
	v := tab(t)
	v.run(t, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(s.URL+"/history"))
	v.run(t, chromedp.WaitReady(chromedp.CSS("#trends figure path.bars")), chromedp.WaitReady(chromedp.CSS("#points tbody tr")), chromedp.WaitReady(chromedp.CSS("#by-stream tbody a")))
	v.run(t, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}), chromedp.Navigate(s.URL+"/history"))
	v.sees(t, `document.querySelectorAll("#trends figure canvas").length === 7`)
	v.sees(t, `document.querySelectorAll("#points tbody tr").length === 168`)
	v.clicks(t, `.ranges a[href*="90d"]`, `.ranges a[href*="90d"][aria-current]`)
	v.sees(t, `document.querySelectorAll("#points tbody tr").length === 90`)
	v.clicks(t, `#by-stream a[href*="stream="]`, `input[name=stream][value="crm.leads"]`)
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}

// The waterfall shows how long a stream has waited and was read. If only its end is known, it shows a mark.
func TestWaterfall(t *testing.T) {
	f := telling(1, plain)
	f.now.Running = nil
	d := &f.runs[0]
	p := d.Passes[0]
	p.Stream, p.Started, p.Ended = "v2.tickets", time.Time{}, d.Started.Add(60*time.Second)
	d.Passes = append(d.Passes, p)
	s := boardOf(t, f, "")
	v := tab(t)
	v.run(t, chromedp.Navigate(s.URL+"/runs/"+d.ID), chromedp.WaitReady(chromedp.CSS("#timeline tbody tr")))
	require.Equal(t, "crm.leads: waited 1.0 s, read for 39 s", eval[string](t, v, `document.querySelector("#timeline svg").getAttribute("aria-label")`))
	require.True(t, eval[bool](t, v, `+document.querySelector("#timeline .wait").getAttribute("width") === 10`))
	require.Equal(t, "v2.tickets: ended at the mark", eval[string](t, v, `[...document.querySelectorAll("#timeline svg")].find((e) => e.getAttribute("aria-label").startsWith("v2")).getAttribute("aria-label")`))
}
