package deltas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// commit commits the answers to all destinations. A record stays in the queue until every destination has it.
func (x *delta) commit(ctx context.Context, positions []*destinationPosition) error {
	stamp := x.stamp(positions)
	m, err := x.mapAll(ctx, stamp, positions)
	if err != nil {
		return err
	}
	defer m.release()
	if x.overlays != nil {
		if shapes, err := x.reshapes(ctx, positions, m); err != nil || shapes {
			x.q.blockedBy = x.overlays[positions[0].dest.Name].Pass.Run
			return err
		}
	}
	x.notBefore()
	var mu sync.Mutex
	done := map[string]cursor.Applied{}
	err = x.each(ctx, func(ctx context.Context, dest pipeline.Destination) error {
		i := slices.IndexFunc(positions, func(p *destinationPosition) bool { return p.dest.Name == dest.Name })
		if i < 0 {
			return errIdle
		}
		out, err := x.write(ctx, positions[i], stamp, m)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done[dest.Name] = positions[i].events
		if dest.Name == x.conf.Destinations[0].Name {
			x.rep.Written += out.Written
			x.rep.Deleted += out.Deleted
		}
		return nil
	})
	x.trouble(err)
	for name, a := range done {
		x.q.state[name] = a
	}
	if len(done) > 0 {
		x.finish(ctx)
	}
	return nil
}

func (x *delta) positions(ctx context.Context) []*destinationPosition {
	var all []*destinationPosition
	x.trouble(x.each(ctx, func(ctx context.Context, dest pipeline.Destination) error {
		p := &destinationPosition{dest: dest}
		if len(x.admitted(x.q, x.overlays, []pipeline.Destination{dest})) == 0 {
			return errIdle
		}
		if err := x.readPosition(ctx, x.q, p); err != nil {
			return err
		}
		x.overlays[dest.Name].Settle(p.stored)
		x.mu.Lock()
		defer x.mu.Unlock()
		all = append(all, p)
		return nil
	}))
	slices.SortFunc(all, func(a, b *destinationPosition) int { return cmp.Compare(a.dest.Name, b.dest.Name) })
	return all
}

// mapAll maps the records. If that fails, it maps each record on its own, so that one bad record does not stop
// the others.
func (x *delta) mapAll(ctx context.Context, stamp string, positions []*destinationPosition) (*mapped, error) {
	var known [][]schemas.Table
	for _, p := range positions {
		tables, err := p.dest.Tables(ctx, x.q.stream.Table.Name)
		if err != nil {
			return nil, err
		}
		known = append(known, tables)
	}
	tables := schemas.JoinTables(known...)
	m, err := x.mapSome(stamp, tables, x.records)
	if frozen, ok := errors.AsType[*transform.ContractError](err); ok {
		return nil, frozen
	}
	if err == nil {
		return m, nil
	}
	var records [][]byte
	var entities []*entity
	for i, r := range x.records {
		one, err := x.mapSome(stamp, tables, [][]byte{r})
		if err != nil {
			x.failed(x.entities[i], err)
			continue
		}
		one.release()
		records, entities = append(records, r), append(entities, x.entities[i])
	}
	x.records, x.entities = records, entities
	return x.mapSome(stamp, tables, records)
}

// write commits rows, rejects, tombstones and the ordinal of the last event in one transaction. // Invariants 1, 2
func (x *delta) write(ctx context.Context, p *destinationPosition, stamp string, m *mapped) (load.Outcome, error) {
	s := x.q.stream
	described, table, err := x.provisional(ctx, p, stamp)
	if err != nil {
		return load.Outcome{}, err
	}
	if described != nil {
		defer described.Release()
	}
	tx, err := p.dest.Begin(ctx, x.conf.Key(s.Name), p.stored, x.passOf(p.dest.Name, stamp))
	if err != nil {
		return load.Outcome{}, err
	}
	defer tx.Rollback()
	for _, b := range m.batches {
		if err := tx.Write(ctx, b.Table, b.Batch); err != nil {
			return load.Outcome{}, err
		}
	}
	if err := x.markForRequest(ctx, tx, stamp); err != nil {
		return load.Outcome{}, err
	}
	if err := load.WriteRows(ctx, tx, load.Rejects, x.rejects(stamp, m)...); err != nil {
		return load.Outcome{}, err
	}
	out, err := tx.Apply(ctx, load.Sweep{})
	if err != nil {
		return out, err
	}
	if described != nil {
		if err := tx.Write(ctx, table, described); err != nil {
			return out, err
		}
	}
	if err := x.markDeleted(ctx, tx, m, &out); err != nil {
		return out, err
	}
	x.note(p, stamp, out)
	pos := p.pos
	if pos.Pass == "" && pos.TouchedBy == "" {
		pos.TouchedBy = stamp // no scheduled run has read the stream yet
		pos.Address = x.conf.Origins[s.Name].Address
	}
	next := pos.WithApplied(p.events).Encode()
	news, err := x.news(p.dest.Name, p.stored, next, m)
	if err != nil {
		return out, err
	}
	if err := tx.Commit(ctx, next); err != nil {
		_ = tx.Rollback() // the open transaction might block the query for the outcome
		return out, x.unanswered(ctx, p, news, next, err)
	}
	x.overlays[p.dest.Name].Record(news)
	return out, nil
}

func (x *delta) note(p *destinationPosition, stamp string, out load.Outcome) {
	a := &p.events
	a.Run, a.At = stamp, x.began
	if x.q.state[p.dest.Name].Recounted {
		a.Through = 0
	}
	a.Through = max(a.Through, x.through)
	a.Fresh += out.Written + out.Deleted
	if x.overlays[p.dest.Name] != nil {
		a.Fresh += out.Deduplicated
	}
	a.Dead += int64(len(x.dead))
	a.Refresh = max(a.Refresh, x.refresh)
	a.Open = slices.Clone(a.Open)
	if x.refresh > 0 && len(x.requested) == 0 {
		a.Open = nil
	}
	for _, e := range x.requested {
		a.Drop(e.key)
	}
	for _, e := range x.again {
		a.Put(cursor.Record{Key: e.key, At: e.last, Tries: e.tries, Gone: e.gone})
	}
}

// rejects returns the rows of _penstock_rejects: for values that the table cannot hold, and for records that were given
// up. // Invariant 11
func (x *delta) rejects(stamp string, m *mapped) [][]any {
	var rows [][]any
	now := x.conf.Now()
	row := func(j transform.Reject) {
		rows = append(rows, reject.Values(stamp, x.conf.Name, x.q.stream.Name, 1, now, time.Time{}, j))
	}
	for _, j := range m.rejects {
		row(j)
	}
	for _, g := range x.dead {
		row(transform.Reject{Stage: transform.StageWebhook, ID: fmt.Sprintf("event %d", g.e.last), Ordinal: -g.e.last, Key: g.e.key, Wanted: "the record that an event is about", Raw: string(g.e.data),
			Reason: fmt.Sprintf("event %d was given up after %d tries: %v", g.e.last, g.e.tries, g.why)})
	}
	return rows
}

func (x *delta) notBefore() {
	for _, e := range x.again {
		e.due = x.now().Add(x.pace.again[min(e.tries, len(x.pace.again))-1])
	}
}

func (x *delta) finish(ctx context.Context) {
	q := x.q
	q.fails, q.pause = 0, time.Time{}
	x.rep.Applied += len(x.requested) - len(x.again)
	x.rep.Dead += len(x.dead)
	for _, e := range x.requested {
		if !slices.Contains(x.again, e) {
			e.due = time.Time{}
			if !q.lacked(e, x.conf.Destinations) {
				delete(q.waiting, e.key)
				x.rep.Lags = append(x.rep.Lags, x.now().Sub(e.received))
			}
		}
	}
	for _, g := range x.dead {
		if q.lacked(g.e, x.conf.Destinations) {
			continue // another process may have to read the event again // Invariant 3
		}
		x.trouble(x.aside(ctx, g.e.last, g.why.Error()))
	}
	if q.whole != nil && !q.lacked(q.whole, x.conf.Destinations) {
		q.whole = nil
		x.rep.Applied++
	}
}

// reshapes reports whether a commit of deltas would have to change a table. A running pass maps its records to the
// tables as they were when it began. So the pass must make the change itself, or end before the deltas make
// it. // Invariant 11
func (x *delta) reshapes(ctx context.Context, positions []*destinationPosition, m *mapped) (bool, error) {
	for _, p := range positions {
		tables, err := p.dest.Tables(ctx, x.q.stream.Table.Name)
		if err != nil {
			return false, err
		}
		for _, b := range m.batches {
			i := slices.IndexFunc(tables, func(t schemas.Table) bool { return t.Name == b.Table.Name })
			if i < 0 {
				return true, nil
			}
			want := b.Table
			want.Columns = b.Batch.Schema()
			plan, err := load.Fit(tables[i], want)
			if err != nil || plan.ChangesShape() {
				return true, nil // the pass gets the same error and reports it
			}
		}
	}
	return false, nil
}

func (x *delta) news(dest string, from, to state.Cursor, m *mapped) (*overlay.Commit, error) {
	if x.overlays[dest] == nil {
		return nil, nil
	}
	n := &overlay.Commit{From: from, To: to}
	requested := map[string]*entity{}
	for _, e := range x.requested {
		if key, ok := reject.PlainKey(e.key); ok {
			requested[key] = e
		}
	}
	for _, e := range slices.Concat(x.gone, x.leftOut(m)) {
		if key, ok := reject.PlainKey(e.key); ok {
			n.Rows = append(n.Rows, overlay.Row{Key: key, RequestKey: e.key, Event: e.last})
		}
	}
	err := batch.EachRow(m.batches, x.q.stream.Table.Name, append(slices.Clone(x.q.stream.Key), schemas.ColHash), func(cells []arrow.Array, row int) {
		key := rowhash.KeyText(cells[:1], row)
		if e := requested[key]; e != nil {
			n.Rows = append(n.Rows, overlay.Row{Key: key, RequestKey: e.key, Hash: rowhash.Text(cells[1], row), Event: e.last})
		}
	})
	return n, err
}

// unanswered finds out whether a commit that returned an error has succeeded. If only the answer was lost, the stored
// cursor has moved. If the cursor cannot be read either, the running pass checks it again before its next commit.
// Invariants 1, 2
func (x *delta) unanswered(ctx context.Context, p *destinationPosition, n *overlay.Commit, next state.Cursor, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	at, err := p.dest.Cursor(ctx, x.conf.Key(x.q.stream.Name))
	switch l := x.overlays[p.dest.Name]; {
	case err != nil:
		l.Suspect(n)
	case at == next:
		l.Record(n)
		return nil
	}
	return failed
}

const answerTime = 5 * time.Second

// markForRequest makes the next run request the records in x.reread once more. Without markForRequest, the run would
// skip a record if its entry in the list is the same as in an earlier run. // Invariant 1
func (x *delta) markForRequest(ctx context.Context, tx load.Tx, stamp string) error {
	rows := make([][]any, len(x.reread))
	for i, tuple := range x.reread {
		rows[i] = []any{x.conf.Name, x.q.stream.Name, tuple, nil, stamp, x.conf.Now()}
	}
	return load.WriteRows(ctx, tx, load.Parents, rows...)
}
