package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
)

// serveMany makes the run of a daemon's pipeline over several sources. Where they
// are listed elsewhere, the list is read anew; one that cannot be read is the
// list before.
func (a *app) serveMany(ctx context.Context, c *config.Config, p config.Pipeline, o serve.Order) (pipeline.Report, error) {
	if c.Listing != nil {
		if now, err := a.load(); err != nil {
			a.log.Warn("the list of sources cannot be read anew; those of the last time are read", "pipeline", p.Name, "error", err)
		} else if q, ok := now.Pipeline(p.Name); ok && q.Many {
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

// appliers apply the webhook events of the sources of one pipeline, one source
// after the other. They belong to one goroutine.
type appliers []*applier

// apply applies what has come to rest, of each source. What one cannot apply
// for now keeps no other from it.
func (as appliers) apply(ctx context.Context) (all serve.Deltas, err error) {
	var errs []error
	for _, x := range as {
		d, err := x.apply(ctx)
		if len(as) > 1 {
			x.close() // thousands are not kept open
		}
		errs = append(errs, err)
		all.Applied += d.Applied
		all.Behind += d.Behind
		all.Unmapped += d.Unmapped
		all.Dead += d.Dead
		all.Lags = append(all.Lags, d.Lags...)
		all.Refresh = append(all.Refresh, d.Refresh...)
		all.Oldest, all.Again = earlier(all.Oldest, d.Oldest), sooner(all.Again, d.Again)
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

// earlier is the earlier of two times of which the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sooner is the shorter of two waits of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
