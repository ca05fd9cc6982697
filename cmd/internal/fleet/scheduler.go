package fleet

import (
	"context"
	"math"
	"sync"
	"time"
)

// scheduler is where jobs are under way: it tells those at work from those that wait for
// their sources, and which of these has to make room. What mu does not guard belongs
// to one goroutine at a time.
type scheduler struct {
	Pool
	active  map[*runningJob]bool
	leaving int // of active, those that were put off

	mu    sync.Mutex
	first meanDuration // how long sources take for their first answer
	gaps  meanDuration // and between answers
	share float64      // of the jobs begun lately, those that were answered
}

// runningJob is a job under way. The lock of the scheduler guards the fields below cancel.
type runningJob struct {
	round  int
	off    bool // it was put off, into this round
	aside  bool // it goes on without a slot
	cancel context.CancelCauseFunc

	begun       bool      // it asks its source
	began, last time.Time // last: when its source last answered
	answered    bool
	judged      bool // whether it is answered counts already
}

// What is known of jobs that wait for their first answer.
const (
	lately     = 16       // of so many jobs
	leastShare = 1. / 16. // counts for something, however many are silent
)

func newFloor(p Pool) *scheduler {
	if p.Width <= 0 {
		p.Width = DefaultWidth
	}
	if p.Most < p.Width {
		p.Most = 4 * p.Width
	}
	if p.Patience <= 0 {
		p.Patience = DefaultPatience
	}
	return &scheduler{Pool: p, active: map[*runningJob]bool{}, share: 1}
}

// look is how often it is looked who waits by now.
func (f *scheduler) look() time.Duration { return f.Patience / 16 }

// begin has the source of a job be waited for, and ends what it returns where the job
// is put off.
func (f *scheduler) begin(ctx context.Context, t *runningJob) context.Context {
	ctx, t.cancel = context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	t.begun, t.began, t.last, t.answered, t.judged = true, now, now, false, false
	return ctx
}

// end is the end of what begin began.
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

// leave is the end of a job's stay.
func (f *scheduler) leave(t *runningJob) {
	f.end(t)
	delete(f.active, t)
}

// beat takes note of an answer.
func (f *scheduler) beat(t *runningJob) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if t.answered {
		f.gaps.took(now.Sub(t.last))
	} else {
		f.first.took(now.Sub(t.began))
	}
	t.answered, t.last = true, now
	f.judge(t)
}

// judge counts, once, whether a job was answered: where it was, where its answer
// is overdue, and where it ended without one. f.mu is held.
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

// wanted is how much of the width nobody uses.
func (f *scheduler) wanted() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	free := float64(f.Width)
	for t := range f.active {
		switch silent := time.Since(t.last); {
		case !t.begun, t.answered && silent <= f.gaps.late(f.Patience):
			free--
		case !t.answered && silent <= f.first.late(f.Patience):
			free -= f.share
		case !t.answered:
			f.judge(t)
		}
	}
	return free
}

// waits reports whether a job waits for its source: for the first answer, or for
// longer than sources take.
func (f *scheduler) waits(t *runningJob) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.begun && (!t.answered || time.Since(t.last) > f.gaps.late(f.Patience))
}

// room reports whether another job may begin.
func (f *scheduler) room() bool {
	if len(f.active) >= f.Most {
		return false
	}
	free := f.wanted()
	f.mu.Lock()
	defer f.mu.Unlock()
	return free >= f.share
}

// longSilence, in patiences, is how long a source that has answered is silent
// before its job, which has work under way, is put off.
const longSilence = 5

// putOff ends jobs that wait for their sources in the places of those that could
// begin, the first of which waits in a round: of those whose source has not answered
// the one that waits for longest, else of the others. // Invariant 15
func (f *scheduler) putOff(waiting int) {
	if len(f.active) < f.Most {
		return
	}
	for n := int(math.Ceil(f.wanted())); f.leaving < n; {
		t, round := f.silent(waiting)
		if t == nil {
			return
		}
		f.leaving++
		t.off, t.round = true, round
		t.cancel(ErrPutOff)
	}
}

// silent is the job to be put off next, and into which round; nil for none. No
// job makes room for one that would come after it.
func (f *scheduler) silent(waiting int) (found *runningJob, into int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t := range f.active {
		late, round := f.first.late(f.Patience), lastRound
		if t.answered {
			late, round = longSilence*f.Patience, t.round+1
		}
		switch {
		case !t.begun || t.off || t.round == lastRound || waiting >= round || time.Since(t.last) <= late:
		case found == nil || found.answered && !t.answered || found.answered == t.answered && t.last.Before(found.last):
			found, into = t, round
		}
	}
	return found, into
}
