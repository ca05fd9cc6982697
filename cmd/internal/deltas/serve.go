package deltas

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
)

// serve applies the stream's events that are due. While a pass over the stream is running, it does so only
// between two of the pass's commits. // Invariant 8
func (d *Deltas) serve(ctx context.Context, q *queue) error {
	now := d.now()
	at := q.when(d.pace, d.awake())
	if q.owing() && now.Sub(q.refreshedAt) >= d.pace.refresh {
		at = now // a run may have read the stream meanwhile
	}
	if at.IsZero() || now.Before(at) {
		return nil
	}
	if q.owing() {
		d.trouble(d.each(ctx, func(ctx context.Context, dest pipeline.Destination) error { return d.look(ctx, q, dest) }))
	}
	for range slicesAtOnce {
		if more, err := d.serveSome(ctx, q); !more || err != nil {
			return err
		}
	}
	return nil
}

// serveSome applies one slice of the waiting records, in one commit. It holds the stream's lock meanwhile.
func (d *Deltas) serveSome(ctx context.Context, q *queue) (more bool, err error) {
	overlays, free := q.lock.Try(ctx, d.pace.lockWait)
	if !free {
		q.pause = d.now().Add(d.pace.busy)
		return false, nil
	}
	defer q.lock.Release()
	dests, most := d.admitted(q, overlays, d.awake()), d.pace.slice
	if overlays != nil {
		most = min(most, requestsAtOnce) // few records, because a commit of the pass waits for the lock
	}
	all := q.due(d.now(), dests, most)
	byList := q.whole != nil && q.lacked(q.whole, dests)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case overlays != nil && (byList || len(all) == 0): // the running pass began before the event, so the stream must be read again after that pass
		q.pause = d.now().Add(d.pace.busy)
		return false, nil
	case !byList && len(all) == 0:
		return false, nil
	}
	return true, d.slice(ctx, q, all, byList, overlays)
}

// lookAgain reads the positions again if a running pass has stored records that must be requested again.
func (d *Deltas) lookAgain(ctx context.Context) {
	for _, q := range d.queues {
		if !q.duringPass {
			continue
		}
		q.duringPass = q.lock.DuringPass()
		if q.lock.TakeDoubt() {
			d.trouble(d.each(ctx, func(ctx context.Context, dest pipeline.Destination) error { return d.look(ctx, q, dest) }))
		}
	}
}

// slicesAtOnce is the number of commits of one stream before the next stream is served.
const slicesAtOnce = 20

func (q *queue) owing() bool {
	for _, a := range q.state {
		if a.Refresh > 0 {
			return true
		}
	}
	return false
}

func (d *Deltas) slice(ctx context.Context, q *queue, all []*entity, byList bool, overlays map[string]*overlay.Overlay) error {
	x := &delta{Deltas: d, q: q, began: d.now().UTC(), overlays: overlays}
	positions := x.positions(ctx)
	var dests []pipeline.Destination
	for _, p := range positions {
		dests = append(dests, p.dest)
	}
	all = slices.DeleteFunc(all, func(e *entity) bool { return e.due.IsZero() && !q.lacked(e, dests) })
	if len(dests) == 0 || !byList && len(all) == 0 {
		return nil
	}
	if !byList {
		singly, err := d.oneByOne(ctx, q)
		if err != nil {
			return err
		}
		byList = !singly
	}
	if byList && overlays != nil {
		q.blockedBy = overlays[positions[0].dest.Name].Pass.Run
		return nil
	}
	if byList {
		for _, e := range q.lacking(d.conf.Destinations) {
			if e.data != nil && !e.gone {
				x.described = append(x.described, e)
			}
		}
		q.giveUp()
		x.refresh, x.through = q.whole.last, q.whole.last
		return x.commit(ctx, positions)
	}
	q.duringPass = q.duringPass || overlays != nil
	beside := x.lockDetail(ctx, dests)
	defer beside.unlock()
	if err := x.refetch(ctx, all); err != nil {
		return err
	}
	if err := x.commit(ctx, positions); err != nil || beside == nil {
		return err
	}
	x.trouble(beside.write(ctx, x))
	return nil
}
