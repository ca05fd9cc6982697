package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// detailTable is the table of the stream that gives records one by one, where the
// pipeline reads that stream as well: what is asked for because of an event is
// written there too, at no further request. What cannot be written at once is left
// to the next run, which asks for whatever has changed in the list.
//
// Its turn is had from before the records are asked for until they are committed,
// and the places are those of before, so that no pass has read later and committed
// in between. // Invariants 8, 13
type detailTable struct {
	q      *queue // of the stream; nothing waits in it
	places []*placed
}

// besideOf is the queue of the stream that gives q's records, if it has a table
// with the same key; nil for none.
func (d *Deltas) besideOf(q *queue) *queue {
	i := slices.IndexFunc(d.Streams, func(s schemas.Stream) bool { return s.Name == q.detail.Name })
	if !q.able || i < 0 {
		return nil
	}
	s := d.Streams[i]
	if !plainlyKeyed(s) || s.Key[0] != q.stream.Key[0] || s.Context != "" || s.Window ||
		s.Table.Mode == schemas.Append || d.inbox.Announces(s.Name) {
		return nil
	}
	b := newQueue()
	b.stream, b.turn = s, d.Turns.watch(s.Name)
	return b
}

// alongside takes the turn of the stream beside, where it is free, and looks up
// where the destinations are that have read it before: nil for none.
func (x *delta) alongside(ctx context.Context, dests []Destination) *detailTable {
	q := x.q.beside
	if q == nil {
		return nil
	}
	loans, free := q.turn.try(ctx, 0)
	if !free {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, x.limits.patience, errSlow)
	defer cancel()
	b := &detailTable{q: q}
	for _, dest := range dests {
		p := &placed{dest: dest}
		err := x.stands(ctx, q, p)
		if err == nil && loans == nil && p.pos.over() != "" && !p.pos.midPass() {
			b.places = append(b.places, p)
		}
	}
	if len(b.places) == 0 {
		q.turn.release()
		return nil
	}
	return b
}

// write commits there what was heard. The error says what was left to the next run.
func (b *detailTable) write(ctx context.Context, x *delta) error {
	if len(x.records)+len(x.gone) == 0 {
		return nil
	}
	y := &delta{Deltas: x.Deltas, q: b.q, began: x.began, gone: x.gone, whose: x.whose, through: x.through}
	for _, e := range x.whose {
		y.records = append(y.records, extract.Asked(x.heard[e], x.q.detail.Params[0].Name, []byte(e.key)))
		y.reread = append(y.reread, "["+e.key+"]")
	}
	var errs []error
	for _, p := range b.places { // each by itself: one that fails is of no concern to the others
		if err := guard(p.dest.Name, func() error { return y.writeBeside(ctx, p) }); err != nil && !errors.Is(err, state.ErrMoved) {
			errs = append(errs, fmt.Errorf("%s to %s, beside its list: %w", b.q.stream.Name, p.dest.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (x *delta) writeBeside(ctx context.Context, p *placed) error {
	ctx, cancel := context.WithTimeoutCause(ctx, x.limits.patience, errSlow)
	defer cancel()
	tables, err := p.dest.Tables(ctx, x.q.stream.Table.Name)
	if err != nil || len(tables) == 0 {
		return err
	}
	stamp := x.stamp([]*placed{p})
	m, err := x.mapSome(stamp, tables, x.records)
	if err != nil {
		return err
	}
	defer m.release()
	_, err = x.write(ctx, p, stamp, m)
	return err
}

// askAgain has the next run ask once more for the records that are written beside:
// it goes by what the list said when it last asked for them, which may be what the
// list says again by then. // Invariant 1
func (x *delta) askAgain(ctx context.Context, tx load.Tx, stamp string) error {
	if len(x.reread) == 0 {
		return nil
	}
	rows := make([][]any, len(x.reread))
	for i, tuple := range x.reread {
		rows[i] = []any{x.Name, x.q.stream.Name, tuple, nil, stamp, x.Now()}
	}
	return writeOwn(ctx, tx, load.Parents, rows...)
}

// leave gives the turn up.
func (b *detailTable) leave() {
	if b != nil {
		b.q.turn.release()
	}
}
