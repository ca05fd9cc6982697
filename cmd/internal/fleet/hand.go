package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// DefaultLife is how long units are their worker's without a sign of life.
const DefaultLife = 30 * time.Second

// ErrUnitsLost is the cause of the end of an attempt whose units are somebody
// else's by now, or cancelled, or may be: the store gave no answer in time.
var ErrUnitsLost = errors.New("its units were taken over or cancelled")

// Hand makes attempts at units. It is safe for concurrent use.
type Hand struct {
	Units state.Units
	Name  string        // of the worker, unlike that of any other
	Life  time.Duration // units are its own so long without a sign of life; 0: DefaultLife
}

// settleGrace is what an attempt has left, once it is to stop, to write down what
// has become of it. // Invariant 15
const settleGrace = time.Second

// Work claims what c says, has do make an attempt at it, and settles each unit as
// do has left it. What do's context says is over must stop. It returns how many
// units were claimed: 0 where there were none. That a unit is no longer the
// worker's is no error: whoever has it settles it.
func (h Hand) Work(ctx context.Context, c state.Claim, do func(ctx context.Context, units []state.Unit) []state.Unit) (int, error) {
	if h.Life <= 0 {
		h.Life = DefaultLife
	}
	c.Worker, c.For = h.Name, h.Life
	asked := time.Now()
	units, err := h.Units.ClaimUnits(ctx, c)
	if err != nil || len(units) == 0 {
		return 0, err
	}
	limited, cancel := context.WithCancelCause(ctx)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		h.beat(limited, units, asked, cancel)
	}()
	settled := do(limited, units)
	cancel(nil)
	<-beating
	late, done := pipeline.WithGrace(ctx, settleGrace)
	defer done()
	var errs []error
	for _, u := range settled {
		if err := h.Units.SettleUnit(late, u); err != nil && !errors.Is(err, state.ErrTaken) {
			errs = append(errs, fmt.Errorf("settle unit %d: %w", u.ID, err))
		}
	}
	return len(units), errors.Join(errs...)
}

// beat gives signs of life until ctx ends, and ends it once the units are no
// longer the worker's: by this process's own clock, a margin before the store
// gives them to another. // Invariant 13
func (h Hand) beat(ctx context.Context, units []state.Unit, asked time.Time, lost context.CancelCauseFunc) {
	ids := make([]int64, len(units))
	for i, u := range units {
		ids[i] = u.ID
	}
	for {
		left := time.Until(asked.Add(h.Life - h.Life/6))
		if left <= 0 {
			lost(ErrUnitsLost)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(h.Life/6, left)):
		}
		now := time.Now()
		limited, cancel := context.WithDeadline(ctx, asked.Add(h.Life-h.Life/6))
		kept, err := h.Units.BeatUnits(limited, h.Name, ids, h.Life)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && len(kept) < len(ids):
			lost(ErrUnitsLost)
			return
		case err == nil:
			asked = now
		}
	}
}
