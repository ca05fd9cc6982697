package pipeline

import (
	"context"
	"errors"
	"time"
)

// How long the open commits, and then the run's own record, may take after a stop. Together they stay below the
// ten seconds of Invariant 15.
const (
	commitGrace = 6 * time.Second
	recordGrace = 2 * time.Second
)

var errGrace = errors.New("stopped while committing")

// WithGrace returns a context that outlives ctx by d, so that a commit or a record that is being written when a
// run is stopped can be finished. Cancel it when done.
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
