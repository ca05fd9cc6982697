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
	"math"
	"sync"
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
		s.putOff()
		s.await(ctx)
	}
	return s.begun
}

// shift is one call of Run. What mu does not guard belongs to that goroutine.
type shift struct {
	Pool
	lines   [lastRound + 1]line // of tasks that have not begun, or shall again
	left    int                 // tasks in lines
	begun   int
	leaving int            // tasks under way that were put off
	busy    map[string]int // jobs under way by source
	active  map[*task]bool
	ended   chan *task

	mu    sync.Mutex
	first pace    // how long sources take for their first answer
	gaps  pace    // and between answers
	share float64 // of the jobs begun lately, those that were answered
}

// Rounds. A job begins in the first, or in the second where its source was silent
// the last time; it is put off into a later one, and never from the last.
const (
	silentRound = 1
	lastRound   = 2
)

// task is a job and what became of it. The fields below mu belong to the shift's.
type task struct {
	Job
	round  int
	tried  bool // it has begun before
	cancel context.CancelCauseFunc
	off    bool // it was put off
	again  bool // and is to begin anew

	began, last time.Time // last: when its source last answered
	answered    bool
	judged      bool // whether it is answered counts already
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
	s := &shift{Pool: p, busy: map[string]int{}, active: map[*task]bool{}, ended: make(chan *task), share: 1}
	for _, j := range jobs {
		t := &task{Job: j}
		if j.Silent {
			t.round = silentRound
		}
		s.queue(t)
	}
	return s
}

func (s *shift) queue(t *task) {
	s.lines[t.round].add(t)
	s.left++
}

// next takes a task of the source whose turn it is, of those that may have
// another under way; nil where there is none.
func (s *shift) next() *task {
	for i := range s.lines {
		if t := s.lines[i].next(func(source string) bool { return s.busy[source] < s.Each }); t != nil {
			s.left--
			return t
		}
	}
	return nil
}

func (s *shift) start(ctx context.Context, t *task) {
	if !t.tried {
		s.begun++
	}
	ctx, t.cancel = context.WithCancelCause(ctx)
	now := time.Now()
	t.tried, t.off, t.again, t.began, t.last, t.answered, t.judged = true, false, false, now, now, false, false
	s.busy[t.Source]++
	s.active[t] = true
	go func() {
		defer func() { s.ended <- t }()
		t.again = t.Run(ctx, func() { s.beat(t) })
	}()
}

// await returns when a job has ended, or one at work may by now be waiting and
// another could begin.
func (s *shift) await(ctx context.Context) {
	var look <-chan time.Time
	if first := s.round(); first < lastRound || first == lastRound && len(s.active) < s.Most {
		t := time.NewTimer(s.Patience / 16)
		defer t.Stop()
		look = t.C
	}
	select {
	case t := <-s.ended:
		s.end(t)
		if t.off && t.again {
			s.queue(t)
		}
	case <-look:
	case <-ctx.Done():
	}
}

// drain returns when no job is under way.
func (s *shift) drain() {
	for len(s.active) > 0 {
		s.end(<-s.ended)
	}
}

func (s *shift) end(t *task) {
	t.cancel(nil)
	delete(s.active, t)
	if s.busy[t.Source]--; s.busy[t.Source] == 0 {
		delete(s.busy, t.Source)
	}
	if t.off {
		s.leaving--
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judge(t)
}

// wanted is how much of the width nobody uses.
func (s *shift) wanted() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := float64(s.Width)
	for t := range s.active {
		switch silent := time.Since(t.last); {
		case t.answered && silent <= s.gaps.late(s.Patience):
			free--
		case !t.answered && silent <= s.first.late(s.Patience):
			free -= s.share
		case !t.answered:
			s.judge(t)
		}
	}
	return free
}

// room reports whether another job may begin.
func (s *shift) room() bool {
	if len(s.active) >= s.Most {
		return false
	}
	free := s.wanted()
	s.mu.Lock()
	defer s.mu.Unlock()
	return free >= s.share
}

// longSilence, in patiences, is how long a source that has answered is silent
// before its job, which has work under way, is put off.
const longSilence = 5

// putOff ends jobs that wait for their sources in the places of those that could
// begin: of those whose source has not answered the one that waits for longest,
// else of the others. // Invariant 15
func (s *shift) putOff() {
	if len(s.active) < s.Most {
		return
	}
	for n := int(math.Ceil(s.wanted())); s.leaving < n; {
		t, round := s.silent()
		if t == nil {
			return
		}
		s.leaving++
		t.off, t.round = true, round
		t.cancel(ErrPutOff)
	}
}

// silent is the job to be put off next, and into which round; nil for none. No
// job makes room for one that would come after it.
func (s *shift) silent() (found *task, into int) {
	waiting := s.round()
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.active {
		late, round := s.first.late(s.Patience), lastRound
		if t.answered {
			late, round = longSilence*s.Patience, t.round+1
		}
		switch {
		case t.off || t.round == lastRound || waiting >= round || time.Since(t.last) <= late:
		case found == nil || found.answered && !t.answered || found.answered == t.answered && t.last.Before(found.last):
			found, into = t, round
		}
	}
	return found, into
}

// round is the first round that somebody waits in.
func (s *shift) round() int {
	for i := range s.lines {
		if len(s.lines[i].queues) > 0 {
			return i
		}
	}
	return lastRound + 1
}
