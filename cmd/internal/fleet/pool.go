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
	"errors"
	"time"
)

// Job is a piece of work of one source. Run returns when nothing of it is under
// way any more, soon after ctx has ended. It calls beat, from any goroutine,
// whenever its source has answered; what it meets is its own affair, a panic too.
//
// One whose source is silent may be put off while others want its place: ctx ends
// with [ErrPutOff] as its cause. If Run then returns true, the job begins anew
// once those others have begun. That happens to a job twice at most.
type Job struct {
	Source string
	Silent bool // its source gave no answer the last time: it begins after the others
	Run    func(ctx context.Context, beat func()) (again bool)
}

// ErrPutOff is the cause of the end of a job that has to wait for others.
var ErrPutOff = errors.New("put off: its source is silent, and others wait")

// Pool makes jobs. The zero value makes them with the defaults.
type Pool struct {
	Width    int           // jobs at work at once; 0: DefaultWidth
	Most     int           // with those that wait for their sources; 0: four times Width // Invariant 6
	Each     int           // of one source at once; 0: 1
	Patience time.Duration // a job without a beat for so long waits for its source, or earlier where sources answer faster; 0: DefaultPatience
}

// Defaults of a Pool.
const (
	DefaultWidth    = 8
	DefaultPatience = 2 * time.Second
)

// Run makes the jobs and returns when none is under way. Sources take turns in
// the order of their first jobs: of each one job, then of each the next. Once
// ctx is done no further job begins. It returns how many did, each counted once.
//
// A job counts as at work until its source is silent for longer than sources are.
// One that was not answered yet counts for as much as such jobs have lately come
// to be answered, so that sources which never answer, however many, leave those
// that do nearly all of the width. Where the places for jobs that wait are taken,
// the one that waits in vain is put off.
func (p Pool) Run(ctx context.Context, jobs []Job) int {
	s := newShift(p, jobs)
	defer s.drain()
	for ctx.Err() == nil {
		for s.room() {
			t := s.next()
			if t == nil {
				break
			}
			s.start(ctx, t)
		}
		if s.left == 0 && s.leaving == 0 {
			break
		}
		s.putOff(s.round())
		s.await(ctx)
	}
	return s.begun
}

// run is one call of Run. What the scheduler's lock does not guard belongs to that
// goroutine.
type run struct {
	*scheduler
	lines [lastRound + 1]waitingTasks // of tasks that have not begun, or shall again
	left  int                         // tasks in lines
	begun int
	busy  map[string]int // jobs under way by source
	ended chan *task
}

// Rounds. A job begins in the first, or in the second where its source was silent
// the last time; it is put off into a later one, and never from the last.
const (
	silentRound = 1
	lastRound   = 2
)

// task is a job and what became of it.
type task struct {
	Job
	runningJob
	tried bool // it has begun before
	again bool // it was put off, and is to begin anew
}

func newShift(p Pool, jobs []Job) *run {
	p.Each = max(p.Each, 1)
	s := &run{scheduler: newFloor(p), busy: map[string]int{}, ended: make(chan *task)}
	for _, j := range jobs {
		t := &task{Job: j}
		if j.Silent {
			t.round = silentRound
		}
		s.queue(t)
	}
	return s
}

func (s *run) queue(t *task) {
	s.lines[t.round].add(t)
	s.left++
}

// next takes a task of the source whose turn it is, of those that may have
// another under way; nil where there is none.
func (s *run) next() *task {
	for i := range s.lines {
		if t := s.lines[i].next(func(source string) bool { return s.busy[source] < s.Each }); t != nil {
			s.left--
			return t
		}
	}
	return nil
}

func (s *run) start(ctx context.Context, t *task) {
	if !t.tried {
		s.begun++
	}
	t.runningJob = runningJob{round: t.round}
	s.active[&t.runningJob] = true
	ctx = s.begin(ctx, &t.runningJob)
	t.tried, t.again = true, false
	s.busy[t.Source]++
	go func() {
		defer func() { s.ended <- t }()
		t.again = t.Run(ctx, func() { s.beat(&t.runningJob) })
	}()
}

// await returns when a job has ended, or one at work may by now be waiting and
// another could begin.
func (s *run) await(ctx context.Context) {
	var look <-chan time.Time
	if first := s.round(); first < lastRound || first == lastRound && len(s.active) < s.Most {
		t := time.NewTimer(s.look())
		defer t.Stop()
		look = t.C
	}
	select {
	case t := <-s.ended:
		off := t.off
		s.end(t)
		if off && t.again {
			s.queue(t)
		}
	case <-look:
	case <-ctx.Done():
	}
}

// drain returns when no job is under way.
func (s *run) drain() {
	for len(s.active) > 0 {
		s.end(<-s.ended)
	}
}

func (s *run) end(t *task) {
	s.leave(&t.runningJob)
	if s.busy[t.Source]--; s.busy[t.Source] == 0 {
		delete(s.busy, t.Source)
	}
}

// round is the first round that somebody waits in.
func (s *run) round() int {
	for i := range s.lines {
		if len(s.lines[i].queues) > 0 {
			return i
		}
	}
	return lastRound + 1
}
