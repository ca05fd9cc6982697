// Package fleet schedules the work of one process over many sources. Each piece of work is a [Job]:
// one call of pipeline.Run over one source, or over some streams of a source. A [Pool] lets the
// sources take turns and runs a bounded number of jobs at the same time. A job that waits for its source
// does not hold up the others.
//
// The package depends on neither configurations nor destinations. The caller decides what a job does,
// and stores its result.
package fleet

import (
	"context"
	"errors"
	"time"
)

// Job is a piece of work for one source. Run returns when all of its work has ended, soon after ctx
// ends. It calls beat, from any goroutine, whenever its source answers. Run handles its own errors and
// panics.
//
// While other jobs wait for a place, a job whose source is silent may be put off: its ctx ends with
// [ErrPutOff] as the cause. If Run then returns true, the job starts again after the waiting jobs have
// started. A job is put off twice at most.
type Job struct {
	Source string
	Silent bool // the source did not answer the last time, so the job starts after the others
	Run    func(ctx context.Context, beat func()) (again bool)
}

// ErrPutOff is the cause with which a job's context ends when the job makes room for others.
var ErrPutOff = errors.New("put off: the source does not answer, and other sources are waiting")

// Pool runs jobs. The zero value uses the defaults.
type Pool struct {
	Width    int           // maximum of jobs that work at the same time; 0: DefaultWidth
	Most     int           // maximum of jobs under way, including those that wait for their sources; 0: four times Width // Invariant 6
	Each     int           // maximum of jobs of one source at the same time; 0: 1
	Patience time.Duration // longest time without a beat before a job counts as waiting for its source; it is shorter if sources usually answer faster; 0: DefaultPatience
}

// Defaults of a Pool.
const (
	DefaultWidth    = 8
	DefaultPatience = 2 * time.Second
)

// Run runs the jobs and returns when none is under way. Sources take turns in the order of their first
// jobs: one job of each source, then the next job of each. After ctx ends, no further job starts. Run
// returns how many jobs started, each counted once.
//
// A job counts as working until its source is silent for longer than sources usually are. Before the
// first answer, a job counts as a fraction: the share of recent jobs whose source answered. So sources
// that never answer, however many, leave nearly all of the width to the others. When p.Most jobs are
// under way, a job whose source stays silent is put off.
func (p Pool) Run(ctx context.Context, jobs []Job) int {
	s := newRun(p, jobs)
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

// run has fields that only the goroutine of Run uses, unless the scheduler's lock guards them.
type run struct {
	*scheduler
	lines [lastRound + 1]waitingTasks // tasks that have not started, or are to start again, by round
	left  int
	begun int
	busy  map[string]int
	ended chan *task
}

// Jobs of earlier rounds start first. A job starts in round 0, or in silentRound if its source was silent the
// last time. Each time it is put off, it moves to a later round. In the last round it is not put off.
const (
	silentRound = 1
	lastRound   = 2
)

type task struct {
	Job
	runningJob
	tried bool
	again bool // its Run returned true, so it starts again if it was put off
}

func newRun(p Pool, jobs []Job) *run {
	p.Each = max(p.Each, 1)
	s := &run{scheduler: newScheduler(p), busy: map[string]int{}, ended: make(chan *task)}
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

// await also returns when it is time to check again whether jobs now wait for their sources.
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

func (s *run) round() int {
	for i := range s.lines {
		if len(s.lines[i].queues) > 0 {
			return i
		}
	}
	return lastRound + 1
}
