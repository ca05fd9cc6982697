package render

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
)

// LogEvery is how often progress is logged if there is no terminal.
const LogEvery = 10 * time.Second

const (
	drawEvery = 200 * time.Millisecond // how often progress is drawn on a terminal
	paceOver  = 3 * time.Second        // the request rate is the average over this time
)

// Progress follows a run's events and shows its progress. It is safe for concurrent use.
type Progress struct {
	options ProgressOptions
	stop    chan struct{}
	done    sync.WaitGroup

	mu       sync.Mutex
	started  time.Time
	total    int
	ended    int
	running  map[string]*reading
	pages    int
	rows     int64
	requests int
	pace     []sample
}

// reading is the progress of a stream that is being read.
type reading struct {
	since time.Time
	rows  int64
	total int64 // records in the list, as the API states; -1 if unknown

	windows extract.Windows // progress in a list that is read in windows of time
}

// sample is the number of requests at a point in time.
type sample struct {
	at       time.Time
	requests int
}

// ProgressOptions says how the progress of a run is shown.
type ProgressOptions struct {
	Total  int                            // number of streams
	Rates  func() (limit, waiting string) // returns the rate limits, and a text about surfaces that must wait before the next request
	Log    *slog.Logger
	Screen *Screen // where progress is redrawn in place; nil to log it
	Silent bool    // show only the ends of streams, at debug level
}

// NewProgress starts to show the progress of a run. Close ends the display.
func NewProgress(o ProgressOptions) *Progress {
	p := &Progress{options: o, stop: make(chan struct{}), started: time.Now(), total: o.Total, running: map[string]*reading{}}
	p.pace = []sample{{at: p.started}}
	every, show := LogEvery, p.log
	switch {
	case o.Screen != nil:
		every, show = drawEvery, p.draw
	case o.Silent:
		show = func() {}
	}
	p.done.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				show()
			case <-p.stop:
				return
			}
		}
	})
	return p
}

// Close ends the display and clears what it has drawn.
func (p *Progress) Close() {
	close(p.stop)
	p.done.Wait()
	if p.options.Screen != nil {
		p.options.Screen.clear()
	}
}

// Event handles one event of the run.
func (p *Progress) Event(e pipeline.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case pipeline.EventStart:
		p.running[e.Stream] = &reading{since: time.Now(), total: -1}
	case pipeline.EventPage:
		p.pages++
		p.rows += e.Records
		p.requests += e.Requests
		if r := p.running[e.Stream]; r != nil {
			r.rows += e.Records
			r.total = max(r.total, e.Total)
			if e.Windows != nil {
				r.windows = *e.Windows
			}
		}
	case pipeline.EventEnd:
		if p.running[e.Stream] != nil {
			delete(p.running, e.Stream)
			p.ended++
		}
		p.report(e.Report)
	}
}

// report logs the end of a stream with -v.
func (p *Progress) report(r *pipeline.StreamReport) {
	if r == nil {
		return
	}
	attrs := []any{"stream", r.Stream, "status", r.Status, "fetched", r.Counts.Fetched, "written", r.Counts.Written,
		"requests", r.Requests, "took", Brief(r.Duration)}
	switch {
	case r.Status == pipeline.StatusComplete:
		p.options.Log.Debug("stream done", append(attrs, "verdict", r.Verdict)...)
	case p.options.Screen == nil:
		p.options.Log.Debug("stream ended", attrs...)
	}
}

// figures() returns the text of a progress line.
func (p *Progress) figures() string {
	now := time.Now()
	p.pace = append(p.pace, sample{now, p.requests})
	for len(p.pace) > 2 && now.Sub(p.pace[0].at) > paceOver {
		p.pace = p.pace[1:]
	}
	rate := 0.0
	if d := now.Sub(p.pace[0].at).Seconds(); d > 0 {
		rate = float64(p.requests-p.pace[0].requests) / d
	}
	speed := fmt.Sprintf("%.0f requests/s", rate)
	limit, waiting := p.options.Rates()
	if limit != "" {
		speed += " (limit " + limit + ")"
	}
	parts := []string{
		fmt.Sprintf("%d/%d streams", p.ended, p.total),
		Grouped(int64(p.pages)) + " pages",
		Grouped(p.rows) + " rows",
		speed,
		Brief(now.Sub(p.started)),
	}
	if left, ok := p.left(now); ok {
		parts = append(parts, "about "+left.Round(time.Second).String()+" left")
	}
	for _, name := range slices.Sorted(maps.Keys(p.running)) {
		if w := p.running[name].windows; w.Done > 0 {
			parts = append(parts, name+windowsText(w))
			break
		}
	}
	if waiting != "" {
		parts = append(parts, waiting)
	}
	return strings.Join(parts, " · ")
}

// left() estimates the remaining time from the share of finished streams. A stream that is being read counts in
// part, if the length of its list is known.
func (p *Progress) left(now time.Time) (time.Duration, bool) {
	through := float64(p.ended)
	for _, r := range p.running {
		switch {
		case r.windows.Of > 0:
			through += float64(r.windows.Done) / float64(r.windows.Of)
		case r.total > 0:
			through += min(1, float64(r.rows)/float64(r.total))
		}
	}
	share := through / float64(max(1, p.total))
	spent := now.Sub(p.started)
	if share < 0.05 || spent < 2*time.Second {
		return 0, false
	}
	return time.Duration(float64(spent) * (1 - share) / share), true
}

// windowsText says how many time windows are done.
func windowsText(w extract.Windows) string {
	switch {
	case w.Done == 0:
		return ""
	case w.Of == 0:
		return fmt.Sprintf(", %d windows", w.Done)
	}
	return fmt.Sprintf(", %d of %d windows", w.Done, w.Of)
}

// log logs a plain line.
func (p *Progress) log() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options.Log.Info(p.figures())
}

// draw shows the figures and the longest-running streams.
func (p *Progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := []string{p.figures()}
	names := slices.Sorted(maps.Keys(p.running))
	slices.SortStableFunc(names, func(a, b string) int {
		return p.running[a].since.Compare(p.running[b].since)
	})
	for _, name := range names[:min(4, len(names))] {
		r := p.running[name]
		line := fmt.Sprintf("  %-36s %12s", name, Grouped(r.rows))
		if r.total > 0 {
			line += " of " + Grouped(r.total)
		}
		line += windowsText(r.windows)
		lines = append(lines, line)
	}
	p.options.Screen.draw(lines...)
}
