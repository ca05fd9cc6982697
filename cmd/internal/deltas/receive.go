package deltas

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state/retry"
)

func (d *Deltas) receive(ctx context.Context) error {
	d.catchUp()
	for {
		if d.tight() {
			d.forget()
		}
		if d.tight() {
			return nil
		}
		events, err := d.inbox.After(ctx, d.read, d.pace.chunk)
		if err != nil {
			return fmt.Errorf("read events of %s: %w", d.inbox.Source(), err)
		}
		for _, e := range events {
			d.sort(e)
			d.read = e.Ordinal
		}
		if len(events) == 0 {
			return nil
		}
	}
}

func (d *Deltas) sort(e extract.Delivery) {
	if e.Unmapped {
		d.rep.Unmapped++
		return
	}
	if e.Conflict {
		d.rep.Conflicts++
	}
	for _, h := range e.Hints {
		q := d.queues[h.Stream]
		if q == nil {
			continue
		}
		q.recount(e.Ordinal, e.Received)
		if !q.lacked(&entity{last: e.Ordinal}, d.conf.Destinations) {
			continue
		}
		if len(q.waiting) >= d.pace.entities/4 {
			d.forget()
		}
		if len(q.waiting) >= d.pace.entities/4 {
			q.giveUp()
			h.Key = ""
		}
		q.add(e, h, d.conf.Destinations)
	}
}

func (d *Deltas) report(rep *Report) {
	now, awake := d.now(), d.awake()
	rep.Through = d.read
	if d.left != nil {
		rep.Through = min(rep.Through, d.left.after)
	}
	for _, dest := range d.conf.Destinations {
		rep.Through = min(rep.Through, d.ledgers[dest.Name])
	}
	if rep.Through < d.read && len(awake) > 0 {
		d.again(rep, d.kept.Add(d.pace.quiet).Sub(now))
	}
	for _, name := range d.names {
		q := d.queues[name]
		rep.Waiting += len(q.waiting)
		if q.whole != nil {
			rep.Waiting++
		}
		if low, oldest := q.floor(d.conf.Destinations); low > 0 {
			rep.Through = min(rep.Through, low-1)
			if rep.Oldest.IsZero() || oldest.Before(rep.Oldest) {
				rep.Oldest = oldest
			}
		}
		if at := q.when(d.pace, awake); !at.IsZero() {
			d.again(rep, at.Sub(now))
		}
		if q.duringPass {
			d.again(rep, d.pace.busy)
		}
		d.refresh(q, rep)
	}
	for _, r := range d.resting {
		d.again(rep, r.until.Sub(now))
	}
}

// If the stream must be read again, refresh adds it to rep.Refresh, after its parents. The intervals between such
// readings grow.
func (d *Deltas) refresh(q *queue, rep *Report) {
	now, owed := d.now(), int64(0)
	for _, a := range q.state {
		owed = max(owed, a.Refresh)
	}
	if owed != q.refreshEvent {
		q.refreshEvent, q.refreshTries, q.triesBefore = owed, 0, 0
	}
	every := retry.Policy{First: d.pace.refresh, Longest: maxRefresh}.Wait(q.refreshTries) // intervals grow because each of these readings may end as contradicted
	switch {
	case owed == 0:
	case now.Sub(q.refreshedAt) < every:
		d.again(rep, q.refreshedAt.Add(every).Sub(now))
	default:
		q.refreshedAt, q.triesBefore = now, q.refreshTries
		q.refreshTries++
		rep.Refresh = d.ancestry(rep.Refresh, q.stream)
		d.again(rep, d.pace.refresh)
	}
}

// Refused reports that streams from [Report].Refresh could not be read, because another run is under way. These
// attempts do not count, so the intervals do not grow.
func (d *Deltas) Refused(streams []string) {
	for _, q := range d.queues {
		if slices.Contains(streams, q.stream.Name) {
			q.refreshTries = q.triesBefore
		}
	}
}

// maxRefresh limits the time between two readings of a stream that the same event requires.
const maxRefresh = time.Hour

func (d *Deltas) ancestry(names []string, s schemas.Stream) []string {
	if slices.Contains(names, s.Name) {
		return names
	}
	if i := slices.IndexFunc(d.conf.Streams, func(p schemas.Stream) bool { return p.Name == s.Parent }); i >= 0 {
		names = d.ancestry(names, d.conf.Streams[i])
	}
	return append(names, s.Name)
}
