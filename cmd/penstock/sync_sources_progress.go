package main

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

// sourcesShown reports the progress of a run over several sources. It is safe for concurrent use.
type sourcesShown struct {
	log    *slog.Logger
	silent bool

	mu             sync.Mutex
	total, over    int // number of all sources, and number of sources that have ended
	short          int // number of sources that have ended, but are not complete
	rows, requests int

	stop func() // ends the reports; nil before begin() is called
}

// begin starts to report the progress of a run over the given number of sources. The reports end with close().
func (s *sourcesShown) begin(total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = total
	if s.silent {
		return
	}
	t, ended := time.NewTicker(render.LogEvery), make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		defer t.Stop()
		for {
			select {
			case <-t.C:
				s.report()
			case <-ended:
				return
			}
		}
	})
	s.stop = func() { close(ended); reporting.Wait() }
}

// event handles one step of a source's run.
func (s *sourcesShown) event(e pipeline.Event) {
	if e.Kind != pipeline.EventPage {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows += int(e.Records)
	s.requests += e.Requests
}

// ended() counts a source that has ended.
func (s *sourcesShown) ended(o fleet.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over++
	if !o.Complete() {
		s.short++
	}
}

func (s *sourcesShown) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	trouble := ""
	if s.short > 0 {
		trouble = fmt.Sprintf(", %d of them not complete", s.short)
	}
	s.log.Info(fmt.Sprintf("%d of %s done%s", s.over, render.Plural(s.total, "source"), trouble), "records", s.rows, "requests", s.requests)
}

// close ends the reports.
func (s *sourcesShown) close() {
	if s.stop != nil {
		s.stop()
	}
}
