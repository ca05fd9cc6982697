package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
)

// How often progress is drawn on a terminal, or logged without one.
const (
	drawEvery = 200 * time.Millisecond
	logEvery  = 10 * time.Second
	paceOver  = 3 * time.Second // window of the request rate
)

// progress follows a run's events and shows its progress. It is safe for concurrent use.
type progress struct {
	a      *app
	source *sourceClient
	stop   chan struct{}
	done   sync.WaitGroup

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

// newProgress starts to show a run over total streams of src, until close.
func (a *app) newProgress(total int, src *sourceClient) *progress {
	p := &progress{a: a, source: src, stop: make(chan struct{}), started: time.Now(), total: total, running: map[string]*reading{}}
	p.pace = []sample{{at: p.started}}
	every, show := logEvery, p.log
	switch {
	case a.live():
		every, show = drawEvery, p.draw
	case a.noProgress || a.quiet:
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

// close ends the display and clears what it has drawn.
func (p *progress) close() {
	close(p.stop)
	p.done.Wait()
	p.a.screen.clear()
}

// event handles one event of the run.
func (p *progress) event(e pipeline.Event) {
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
func (p *progress) report(r *pipeline.StreamReport) {
	if r == nil {
		return
	}
	attrs := []any{"stream", r.Stream, "status", r.Status, "fetched", r.Counts.Fetched, "written", r.Counts.Written,
		"requests", r.Requests, "took", brief(r.Duration)}
	switch {
	case r.Status == pipeline.StatusComplete:
		p.a.log.Debug("stream done", append(attrs, "verdict", r.Verdict)...)
	case !p.a.live():
		p.a.log.Debug("stream ended", attrs...)
	}
}

// figures returns the text of a progress line.
func (p *progress) figures() string {
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
	if l := p.source.limit(); l != "" {
		speed += " (limit " + l + ")"
	}
	parts := []string{
		fmt.Sprintf("%d/%d streams", p.ended, p.total),
		grouped(int64(p.pages)) + " pages",
		grouped(p.rows) + " rows",
		speed,
		brief(now.Sub(p.started)),
	}
	if left, ok := p.left(now); ok {
		parts = append(parts, "about "+left.Round(time.Second).String()+" left")
	}
	for _, name := range sortedKeys(p.running) {
		if w := p.running[name].windows; w.Done > 0 {
			parts = append(parts, name+windowsText(w))
			break
		}
	}
	if w := p.source.waiting(); w != "" {
		parts = append(parts, w)
	}
	return strings.Join(parts, " · ")
}

// left estimates the remaining time from the share of finished streams. A stream that is being read counts in
// part, if the length of its list is known.
func (p *progress) left(now time.Time) (time.Duration, bool) {
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
func (p *progress) log() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.a.log.Info(p.figures())
}

// draw shows the figures and the longest-running streams.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := []string{p.figures()}
	names := sortedKeys(p.running)
	slices.SortStableFunc(names, func(a, b string) int {
		return p.running[a].since.Compare(p.running[b].since)
	})
	for _, name := range names[:min(4, len(names))] {
		r := p.running[name]
		line := fmt.Sprintf("  %-36s %12s", name, grouped(r.rows))
		if r.total > 0 {
			line += " of " + grouped(r.total)
		}
		line += windowsText(r.windows)
		lines = append(lines, line)
	}
	p.a.screen.draw(lines...)
}
