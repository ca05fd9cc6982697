package deltas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// detailTable is the table of the detail stream, whose endpoint returns one record at a time. Records that are
// requested because of an event are also written to that table.
//
// Deltas lock the detail stream and read its positions before they send requests. They release the lock after the
// commit. If another process commits to the table meanwhile, the commit of the deltas fails. So an older record never
// replaces a newer one. Invariants 8, 13
type detailTable struct {
	q         *queue
	positions []*destinationPosition
}

// besideOf returns a queue for the table of the detail stream. It returns nil if that table does not exist or has
// another key.
func (d *Deltas) besideOf(q *queue) *queue {
	i := slices.IndexFunc(d.conf.Streams, func(s schemas.Stream) bool { return s.Name == q.detail.Name })
	if !q.canRequest || i < 0 {
		return nil
	}
	s := d.conf.Streams[i]
	if !s.PlainKey() || s.Key[0] != q.stream.Key[0] || s.Context != "" || s.Window ||
		s.Table.Mode == schemas.Append || d.inbox.HasEvents(s.Name) {
		return nil
	}
	b := newQueue()
	b.stream, b.lock = s, d.conf.Locks.Watch(s.Name)
	return b
}

// lockDetail locks the detail stream. It returns nil if another pass holds the lock, or if no destination has read
// the whole detail stream.
func (x *delta) lockDetail(ctx context.Context, dests []pipeline.Destination) *detailTable {
	q := x.q.beside
	if q == nil {
		return nil
	}
	overlays, free := q.lock.Try(ctx, 0)
	if !free {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, x.pace.patience, errNoAnswer)
	defer cancel()
	b := &detailTable{q: q}
	for _, dest := range dests {
		p := &destinationPosition{dest: dest}
		err := x.readPosition(ctx, q, p)
		if err == nil && overlays == nil && p.pos.LastWhole() != "" && !p.pos.MidPass() {
			b.positions = append(b.positions, p)
		}
	}
	if len(b.positions) == 0 {
		q.lock.Release()
		return nil
	}
	return b
}

func (b *detailTable) write(ctx context.Context, x *delta) error {
	if len(x.records)+len(x.gone) == 0 {
		return nil
	}
	y := &delta{Deltas: x.Deltas, q: b.q, began: x.began, gone: x.gone, entities: x.entities, through: x.through}
	for _, e := range x.entities {
		y.records = append(y.records, extract.WithContext(x.answers[e], x.q.detail.Params[0].Name, []byte(e.key)))
		y.reread = append(y.reread, "["+e.key+"]")
	}
	var errs []error
	for _, p := range b.positions {
		if err := pipeline.Guard(p.dest.Name, func() error { return y.writeBeside(ctx, p) }); err != nil && !errors.Is(err, state.ErrMoved) {
			errs = append(errs, fmt.Errorf("%s to %s, outside its pass: %w", b.q.stream.Name, p.dest.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (x *delta) writeBeside(ctx context.Context, p *destinationPosition) error {
	ctx, cancel := context.WithTimeoutCause(ctx, x.pace.patience, errNoAnswer)
	defer cancel()
	tables, err := p.dest.Tables(ctx, x.q.stream.Table.Name)
	if err != nil || len(tables) == 0 {
		return err
	}
	stamp := x.stamp([]*destinationPosition{p})
	m, err := x.mapSome(stamp, tables, x.records)
	if err != nil {
		return err
	}
	defer m.release()
	_, err = x.write(ctx, p, stamp, m)
	return err
}

func (b *detailTable) unlock() {
	if b != nil {
		b.q.lock.Release()
	}
}
