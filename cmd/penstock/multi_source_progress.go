package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

// sourcesShown reports the progress of a run over several sources. It is safe for concurrent use.
type sourcesShown struct {
	a    *app
	stop chan struct{}
	done sync.WaitGroup

	mu             sync.Mutex
	total, over    int // all sources, and the sources that have ended
	short          int // ended, but not complete
	rows, requests int
	follow         func(pipeline.Event)
}

// show starts to report a run over total sources, until close.
func (m *multiSource) show(total int) *sourcesShown {
	s := &sourcesShown{a: m.app, stop: make(chan struct{}), total: total, follow: m.flags.follow}
	if m.noProgress || m.quiet || m.flags.follow != nil {
		return s
	}
	s.done.Go(func() {
		t := time.NewTicker(render.LogEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				s.log()
			case <-s.stop:
				return
			}
		}
	})
	return s
}

// event handles one step of a source's run.
func (s *sourcesShown) event(e pipeline.Event) {
	s.mu.Lock()
	if e.Kind == pipeline.EventPage {
		s.rows += int(e.Records)
		s.requests += e.Requests
	}
	s.mu.Unlock()
	if s.follow != nil {
		s.follow(e)
	}
}

// ended notes the end of a source.
func (s *sourcesShown) ended(o fleet.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over++
	if !o.Complete() {
		s.short++
	}
}

func (s *sourcesShown) log() {
	s.mu.Lock()
	defer s.mu.Unlock()
	trouble := ""
	if s.short > 0 {
		trouble = fmt.Sprintf(", %d of them not complete", s.short)
	}
	s.a.log.Info(fmt.Sprintf("%d of %s done%s", s.over, render.Plural(s.total, "source"), trouble), "records", s.rows, "requests", s.requests)
}

func (s *sourcesShown) close() {
	close(s.stop)
	s.done.Wait()
}
