package fleet

import (
	"context"
	"sync"
	"time"
)

// Slots share the time of a process out among jobs that come one by one, as a [Pool]
// does among those of a list: each comes with a slot, of which there are as many as
// the Pool is wide, and gives it up for another while its source is silent. They are
// safe for concurrent use.
type Slots struct {
	mu    sync.Mutex // guards what the floor's lock does not
	floor *scheduler
	slots int           // that are held
	freed chan struct{} // closed when a place is left
}

// NewPlaces returns places for as many jobs as p says. Each of p does not count.
func NewPlaces(p Pool) *Slots {
	return &Slots{floor: newFloor(p), freed: make(chan struct{})}
}

// Slot is the slot of one job.
type Slot struct {
	of     *Slots
	begins chan struct{} // told by Begin
	runningJob
}

// takeLooks is how often it is looked for a place before the job is to come again.
const takeLooks = 32

// Take returns a place for a job; nil where there is none for some seconds, or ctx
// ends. Where all are taken it puts off the job that waits for its source in vain.
func (ps *Slots) Take(ctx context.Context) *Slot {
	look := time.NewTicker(ps.floor.look())
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

// take is a place, or what tells that one is left.
func (ps *Slots) take() (*Slot, <-chan struct{}) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !ps.floor.room() {
		ps.floor.putOff(0)
		return nil, ps.freed
	}
	p := &Slot{of: ps, begins: make(chan struct{}, 1)}
	ps.floor.active[&p.runningJob] = true
	ps.slots++
	return p, nil
}

// Begin has the source of the job be waited for, until end. round is the one that an
// earlier attempt at the job was put off into, 0 for none; a job that was put off into
// the last is not again. If this one is, the context ends with [ErrPutOff] as its
// cause, and end tells into which round.
func (p *Slot) Begin(ctx context.Context, round int) (asking context.Context, end func() (round int, off bool)) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.round = min(max(round, 0), lastRound)
	select {
	case p.begins <- struct{}{}:
	default:
	}
	return p.of.floor.begin(ctx, &p.runningJob), func() (int, bool) {
		p.of.mu.Lock()
		defer p.of.mu.Unlock()
		off := p.off
		p.of.floor.end(&p.runningJob)
		return p.round, off
	}
}

// Beat takes note that the source has answered.
func (p *Slot) Beat() { p.of.floor.beat(&p.runningJob) }

// Wait returns true once done is closed; or false before that, if the slot of the
// job is free for another: the job goes on, its source is silent.
func (p *Slot) Wait(done <-chan struct{}) bool {
	look := time.NewTicker(p.of.floor.look())
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

// stepAside gives the slot up if more slots are held than are used, and the job waits
// for its source.
func (p *Slot) stepAside() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	f := p.of.floor
	if used := float64(f.Width) - f.wanted(); float64(p.of.slots)-used < 1 || !f.waits(&p.runningJob) {
		return false
	}
	p.aside = true
	p.of.slots--
	return true
}

// Aside reports whether the job goes on without a slot.
func (p *Slot) Aside() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.aside
}

// Leave gives the place back. It must be called once, last.
func (p *Slot) Leave() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.floor.leave(&p.runningJob)
	if !p.aside {
		p.of.slots--
	}
	close(p.of.freed)
	p.of.freed = make(chan struct{})
}

// Drain returns once no place is taken, or the cause of ctx's end.
func (ps *Slots) Drain(ctx context.Context) error {
	look := time.NewTicker(ps.floor.look())
	defer look.Stop()
	for {
		ps.mu.Lock()
		left := len(ps.floor.active)
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
