package serve

import (
	"context"
	"time"
)

// hintEvery is the minimum time between two runs that unverified deliveries cause. So forged deliveries cause at most
// one run per minute. This run reads only the streams that the configuration lists for this case.
const hintEvery = time.Minute

// Hinted wakes the workers because an unverified delivery for a source has arrived. The content of the delivery is not
// used. The pipelines of the source read the streams that the configuration lists for this case, usually none. Hinted
// does not block.
func (d *Daemon) Hinted(source string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workers {
		if len((*w.hinted.Load())[source]) > 0 {
			wake(w.hints)
		}
	}
}

// heed starts a run of the listed streams after an unverified delivery. All deliveries that arrive within
// hintEvery cause one run.
func (w *worker) heed(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-w.hints:
		case <-ctx.Done():
			return
		}
		if wait := hintEvery - time.Since(last); !last.IsZero() && wait > 0 && !pause(ctx, wait) {
			return
		}
		select {
		case <-w.hints:
		default:
		}
		var streams []string
		for _, some := range *w.hinted.Load() {
			streams = merged(streams, some)
		}
		if len(streams) > 0 {
			last = time.Now()
			w.refresh(streams)
		}
	}
}
