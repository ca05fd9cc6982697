package fleet

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
)

// scheduler tracks the jobs under way. Only one goroutine at a time may use the fields that mu does not guard.
type scheduler struct {
	pool    Pool
	active  map[*runningJob]bool
	leaving int // active jobs that were put off

	mu    sync.Mutex
	clock runClock
	first meanDuration // how long sources need for their first answer
	gaps  meanDuration // how long sources need for a later answer
	share float64      // share of recently started jobs whose source answered
}

type runningJob struct {
	round  int
	off    bool // the job was put off, and `round` is its next round
	aside  bool // the job continues without a slot
	cancel context.CancelCauseFunc

	begun    bool // the job uses its source and its destinations
	reads    *reads
	answered bool
	judged   bool
}

// reads are the reads of a source by a job.
type reads struct {
	underWay int
	ended    bool          // at least one has ended
	last     time.Duration // when the last one ended, or when the first of those under way began; by the scheduler's clock
}

// Parameters of scheduler.share, a moving average.
const (
	lately     = 16
	leastShare = 1. / 16. // above 0, so that each job uses some of the width
)

func newScheduler(p Pool) *scheduler {
	if p.Width <= 0 {
		p.Width = DefaultWidth
	}
	if p.Most < p.Width {
		p.Most = 4 * p.Width
	}
	if p.Patience <= 0 {
		p.Patience = DefaultPatience
	}
	f := &scheduler{pool: p, active: map[*runningJob]bool{}, share: 1}
	f.clock.step = f.look()
	return f
}

func (f *scheduler) look() time.Duration { return f.pool.Patience / 16 }

// add adds a job that is under way until leave() is called.
func (f *scheduler) add(t *runningJob) {
	if len(f.active) == 0 {
		f.clock.start(&f.mu)
	}
	f.active[t] = true
}

// begin begins to measure how long the source of a job is silent. The job must use the returned context for its reads.
func (f *scheduler) begin(ctx context.Context, t *runningJob) context.Context {
	ctx, t.cancel = context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reads{}
	t.begun, t.reads, t.answered, t.judged = true, r, false, false
	return wire.WithTrace(ctx, func() (end func()) { return f.read(ctx, r) })
}

// read records that a read is under way until end() is called. If ctx ends, the read ends without an answer.
func (f *scheduler) read(ctx context.Context, r *reads) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.underWay++; r.underWay == 1 {
		r.last = f.clock.now()
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		times := &f.gaps
		if !r.ended {
			times = &f.first
		}
		if ctx.Err() == nil {
			times.observe(f.silence(r))
		}
		r.underWay--
		r.ended, r.last = true, f.clock.now()
	}
}

// silence returns how long a job has been waiting for its source. It is 0 while the job waits only for its destinations
// or for the state. The caller must hold f.mu.
func (f *scheduler) silence(r *reads) time.Duration {
	if r.underWay == 0 {
		return 0
	}
	return f.clock.now() - r.last
}

func (f *scheduler) end(t *runningJob) {
	if t.off {
		f.leaving--
		t.off = false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !t.begun {
		return
	}
	t.cancel(nil)
	f.judge(t)
	t.begun = false
}

func (f *scheduler) leave(t *runningJob) {
	f.end(t)
	delete(f.active, t)
	if len(f.active) == 0 {
		f.clock.stop()
	}
}

func (f *scheduler) beat(t *runningJob) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.answered, t.reads.last = true, f.clock.now()
	f.judge(t)
}

// judge updates f.share, once per job: it counts whether the job's source answered. The caller must hold f.mu.
func (f *scheduler) judge(t *runningJob) {
	if t.judged {
		return
	}
	t.judged = true
	got := 0.
	if t.answered {
		got = 1
	}
	f.share = max(leastShare, f.share+(got-f.share)/lately)
}

func (f *scheduler) freeWidth() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	free := float64(f.pool.Width)
	for t := range f.active {
		switch {
		case !t.begun, t.answered && f.silence(t.reads) <= f.gaps.timeout(f.pool.Patience):
			free--
		case !t.answered && f.silence(t.reads) <= f.first.timeout(f.pool.Patience):
			free -= f.share
		case !t.answered:
			f.judge(t)
		}
	}
	return free
}

func (f *scheduler) waits(t *runningJob) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.begun && (!t.answered || f.silence(t.reads) > f.gaps.timeout(f.pool.Patience))
}

func (f *scheduler) room() bool {
	if len(f.active) >= f.pool.Most {
		return false
	}
	free := f.freeWidth()
	f.mu.Lock()
	defer f.mu.Unlock()
	return free >= f.share
}

// A job whose source has answered before is put off only after a silence of longSilence times Patience, because it has
// work that would be interrupted. A job that waits for a busy destination is not put off: its next attempt would do the
// same work again, at the same destination. After a silence of longestSilence times Patience, each job may be put off.
const (
	longSilence    = 5
	longestSilence = 15
)

// putOff interrupts jobs that wait for their sources, so that other jobs can start. An interrupted job starts again in
// a later round. The argument `waiting` is the lowest round of the jobs that have not started. putOff begins with jobs
// whose source has never answered. Of several such jobs, it begins with the one that has waited the longest. Invariant
// 15
func (f *scheduler) putOff(waiting int) {
	if len(f.active) < f.pool.Most {
		return
	}
	for n := int(math.Ceil(f.freeWidth())); f.leaving < n; {
		t, round := f.longestSilent(waiting)
		if t == nil {
			return
		}
		f.leaving++
		t.off, t.round = true, round
		t.cancel(ErrPutOff)
	}
}

// longestSilent returns the job to put off next, and the round that it moves into. It returns only a job that moves
// into a later round than `waiting`.
func (f *scheduler) longestSilent(waiting int) (found *runningJob, into int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t := range f.active {
		late, round := f.first.overdue(f.pool.Patience), lastRound
		if t.answered {
			late, round = max(longSilence*f.pool.Patience, f.gaps.overdue(f.pool.Patience)), t.round+1
		}
		switch {
		case !t.begun || t.off || t.round == lastRound || waiting >= round || f.silence(t.reads) <= late:
		case found == nil || found.answered && !t.answered || found.answered == t.answered && t.reads.last < found.reads.last:
			found, into = t, round
		}
	}
	return found, into
}
