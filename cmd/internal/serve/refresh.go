package serve

import (
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/state/retry"
)

func (w *worker) refresh(streams []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orderRefresh(streams)
}

// orderRefresh requests a run of the given streams, and of the streams whose earlier refresh was refused. The caller
// must hold w.mu.
func (w *worker) orderRefresh(streams []string) {
	streams = merged(w.putOff.streams, streams)
	w.putOff.streams = nil
	for i := range w.orders {
		if w.orders[i].Trigger == TriggerRefresh {
			w.orders[i].Streams = merged(w.orders[i].Streams, streams)
			return
		}
	}
	w.orders = append(w.orders, RunRequest{Run: runid.New(w.d.Now()), Trigger: TriggerRefresh, Streams: streams})
	wake(w.changed)
}

// putOff holds the streams whose refresh was refused because another run is under way. Their refresh is requested again
// later, so that no webhook is lost.
type putOff struct {
	streams []string
	again   time.Time // has a monotonic clock reading
	times   int       // refusals in a row
}

// refusedRefresh says how long to wait before a refused refresh is requested again. The waits grow, because
// the other run may take long.
var refusedRefresh = retry.Policy{First: lookAgain, Longest: 10 * time.Minute}

func (p *putOff) due() bool { return len(p.streams) > 0 && !time.Now().Before(p.again) }

func (p *putOff) refuse(streams []string) {
	p.times++
	p.streams, p.again = merged(p.streams, streams), time.Now().Add(refusedRefresh.Wait(p.times))
}

func merged(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
