package facts

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
)

// mostPoints is the number of points in one hour.
const mostPoints = int(time.Hour / sampleEvery)

// rates has the rate limits of sources, and how much of them was used in the last hour. It is safe for concurrent use.
type rates struct {
	mu  sync.Mutex
	all []budget
}

type budget struct {
	board.Budget
	counted uint64 // value of Refused at the last point
}

// follow samples the rates at regular intervals until ctx ends.
func (r *rates) follow(ctx context.Context, h *serve.Hub, clock func() time.Time, feed *board.Feed) {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		r.sample(h.Statuses(), clock().UTC())
		feed.Publish(board.Update{Page: "rate"})
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *rates) sample(all []serve.Status, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gauge(all, now)
	for i := range r.all {
		b := &r.all[i]
		p := board.Point{At: now, Used: b.Used, Allowed: b.Allowed}
		if n := len(b.Points); n > 0 {
			p.Refused = b.Refused - min(b.Refused, b.counted)
		}
		b.counted = b.Refused
		b.Points = append(b.Points, p)
		b.Points = b.Points[max(0, len(b.Points)-mostPoints):]
	}
}

// gauge updates the rates from the runs in progress. The caller must hold r.mu.
func (r *rates) gauge(all []serve.Status, now time.Time) {
	for i := range r.all {
		b := &r.all[i]
		b.Used, b.InFlight, b.Waiting, b.Until = 0, 0, "", time.Time{}
	}
	for _, s := range all {
		if s.Running == nil {
			continue
		}
		for _, source := range s.Sources[:min(1, len(s.Sources))] {
			for _, of := range s.Running.Rates {
				r.of(source, of.Surface).take(of, now)
			}
		}
	}
}

func (r *rates) of(source, name string) *budget {
	i := slices.IndexFunc(r.all, func(b budget) bool { return b.Source == source && b.Name == name })
	if i < 0 {
		i = len(r.all)
		r.all = append(r.all, budget{Budget: board.Budget{Gauge: board.Gauge{Source: source, Name: name}}})
	}
	return &r.all[i]
}

func (b *budget) take(r serve.Rate, now time.Time) {
	b.Limit, b.Allowed, b.Used, b.InFlight, b.Sent, b.Refused = r.Limit, r.Allowed, r.Used*r.Allowed, r.InFlight, r.Sent, r.Refused
	if left := time.Until(r.Until); r.WaitsFor != "" && left > 0 {
		b.Waiting, b.Until = r.WaitsFor, now.Add(left)
	}
}

func (r *rates) budgets(all []serve.Status, now time.Time) []board.Budget {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gauge(all, now)
	out := make([]board.Budget, len(r.all))
	for i, b := range r.all {
		out[i] = b.Budget
		out[i].Points = slices.Clone(list(b.Points))
	}
	return out
}

// Rate implements board.Live.
func (f *Facts) Rate(context.Context) ([]board.Budget, error) {
	return f.rates.budgets(f.daemon.Hub().Statuses(), f.Clock()), nil
}
