package pipeline

import (
	"context"
	"errors"
	"time"
)

// After a stop, open commits may take commitGrace, and then the run's row may take recordGrace. Together that is less
// than the ten seconds of Invariant 15.
const (
	commitGrace = 6 * time.Second
	recordGrace = 2 * time.Second
)

var errGrace = errors.New("stopped while committing")

// WithGrace returns a context that ends when the duration d has passed after the end of ctx. If a run is stopped while
// it commits, the commit can end within this time. The caller must call the CancelFunc when the commit has ended.
func WithGrace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var timer *time.Timer
	armed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		timer = time.AfterFunc(d, func() { cancel(errGrace) })
		close(armed)
	})
	return late, func() {
		if !stop() {
			<-armed
			timer.Stop()
		}
		cancel(nil)
	}
}
