// Package fleet shares the time of one process out among many sources. Each
// piece of work is a [Job]: one call of pipeline.Run over one source, or a part
// of one. A [Pool] takes the sources in turn, makes a bounded number of jobs at
// once, and lets none that waits for its source keep the others from theirs.
//
// It knows neither configurations nor destinations: what a job does, and what
// became of it, is the caller's.
package fleet

import (
	"context"
	"sync/atomic"
	"time"
)

// Job is a piece of work of one source. Run returns when nothing of it is under
// way any more, soon after ctx has ended. It calls beat, from any goroutine,
// whenever the work goes on; what it meets is its own affair, a panic too.
type Job struct {
	Source string
	Run    func(ctx context.Context, beat func())
}

// Pool makes jobs. The zero value makes them with the defaults.
type Pool struct {
	Width    int           // jobs at work at once; 0: DefaultWidth
	Most     int           // with those that wait for their sources; 0: four times Width
	Each     int           // of one source at once; 0: 1
	Patience time.Duration // a job without a beat for so long waits for its source; 0: DefaultPatience
}

// Defaults of a Pool.
const (
	DefaultWidth    = 8
	DefaultPatience = 2 * time.Second
)

// Run makes the jobs and returns when none is under way. Sources take turns in
// the order of their first jobs: of each one job, then of each the next. Once
// ctx is done no further job begins. It returns how many did.
func (p Pool) Run(ctx context.Context, jobs []Job) int {
	s := newShift(p, jobs)
	defer s.drain()
	for {
		if ctx.Err() != nil {
			return s.begun
		}
		for s.room() {
			j, ok := s.next()
			if !ok {
				break
			}
			s.start(ctx, j)
		}
		if s.left == 0 {
			return s.begun
		}
		s.await(ctx)
	}
}

// shift is one call of Run. Its fields belong to that goroutine.
type shift struct {
	Pool
	began  time.Time
	queues []*queue // of the sources that have jobs left
	turn   int      // the queue whose turn it is
	left   int
	begun  int
	active map[*worker]bool
	ended  chan *worker
}

// queue is the jobs of one source that have not begun.
type queue struct {
	jobs   []Job
	active int
}

// worker is a job under way.
type worker struct {
	of   *queue
	beat atomic.Int64 // when it last went on, since the shift began
}

func newShift(p Pool, jobs []Job) *shift {
	if p.Width <= 0 {
		p.Width = DefaultWidth
	}
	if p.Most < p.Width {
		p.Most = 4 * p.Width
	}
	p.Each = max(p.Each, 1)
	if p.Patience <= 0 {
		p.Patience = DefaultPatience
	}
	s := &shift{Pool: p, began: time.Now(), left: len(jobs), active: map[*worker]bool{}, ended: make(chan *worker)}
	of := map[string]*queue{}
	for _, j := range jobs {
		q := of[j.Source]
		if q == nil {
			q = &queue{}
			of[j.Source] = q
			s.queues = append(s.queues, q)
		}
		q.jobs = append(q.jobs, j)
	}
	return s
}

// room reports whether another job may begin: fewer are at work than may be, and
// those that wait are not too many.
func (s *shift) room() bool {
	return len(s.active) < s.Most && s.atWork() < s.Width
}

// atWork are the jobs that went on a short while ago.
func (s *shift) atWork() (n int) {
	since := time.Since(s.began) - s.Patience
	for w := range s.active {
		if time.Duration(w.beat.Load()) > since {
			n++
		}
	}
	return n
}

// next takes a job of the source whose turn it is, of those that may have
// another under way.
func (s *shift) next() (*worker, bool) {
	for range len(s.queues) {
		s.turn %= len(s.queues)
		q := s.queues[s.turn]
		if len(q.jobs) == 0 {
			s.queues = append(s.queues[:s.turn:s.turn], s.queues[s.turn+1:]...)
			if len(s.queues) == 0 {
				return nil, false
			}
			continue
		}
		s.turn++
		if q.active < s.Each {
			return &worker{of: q}, true
		}
	}
	return nil, false
}

func (s *shift) start(ctx context.Context, w *worker) {
	j := w.of.jobs[0]
	w.of.jobs = w.of.jobs[1:]
	w.of.active++
	s.left--
	s.begun++
	s.active[w] = true
	beat := func() { w.beat.Store(int64(time.Since(s.began)) + 1) }
	beat()
	go func() {
		defer func() { s.ended <- w }()
		j.Run(ctx, beat)
	}()
}

// await returns when a job has ended, or one at work may by now be waiting.
func (s *shift) await(ctx context.Context) {
	look := time.NewTimer(s.Patience / 4)
	defer look.Stop()
	select {
	case w := <-s.ended:
		s.end(w)
	case <-look.C:
	case <-ctx.Done():
	}
}

// drain returns when no job is under way.
func (s *shift) drain() {
	for len(s.active) > 0 {
		s.end(<-s.ended)
	}
}

func (s *shift) end(w *worker) {
	delete(s.active, w)
	w.of.active--
}
