package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
)

// serveMany makes a daemon's run over several sources. If the sources are listed outside the
// configuration, serveMany reads the list again first. If the list cannot be read, it uses the previous
// list.
func (a *app) serveMany(ctx context.Context, c *config.Config, p config.Pipeline, o serve.RunRequest) (pipeline.Report, error) {
	if c.Listing != nil {
		if now, err := a.open.Load(); err != nil {
			a.log.Warn("cannot read the list of sources; using the previous list", "pipeline", p.Name, "error", err)
		} else if q, ok := now.Pipeline(p.Name); ok && q.MultiSource {
			c, p = now, q
			a.redactor.Add(c.Secrets...) // Invariant 5
		}
	}
	m := &multiSource{app: a, conf: c, pipeline: p, flags: syncFlags{streams: o.Streams, options: o.Options, run: o.Run, follow: o.Progress}}
	t, _, err := m.run(ctx, p.From)
	if t == nil {
		return pipeline.Report{}, err
	}
	return t.Report(), err
}

// appliers apply the webhook events of the sources of one pipeline, one source after the other. Not safe for
// concurrent use.
type appliers []*applier

// apply applies the events that are ready, source by source. A source that fails does not stop the others.
func (as appliers) apply(ctx context.Context) (all serve.Deltas, err error) {
	var errs []error
	for _, x := range as {
		d, err := x.apply(ctx)
		if len(as) > 1 {
			x.close() // there may be thousands
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
		x.close()
	}
}

// earlier returns the earlier of two times; the zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sooner returns the shorter of two waits; 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
