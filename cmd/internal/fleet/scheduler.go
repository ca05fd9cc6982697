package fleet

import (
	"context"
	"math"
	"sync"
	"time"
)

// scheduler tracks the jobs under way. Only one goroutine at a time may use the fields that mu does not guard.
type scheduler struct {
	pool    Pool
	active  map[*runningJob]bool
	leaving int // active jobs that were put off

	mu    sync.Mutex
	first meanDuration
	gaps  meanDuration
	share float64 // share of recently started jobs whose source answered
}

type runningJob struct {
	round  int
	off    bool // the job was put off, and `round` is its next round
	aside  bool // the job continues without a slot
	cancel context.CancelCauseFunc

	begun       bool      // the job sends requests to its source
	began, last time.Time // when the job began, and when its source last answered
	answered    bool
	judged      bool
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
	return &scheduler{pool: p, active: map[*runningJob]bool{}, share: 1}
}

func (f *scheduler) look() time.Duration { return f.pool.Patience / 16 }

func (f *scheduler) begin(ctx context.Context, t *runningJob) context.Context {
	ctx, t.cancel = context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	t.begun, t.began, t.last, t.answered, t.judged = true, now, now, false, false
	return ctx
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
}

func (f *scheduler) beat(t *runningJob) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if t.answered {
		f.gaps.observe(now.Sub(t.last))
	} else {
		f.first.observe(now.Sub(t.began))
	}
	t.answered, t.last = true, now
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
		switch silent := time.Since(t.last); {
		case !t.begun, t.answered && silent <= f.gaps.timeout(f.pool.Patience):
			free--
		case !t.answered && silent <= f.first.timeout(f.pool.Patience):
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
	return t.begun && (!t.answered || time.Since(t.last) > f.gaps.timeout(f.pool.Patience))
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
// work that would be interrupted.
const longSilence = 5

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
		late, round := f.first.timeout(f.pool.Patience), lastRound
		if t.answered {
			late, round = longSilence*f.pool.Patience, t.round+1
		}
		switch {
		case !t.begun || t.off || t.round == lastRound || waiting >= round || time.Since(t.last) <= late:
		case found == nil || found.answered && !t.answered || found.answered == t.answered && t.last.Before(found.last):
			found, into = t, round
		}
	}
	return found, into
}
