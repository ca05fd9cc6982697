package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// DefaultLife is how long a worker keeps its units without a heartbeat. Other workers get the units of a lost worker
// within a minute, because the job queue, River, looks for lost jobs every 30 seconds.
const DefaultLife = 20 * time.Second

// ErrUnitsLost is the cause with which the context of an attempt ends if another worker took over its
// units, or if they were cancelled. It is also the cause if the store did not answer in time, because
// one of the two may then have happened.
var ErrUnitsLost = errors.New("the units were taken over by another worker, or cancelled")

// Claimer claims units and makes attempts at them. It is safe for concurrent use.
type Claimer struct {
	Units state.Units
	Name  string        // unique name of the worker
	Life  time.Duration // how long the worker keeps units without a heartbeat; 0: DefaultLife
	// Alone is true if a lock outside the store keeps other workers from taking over the units while this process
	// lives. An attempt then continues even if the store does not answer.
	Alone bool
}

// settleEvery is how often settled units are written to the store, in one batch.
const settleEvery = time.Second

// settleGrace limits how long results may still be written after an attempt had to stop. // Invariant 15
const settleGrace = time.Second

// Work claims the units that c selects, and calls attempt() with them. It stores the units that attempt() returns.
// attempt() may pass units that are finished earlier to settle(), from any goroutine. It must not return these units.
// When the context of attempt() ends, attempt() must stop. Work returns the number of claimed units. It is no error if
// another worker has taken over a unit, because that worker settles it.
func (h Claimer) Work(ctx context.Context, c state.Claim, attempt func(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit) (int, error) {
	if h.Life <= 0 {
		h.Life = DefaultLife
	}
	c.Worker, c.For = h.Name, h.Life
	claimed := time.Now()
	units, err := h.Units.ClaimUnits(ctx, c)
	if err != nil || len(units) == 0 {
		return 0, err
	}
	g := &heldUnits{claimer: h, left: map[int64]bool{}}
	for _, u := range units {
		g.left[u.ID] = true
	}
	limited, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { g.beat(limited, claimed, cancel) })
	beside.Go(func() { g.flush(limited) })
	settled := attempt(limited, units, g.settle)
	cancel(nil)
	beside.Wait()
	g.settle(settled...)
	return len(units), g.write(ctx)
}

type heldUnits struct {
	claimer Claimer

	mu      sync.Mutex
	left    map[int64]bool
	settled []state.Unit
}

// settle ends the heartbeats for the units. If the units cannot be written in time, other workers take them over.
func (g *heldUnits) settle(units ...state.Unit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range units {
		delete(g.left, u.ID)
	}
	g.settled = append(g.settled, units...)
}

func (g *heldUnits) flush(ctx context.Context) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = g.write(ctx) // after an error, the next tick writes again; the last write is in Work
		}
	}
}

// write must be called by only one goroutine at a time.
func (g *heldUnits) write(ctx context.Context) error {
	g.mu.Lock()
	units := g.settled
	g.mu.Unlock()
	if len(units) == 0 {
		return nil
	}
	late, done := pipeline.WithGrace(ctx, settleGrace)
	defer done()
	if err := g.claimer.Units.EndAttempts(late, units); err != nil && !errors.Is(err, state.ErrTaken) {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settled = g.settled[len(units):]
	return nil
}

func (g *heldUnits) held() []int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.left))
}

// beat() sends heartbeats until ctx ends. The argument `last` is the time of the last successful heartbeat before the
// call. If heartbeats fail for too long, beat calls lost(), before the store lets another worker claim the units. beat
// measures the time with the clock of this process. If the claimer is Alone, failed heartbeats do not end the attempt.
// Invariant 13
func (g *heldUnits) beat(ctx context.Context, last time.Time, lost context.CancelCauseFunc) {
	life := g.claimer.Life
	for {
		end := last.Add(life - life/6)
		if g.claimer.Alone {
			end = time.Now().Add(life)
		}
		left := time.Until(end)
		if left <= 0 {
			lost(ErrUnitsLost)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(life/6, left)):
		}
		now := time.Now()
		limited, cancel := context.WithDeadline(ctx, end)
		kept, err := g.claimer.Units.ExtendClaims(limited, g.claimer.Name, g.held(), life)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !g.within(kept):
			lost(ErrUnitsLost)
			return
		case err == nil:
			last = now
		}
	}
}

func (g *heldUnits) within(kept []int64) bool {
	for _, id := range g.held() {
		if !slices.Contains(kept, id) {
			return false
		}
	}
	return true
}
