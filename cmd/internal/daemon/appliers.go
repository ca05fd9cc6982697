package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/serve"
)

// appliers apply the webhook events of one pipeline. There is one applier for each source of the pipeline, and the
// appliers work one after the other. They are not safe for concurrent use.
type appliers []*execute.Applier

// apply applies the events that are ready, source by source. If it fails for a source, the events of the other sources
// are still applied. An event may request a run that reads streams again. If the run for an earlier request could not
// begin, the argument `refused` lists the streams of that request: see [serve.Pipeline].
func (as appliers) apply(ctx context.Context, refused []string) (all serve.Deltas, err error) {
	var errs []error
	for _, x := range as {
		x.Refused(refused)
		d, err := x.Apply(ctx)
		if len(as) > 1 {
			x.Close() // there may be thousands of appliers, so free their resources
		}
		errs = append(errs, err)
		all.Applied += d.Applied
		all.Waiting += d.Waiting
		all.Unmapped += d.Unmapped
		all.Dead += d.Dead
		all.Lags = append(all.Lags, d.Lags...)
		all.Refresh = append(all.Refresh, d.Refresh...)
		all.Oldest, all.ApplyAfter = earlier(all.Oldest, d.Oldest), sooner(all.ApplyAfter, d.ApplyAfter)
		if ctx.Err() != nil {
			break
		}
	}
	return all, errors.Join(errs...)
}

func (as appliers) close() {
	for _, x := range as {
		x.Close()
	}
}

// The function earlier() returns the earlier of two times. The zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// The function sooner() returns the shorter of two waits. A wait of 0 does not count.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
