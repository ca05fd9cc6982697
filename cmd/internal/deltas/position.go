package deltas

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/state"
)

type destinationPosition struct {
	dest   pipeline.Destination
	stored state.Cursor
	pos    cursor.Position
	events cursor.Applied
}

func (d *Deltas) readPosition(ctx context.Context, q *queue, p *destinationPosition) (err error) {
	if p.stored, err = p.dest.Cursor(ctx, d.conf.Key(q.stream.Name)); err != nil {
		return err
	}
	if p.pos, err = cursor.Decode(p.stored); err != nil {
		return err
	}
	if err := d.conf.CheckAddress(q.stream, p.pos); err != nil {
		return err
	}
	p.events, err = p.pos.Applied()
	d.mu.Lock()
	defer d.mu.Unlock()
	q.longest = max(q.longest, p.pos.Longest)
	return err
}

// look() reads the ordinal up to which the events of q are applied in a destination. It also queues the records that
// the destination has marked to be requested again.
func (d *Deltas) look(ctx context.Context, q *queue, dest pipeline.Destination) error {
	p := &destinationPosition{dest: dest}
	if err := d.readPosition(ctx, q, p); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q.state[dest.Name] = p.events
	for _, e := range q.waiting {
		if !e.stored {
			q.recount(e.last, e.received)
		}
	}
	if q.whole != nil {
		q.recount(q.whole.last, q.whole.received)
	}
	for _, o := range p.events.Open {
		q.reopen(o, d.now())
	}
	return nil
}

// since() returns the later of two times: when the last pass over the stream ended in this process, and when d was
// created. Values of events that were received after this time are newer than the rows of the table.
func (d *Deltas) since(q *queue) time.Time {
	if ended := q.lock.Since(); ended.After(d.made) {
		return ended
	}
	return d.made
}
