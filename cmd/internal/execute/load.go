package execute

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
)

// Load counts the units of a state database: those that wait for a worker, and those that workers are executing.
type Load struct {
	Waiting, Later, Running int           // numbers of units: see postgres.UnitLoad
	Oldest                  time.Duration // time since the run of the oldest waiting unit began; 0 if none waits
}

// loadKept is how long a count of the units is used again. Without it, each program that reads the metrics would cause
// a count.
const loadKept = 3 * time.Second

// countedLoad is the last count of the units. It is safe for concurrent use.
type countedLoad struct {
	mu   sync.Mutex
	load Load
	at   time.Time // zero: not counted
}

// Load returns the load of all workers. It may be some seconds old.
func (w *Worker) Load(ctx context.Context) (Load, error) {
	w.counted.mu.Lock()
	defer w.counted.mu.Unlock()
	if at := w.counted.at; !at.IsZero() && time.Since(at) < loadKept {
		return w.counted.load, nil
	}
	u, err := w.db.UnitLoad(ctx)
	if err != nil {
		return Load{}, err
	}
	l := Load{Waiting: u.Waiting, Later: u.Later, Running: u.Running}
	if begun := runid.Time(u.Oldest); !begun.IsZero() {
		l.Oldest = max(0, w.db.Now().Sub(begun))
	}
	w.counted.load, w.counted.at = l, time.Now()
	return l, nil
}

// Ping finds out whether the state database answers.
func (w *Worker) Ping(ctx context.Context) error { return w.db.Ping(ctx) }

// SlotUse is how many worker slots this process has for a queue, and how many of them are in use.
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
