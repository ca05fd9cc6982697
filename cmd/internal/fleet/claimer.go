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

// DefaultLife is how long units are their worker's without a sign of life.
const DefaultLife = 30 * time.Second

// ErrUnitsLost is the cause of the end of an attempt whose units are somebody
// else's by now, or cancelled, or may be: the store gave no answer in time.
var ErrUnitsLost = errors.New("its units were taken over or cancelled")

// Claimer makes attempts at units. It is safe for concurrent use.
type Claimer struct {
	Units state.Units
	Name  string        // of the worker, unlike that of any other
	Life  time.Duration // units are its own so long without a sign of life; 0: DefaultLife
	// Alone says that nobody else can have its units while this process lives, as
	// something else than the store keeps them for it. A store that gives no answer
	// then ends no attempt.
	Alone bool
}

// settleEvery is how often what an attempt has settled before its end is written
// down: all of it at once.
const settleEvery = time.Second

// settleGrace is what an attempt has left, once it is to stop, to write down what
// has become of it. // Invariant 15
const settleGrace = time.Second

// Work claims what c says, has do make an attempt at it, and settles each unit as
// do has left it. Those of which do knows more before its end it gives to settle,
// from any goroutine, and does not return. What do's context says is over must stop.
// Work returns how many units were claimed: 0 where there were none. That a unit is
// no longer the worker's is no error: whoever has it settles it.
func (h Claimer) Work(ctx context.Context, c state.Claim, do func(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit) (int, error) {
	if h.Life <= 0 {
		h.Life = DefaultLife
	}
	c.Worker, c.For = h.Name, h.Life
	asked := time.Now()
	units, err := h.Units.ClaimUnits(ctx, c)
	if err != nil || len(units) == 0 {
		return 0, err
	}
	g := &heldUnits{hand: h, left: map[int64]bool{}}
	for _, u := range units {
		g.left[u.ID] = true
	}
	limited, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { g.beat(limited, asked, cancel) })
	beside.Go(func() { g.flush(limited) })
	settled := do(limited, units, g.settle)
	cancel(nil)
	beside.Wait()
	g.settle(settled...)
	return len(units), g.write(ctx)
}

// heldUnits are the units that a claimer has claimed.
type heldUnits struct {
	hand Claimer

	mu      sync.Mutex
	left    map[int64]bool // units that are not settled
	settled []state.Unit   // and not written down
}

// settle takes note of what has become of units. From then on they get no sign of
// life: if that cannot be written down in time, others take them over.
func (g *heldUnits) settle(units ...state.Unit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range units {
		delete(g.left, u.ID)
	}
	g.settled = append(g.settled, units...)
}

// flush writes down what is settled, every now and then, until ctx ends.
func (g *heldUnits) flush(ctx context.Context) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = g.write(ctx) // what is left over is tried again, at last by Work
		}
	}
}

// write writes down what is settled by now. It belongs to one goroutine at a time.
func (g *heldUnits) write(ctx context.Context) error {
	g.mu.Lock()
	units := g.settled
	g.mu.Unlock()
	if len(units) == 0 {
		return nil
	}
	late, done := pipeline.WithGrace(ctx, settleGrace)
	defer done()
	if err := g.hand.Units.SettleUnits(late, units); err != nil && !errors.Is(err, state.ErrTaken) {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settled = g.settled[len(units):]
	return nil
}

// held are the units that are not settled.
func (g *heldUnits) held() []int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.left))
}

// beat gives signs of life until ctx ends, and ends it once the units are no
// longer the worker's: by this process's own clock, a margin before the store
// gives them to another, unless it cannot. // Invariant 13
func (g *heldUnits) beat(ctx context.Context, asked time.Time, lost context.CancelCauseFunc) {
	life := g.hand.Life
	for {
		end := asked.Add(life - life/6)
		if g.hand.Alone {
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
		kept, err := g.hand.Units.BeatUnits(limited, g.hand.Name, g.held(), life)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !g.within(kept):
			lost(ErrUnitsLost)
			return
		case err == nil:
			asked = now
		}
	}
}

// within reports whether all units that are not settled by now are among those that
// were kept.
func (g *heldUnits) within(kept []int64) bool {
	for _, id := range g.held() {
		if !slices.Contains(kept, id) {
			return false
		}
	}
	return true
}
