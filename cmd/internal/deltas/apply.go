package deltas

import (
	"context"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Apply reads new events from the inbox. Once no event of a stream has arrived for a short time, Apply applies the
// events of this stream. Events that cannot be applied yet are left to a later call. Apply returns an error only if the
// inbox cannot be read, or if ctx ends.
func (d *Deltas) Apply(ctx context.Context) (Report, error) {
	d.rep = Report{}
	d.begin(ctx)
	if err := d.receive(ctx); err != nil {
		return d.rep, err
	}
	d.keep(ctx)
	for _, name := range d.names {
		q := d.queues[name]
		if ctx.Err() != nil {
			break
		}
		if err := pipeline.Guard(name, func() error { return d.serve(ctx, q) }); err != nil {
			d.fail(q)
			d.trouble(err)
		}
	}
	d.report(&d.rep)
	if ctx.Err() != nil {
		return d.rep, context.Cause(ctx)
	}
	return d.rep, nil
}

// begin reads the stored conventions again from time to time. It reads the stored positions of each destination only
// once.
func (d *Deltas) begin(ctx context.Context) {
	if now := d.now(); d.settles.Before(now) {
		d.settles = now.Add(d.pace.trust)
		d.adopt(ctx)
	}
	d.lookAgain(ctx)
	d.trouble(d.each(ctx, func(ctx context.Context, dest pipeline.Destination) error {
		d.mu.Lock()
		looked := d.looked[dest.Name]
		d.mu.Unlock()
		if looked {
			return errIdle
		}
		for _, name := range d.names {
			if err := d.look(ctx, d.queues[name], dest); err != nil {
				return err
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.looked[dest.Name] = true
		return nil
	}))
}

func (d *Deltas) adopt(ctx context.Context) {
	streams, err := pipeline.Settle(ctx, d.conf)
	if err != nil {
		d.trouble(err)
		return
	}
	d.conf.Streams = streams
	for _, s := range streams {
		q := d.queues[s.Name]
		if !d.inbox.HasEvents(s.Name) {
			continue
		}
		if q == nil {
			q = newQueue()
			d.queues[s.Name] = q
			d.names = append(d.names, s.Name)
		}
		q.stream, q.lock = s, d.conf.Locks.Watch(s.Name)
		q.detail, q.canRequest = s.Detail(d.conf.Catalogue)
		q.canRequest = q.canRequest && d.fetch != nil && len(s.Key) > 0 && s.Parent == ""
		q.beside = d.besideOf(q)
	}
}
