package fleet

import (
	"context"
	"sync"
	"time"
)

// Slots schedules jobs that arrive one by one, as a [Pool] schedules the jobs of a list. A slot is a place
// for one job; there are as many slots as the Pool's width. While the source of a job is silent, the
// job may continue without its slot, and another job takes the slot. Slots are safe for concurrent
// use.
type Slots struct {
	mu        sync.Mutex // guards the fields that the scheduler's lock does not guard
	scheduler *scheduler
	slots     int
	freed     chan struct{} // closed and replaced when a job leaves
}

// NewSlots returns Slots for the width of p.
func NewSlots(p Pool) *Slots {
	return &Slots{scheduler: newScheduler(p), freed: make(chan struct{})}
}

// Slot is the slot of one job.
type Slot struct {
	of     *Slots
	begins chan struct{}
	runningJob
}

const takeLooks = 32

// Acquire returns a slot for a job. It returns nil if no slot becomes free within some seconds, or if ctx ends. If
// [Pool].Most jobs are under way, Acquire may interrupt a job whose source stays silent, so that its slot becomes free.
// Then the context that StartWait has returned for this job ends with [ErrPutOff], and the job may start again later.
func (ps *Slots) Acquire(ctx context.Context) *Slot {
	look := time.NewTicker(ps.scheduler.look())
	defer look.Stop()
	for range takeLooks {
		p, freed := ps.take()
		if p != nil {
			return p
		}
		select {
		case <-look.C:
		case <-freed:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// take returns a slot, or a channel that is closed when a job leaves.
func (ps *Slots) take() (*Slot, <-chan struct{}) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !ps.scheduler.room() {
		ps.scheduler.putOff(0)
		return nil, ps.freed
	}
	p := &Slot{of: ps, begins: make(chan struct{}, 1)}
	ps.scheduler.add(&p.runningJob)
	ps.slots++
	return p, nil
}

// StartWait starts to measure how long the job waits for its source. A call of end() ends the measurement. The job is
// in the given round: 0, or a higher round if an earlier attempt at it was put off. In the last round, a job is not put
// off again. If the job is put off, the returned context ends with [ErrPutOff] as its cause, and end() returns the new
// round.
func (p *Slot) StartWait(ctx context.Context, round int) (limited context.Context, end func() (round int, off bool)) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.round = min(max(round, 0), lastRound)
	select {
	case p.begins <- struct{}{}:
	default:
	}
	return p.of.scheduler.begin(ctx, &p.runningJob), func() (int, bool) {
		p.of.mu.Lock()
		defer p.of.mu.Unlock()
		off := p.off
		p.of.scheduler.end(&p.runningJob)
		return p.round, off
	}
}

// RecordAnswer records that the source has answered.
func (p *Slot) RecordAnswer() { p.of.scheduler.beat(&p.runningJob) }

// Wait returns true when the channel `done` is closed. If the source is silent and the slot can be given up, Wait
// returns false at once. The job then continues without a slot.
func (p *Slot) Wait(done <-chan struct{}) bool {
	look := time.NewTicker(p.of.scheduler.look())
	defer look.Stop()
	for {
		select {
		case <-done:
			return true
		case <-p.begins:
		case <-look.C:
		}
		if p.stepAside() {
			return false
		}
	}
}

// A job whose source is silent uses only a part of its slot, or nothing. stepAside gives up the slot if the job waits
// for its source, and if the unused parts of all slots are at least one slot together. Otherwise it returns false.
func (p *Slot) stepAside() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	f := p.of.scheduler
	if used := float64(f.pool.Width) - f.freeWidth(); float64(p.of.slots)-used < 1 || !f.waits(&p.runningJob) {
		return false
	}
	p.aside = true
	p.of.slots--
	return true
}

// Aside reports whether the job continues without a slot.
func (p *Slot) Aside() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.aside
}

// Leave ends the job and frees its slot. It must be called once, after all other methods.
func (p *Slot) Leave() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.scheduler.leave(&p.runningJob)
	if !p.aside {
		p.of.slots--
	}
	close(p.of.freed)
	p.of.freed = make(chan struct{})
}

// Drain waits until no job is under way. If ctx ends first, it returns the cause.
func (ps *Slots) Drain(ctx context.Context) error {
	look := time.NewTicker(ps.scheduler.look())
	defer look.Stop()
	for {
		ps.mu.Lock()
		left := len(ps.scheduler.active)
		ps.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Width returns the number of slots.
func (ps *Slots) Width() int { return ps.scheduler.pool.Width }

// InUse returns how many slots have a job.
func (ps *Slots) InUse() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.slots
}
