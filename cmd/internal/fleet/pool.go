// Package fleet has what a process needs to work on many sources, also together with other processes. A [Pool] runs a
// list of jobs, and [Slots] admit jobs that arrive one by one. Both limit how many jobs run at the same time, and a job
// that waits for its source does not hold up other jobs. A [Claimer] claims units of a state and makes attempts at
// them. [Outcomes] and [Joined] sum up the results.
//
// The package depends on neither configurations nor destinations. The caller decides what a job does,
// and stores its result.
package fleet

import (
	"context"
	"errors"
	"time"
)

// Job is the work for one source. Run returns when all of its work has ended. If ctx ends, Run returns soon after. It
// calls beat(), from any goroutine, whenever its source answers. Run handles its own errors and panics.
//
// While other jobs wait to start, a job whose source is silent may be put off: its ctx ends with [ErrPutOff] as the
// cause. If Run then returns true, the job starts again after the waiting jobs have started. A job is put off twice at
// most.
type Job struct {
	Silent bool // the source did not answer the last time, so the job starts after the others
	Run    func(ctx context.Context, beat func()) (again bool)
}

// ErrPutOff is the cause with which a job's context ends when the job is put off for other jobs.
var ErrPutOff = errors.New("put off: the source does not answer, and other sources are waiting")

// Pool runs jobs. The zero value uses the defaults.
type Pool struct {
	Width    int           // maximum number of jobs that work at the same time; 0: DefaultWidth
	Most     int           // maximum number of jobs under way, including those that wait for their sources; 0: four times Width // Invariant 6
	Patience time.Duration // longest time without a beat before a job counts as waiting for its source; it is shorter if sources usually answer faster; 0: DefaultPatience
}

// Defaults of a Pool.
const (
	DefaultWidth    = 8
	DefaultPatience = 2 * time.Second
)

// Run runs the jobs in their order, and returns when none is under way. After ctx ends, no further job starts. Run
// returns how many jobs started, each counted once.
//
// A job counts as working until its source is silent for longer than sources usually are. Before the first answer, a
// job counts only in part. This part is the share of recent jobs whose source answered. For example, if half of the
// recent jobs got an answer, the job counts as half a job. So even many sources that never answer leave nearly all of
// the width to other sources. When p.Most jobs are under way, a job whose source stays silent is put off.
func (p Pool) Run(ctx context.Context, jobs []Job) int {
	s := &run{scheduler: newScheduler(p), ended: make(chan *task)}
	for _, j := range jobs {
		t := &task{Job: j}
		if j.Silent {
			t.round = silentRound
		}
		s.waiting[t.round] = append(s.waiting[t.round], t)
	}
	defer s.drain()
	for ctx.Err() == nil {
		for s.round() <= lastRound && s.room() {
			s.start(ctx, s.next())
		}
		if s.round() > lastRound && s.leaving == 0 {
			break
		}
		s.putOff(s.round())
		s.await(ctx)
	}
	return s.begun
}

// Only the goroutine of Run uses the fields of run, except the fields that the scheduler's lock guards.
type run struct {
	*scheduler
	waiting [lastRound + 1][]*task // by round: the tasks that have not started, or are to start again
	begun   int
	ended   chan *task
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
	again bool // the job's Run returned true, so the job starts again if it was put off
}

// round returns the first round that has waiting tasks.
func (s *run) round() int {
	for i, tasks := range s.waiting {
		if len(tasks) > 0 {
			return i
		}
	}
	return lastRound + 1
}

func (s *run) next() *task {
	tasks := &s.waiting[s.round()]
	t := (*tasks)[0]
	*tasks = (*tasks)[1:]
	return t
}

func (s *run) start(ctx context.Context, t *task) {
	if !t.tried {
		s.begun++
	}
	t.runningJob = runningJob{round: t.round}
	s.add(&t.runningJob)
	ctx = s.begin(ctx, &t.runningJob)
	t.tried, t.again = true, false
	go func() {
		defer func() { s.ended <- t }()
		t.again = t.Run(ctx, func() { s.beat(&t.runningJob) })
	}()
}

// await waits until a job ends. It returns earlier if it is time to check again whether jobs wait for their sources.
func (s *run) await(ctx context.Context) {
	var look <-chan time.Time
	if first := s.round(); first < lastRound || first == lastRound && len(s.active) < s.pool.Most {
		t := time.NewTimer(s.look())
		defer t.Stop()
		look = t.C
	}
	select {
	case t := <-s.ended:
		off := t.off
		s.leave(&t.runningJob)
		if off && t.again {
			s.waiting[t.round] = append(s.waiting[t.round], t)
		}
	case <-look:
	case <-ctx.Done():
	}
}

func (s *run) drain() {
	for len(s.active) > 0 {
		s.leave(&(<-s.ended).runningJob)
	}
}
