package serve

import (
	"context"
	"time"
)

// hintEvery is how long the streams that unverified deliveries may have read are
// left alone after such a reading was asked for: whoever forges deliveries causes
// one run of these streams a minute, and nothing else.
const hintEvery = time.Minute

// Hinted tells the daemon that a delivery of a source came which is not known to be
// its own. Nothing of it is passed on: the pipelines of the source read the streams
// that the configuration lists for that, which may be none. It does not block.
func (d *Daemon) Hinted(source string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workers {
		if len((*w.hinted.Load())[source]) > 0 {
			wake(w.hints)
		}
	}
}

// heed has the listed streams read because of hints, until ctx ends. One that comes
// soon after a reading has its own when the time is over, together with all others
// that have come by then.
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
		case <-w.hints: // what has come meanwhile is of this reading
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
