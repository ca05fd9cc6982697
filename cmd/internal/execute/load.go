package execute

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
)

// Load says how much work waits for the workers of a state database, and how much they do.
type Load struct {
	Waiting, Later, Running int           // units: see postgres.UnitLoad
	Oldest                  time.Duration // time since the run of the oldest waiting unit began; 0 if none waits
}

// Load returns the load of all workers. It also finds out whether the state database answers.
func (w *Worker) Load(ctx context.Context) (Load, error) {
	u, err := w.db.UnitLoad(ctx)
	l := Load{Waiting: u.Waiting, Later: u.Later, Running: u.Running}
	if begun := runid.Time(u.Oldest); !begun.IsZero() {
		l.Oldest = max(0, w.db.Now().Sub(begun))
	}
	return l, err
}

// SlotUse is how many slots of a queue this process has, and how many are in use.
type SlotUse struct {
	Queue     string
	All, Used int
}

// SlotUse returns the use of the slots of this process, by queue.
func (w *Worker) SlotUse() (all []SlotUse) {
	if w.slots == 0 {
		return nil
	}
	for name, slots := range w.slotsByQueue {
		all = append(all, SlotUse{Queue: name, All: slots.Width(), Used: slots.InUse()})
	}
	return all
}
