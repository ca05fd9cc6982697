package board

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// chart is an SVG picture. It is Width by Height units large, and the page scales it.
type chart struct {
	Width, Height int
	Title, Desc   string
	Paths         []shape
	Top           string // value at the upper edge
	From, To      time.Time
}

type shape struct{ Class, D string }

const (
	barStep   = 5
	barHeight = 22
)

// spark draws a bar for each of the last passes of a stream. The height of a bar is the number of changed rows,
// on a logarithmic scale.
func spark(s Stream) chart {
	c := chart{Width: max(1, len(s.Recent)) * barStep, Height: barHeight + 2, Title: "Rows changed by the last passes of " + s.Name}
	most := int64(0)
	for _, b := range s.Recent {
		most = max(most, b.Changed)
	}
	bars := map[string]*strings.Builder{}
	for i, b := range s.Recent {
		class := "bar-" + string(verdictTone(b.Verdict))
		if bars[class] == nil {
			bars[class] = &strings.Builder{}
		}
		h := 1.5
		if b.Changed > 0 {
			h = 3 + (barHeight-3)*math.Log1p(float64(b.Changed))/math.Log1p(float64(most))
		}
		fmt.Fprintf(bars[class], "M%d %dv%.1f", i*barStep+2, c.Height-1, -h)
	}
	for _, class := range []string{"bar-ok", "bar-busy", "bar-new", "bar-attention"} {
		if bars[class] != nil {
			c.Paths = append(c.Paths, shape{class, bars[class].String()})
		}
	}
	c.Desc = fmt.Sprintf("%s; at most %s in a pass", fmt.Sprintf("%d passes", len(s.Recent)), counted(most, "row"))
	return c
}

const (
	chartWidth  = 600
	chartHeight = 120
)

func rateChart(b Budget) chart {
	c := chart{Width: chartWidth, Height: chartHeight, Title: "Requests per second of " + b.Source + " " + b.Name}
	if len(b.Points) < 2 {
		c.Desc = "no data yet"
		return c
	}
	most := 1.0
	for _, p := range b.Points {
		most = max(most, p.Used, p.Allowed)
	}
	c.From, c.To = b.Points[0].At, b.Points[len(b.Points)-1].At
	c.Top = perSecond(most) + "/s"
	whole := max(1, c.To.Sub(c.From).Seconds())
	x := func(p Point) float64 { return chartWidth * p.At.Sub(c.From).Seconds() / whole }
	y := func(v float64) float64 { return chartHeight - (chartHeight-4)*v/most }
	var used, allowed, refused strings.Builder
	for i, p := range b.Points {
		join := "L"
		if i == 0 {
			join = "M"
		}
		fmt.Fprintf(&used, "%s%.1f %.1f", join, x(p), y(p.Used))
		fmt.Fprintf(&allowed, "%s%.1f %.1f", join, x(p), y(p.Allowed))
		if p.Refused > 0 {
			fmt.Fprintf(&refused, "M%.1f %dv-10", x(p), chartHeight)
		}
	}
	area := used.String() + fmt.Sprintf("L%d %dL0 %dZ", chartWidth, chartHeight, chartHeight)
	c.Paths = []shape{{"area", area}, {"line", used.String()}, {"limit", allowed.String()}, {"mark", refused.String()}}
	peak := slices.MaxFunc(b.Points, func(a, b Point) int { return cmp.Compare(a.Used, b.Used) })
	c.Desc = fmt.Sprintf("from %s to %s; at most %s/s used, %s/s allowed at the end", stamp(c.From), stamp(c.To), perSecond(peak.Used), perSecond(b.Points[len(b.Points)-1].Allowed))
	return c
}

func minuteChart(w Webhook) chart {
	n := len(w.PerMin)
	c := chart{Width: max(1, n) * 10, Height: chartHeight, Title: "Deliveries per minute from " + w.Source}
	most := int64(1)
	var d strings.Builder
	for _, v := range w.PerMin {
		most = max(most, v)
	}
	for i, v := range w.PerMin {
		if v > 0 {
			fmt.Fprintf(&d, "M%d %dv%.1f", i*10+5, chartHeight, -max(1.5, float64(chartHeight-4)*float64(v)/float64(most)))
		}
	}
	c.Paths, c.Top = []shape{{"bar-wide", d.String()}}, grouped(most)+"/min"
	c.Desc = fmt.Sprintf("last %s; at most %s per minute", counted(int64(n), "minute"), grouped(most))
	return c
}

type timeline struct {
	Rows  []timelineRow
	Ticks []string
	Whole time.Duration
}

// timelineRow is one pass. X and Width are in thousandths of the duration of the run. The time before X is the time
// that the stream has waited for its turn.
type timelineRow struct {
	Pass
	X, Width int
	Waited   time.Duration
	Known    bool
	Ends     bool // only the end is known; X is the end
}

func timelineOf(d RunDetail, live *Running, now time.Time) timeline {
	end := d.Ended
	if end.IsZero() {
		end = now
	}
	passes := slices.Clone(d.Passes)
	if live != nil {
		for _, r := range live.Reading {
			passes = append(passes, Pass{Source: r.Source, Stream: r.Stream, Status: pipeline.StatusRunning, Started: r.Since, Ended: now, Counts: pipeline.Counts{Fetched: r.Records}})
		}
	}
	t := timeline{Whole: max(time.Millisecond, end.Sub(d.Started))}
	for _, p := range passes {
		row := timelineRow{Pass: p, Known: !p.Started.IsZero() && !p.Ended.IsZero()}
		if row.Known {
			row.X = thousandths(p.Started.Sub(d.Started), t.Whole)
			row.Width = max(4, thousandths(p.Ended.Sub(d.Started), t.Whole)-row.X)
			row.X = min(row.X, 1000-row.Width)
			row.Waited = max(0, p.Started.Sub(d.Started))
		} else if !p.Ended.IsZero() && p.Ended.After(d.Started) {
			row.Ends, row.X = true, min(996, thousandths(p.Ended.Sub(d.Started), t.Whole))
		}
		t.Rows = append(t.Rows, row)
	}
	slices.SortStableFunc(t.Rows, func(a, b timelineRow) int {
		return cmp.Or(a.shownAt().Compare(b.shownAt()), strings.Compare(a.Source, b.Source), strings.Compare(a.Stream, b.Stream), strings.Compare(a.Destination, b.Destination))
	})
	for i := range 4 {
		t.Ticks = append(t.Ticks, took(t.Whole*time.Duration(i+1)/4))
	}
	return t
}

// shownAt returns the time by which the row is sorted: its start, or its end if only that is known.
func (r timelineRow) shownAt() time.Time {
	if r.Ends {
		return r.Ended
	}
	return r.Started
}

func thousandths(d, whole time.Duration) int {
	return int(max(0, min(1000, 1000*float64(d)/float64(whole))))
}

// Tells returns the text that is shown on the bar.
func (r timelineRow) Tells() string {
	if r.Ends {
		return fmt.Sprintf("%s: ended at the mark", r.Stream)
	}
	return fmt.Sprintf("%s: waited %s, read for %s", r.Stream, took(r.Waited), took(r.Took()))
}

const (
	histogramBar    = 10
	histogramHeight = 24
)

// histogram draws a bar for each part of a histogram.
func histogram(column string, bars []browse.Bar) chart {
	c := chart{Width: len(bars) * histogramBar, Height: histogramHeight, Title: "Values of " + column}
	most := 1
	for _, b := range bars {
		most = max(most, b.N)
	}
	var d strings.Builder
	var words []string
	for i, b := range bars {
		if b.N == 0 {
			continue
		}
		fmt.Fprintf(&d, "M%d %dh%dv%.1fh-%dZ", i*histogramBar+1, histogramHeight, histogramBar-2, -max(1, float64(histogramHeight)*float64(b.N)/float64(most)), histogramBar-2)
		words = append(words, brief(b.Label, 60)+": "+grouped(int64(b.N)))
	}
	c.Paths, c.Desc = []shape{{"bars", d.String()}}, strings.Join(words, ", ")
	return c
}
