package deltas

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state/retry"
)

type queue struct {
	stream     schemas.Stream
	detail     schemas.Stream // stream that returns a single record
	canRequest bool
	beside     *queue // queue of detail's own table; nil if it has none

	likeness *extract.RecordForm // what the list shows of a record; nil: unknown
	unlike   string
	tested   time.Time
	strange  map[string]bool // JSON members that events format differently from the source
	control  string          // key of a record that existed when it was last requested
	longest  int64

	state   map[string]cursor.Applied
	waiting map[string]*entity
	whole   *entity // set if an event says that any record of the stream may have changed; else nil
	last    time.Time

	pause        time.Time
	fails        int
	refreshedAt  time.Time
	refreshEvent int64
	refreshTries int

	lock       *overlay.Lock // lock shared with the runs of this process; nil if not shared
	duringPass bool          // a running pass has allowed deltas, and may need records to be requested again
	blockedBy  string        // run id of a pass that must end first
}

type entity struct {
	key         string // a JSON scalar
	first, last int64  // ordinals of the first and last event that some destination lacks
	received    time.Time
	gone        bool      // the last event says that the record is gone
	data        []byte    // the record in the last event; nil if it is too large or events disagree
	tries       int       // number of requests so far
	due         time.Time // when to request it again; zero if it is not due
	stored      bool      // a destination stores the record as open; received is then the time when it was queued
}

// maxData is the size in bytes up to which the record of an event is kept.
const maxData = 8 << 10

func newQueue() *queue {
	return &queue{state: map[string]cursor.Applied{}, waiting: map[string]*entity{}, strange: map[string]bool{}}
}

// add queues an event. It keeps only the key, without the record, if the record is too large or if another event with
// the same id has a different body.
func (q *queue) add(e extract.Delivery, h extract.Hint, all []pipeline.Destination) {
	q.last = e.Received
	if h.Key == "" {
		if q.whole == nil {
			q.whole = &entity{first: e.Ordinal, received: e.Received}
		}
		q.whole.last = e.Ordinal
		return
	}
	w := q.waiting[h.Key]
	if w == nil || !q.lacked(w, all) {
		w = &entity{key: h.Key, first: e.Ordinal, received: e.Received}
		q.waiting[h.Key] = w
	}
	w.last, w.gone, w.data, w.tries, w.due, w.stored = e.Ordinal, h.Gone, nil, 0, time.Time{}, false
	if len(h.Data) <= maxData && !e.Conflict {
		w.data = h.Data
	}
}

func (q *queue) reopen(o cursor.Record, now time.Time) {
	if q.waiting[o.Key] == nil {
		q.waiting[o.Key] = &entity{key: o.Key, first: o.At, last: o.At, gone: o.Gone, tries: o.Tries, received: now, due: now, stored: true}
	}
}

// recount handles the loss of an inbox. The new inbox numbers its events from the beginning again.
func (q *queue) recount(ordinal int64, received time.Time) {
	for name, a := range q.state {
		if ordinal <= a.Through && received.After(a.At) {
			a.Through, a.Recounted = ordinal-1, true
			q.state[name] = a
		}
	}
}

func (q *queue) lacked(e *entity, by []pipeline.Destination) bool {
	return slices.ContainsFunc(by, func(d pipeline.Destination) bool { return q.state[d.Name].Through < e.last })
}

func (q *queue) lacking(by []pipeline.Destination) (all []*entity) {
	for _, e := range q.waiting {
		if q.lacked(e, by) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entity) int { return cmp.Compare(a.last, b.last) })
	return all
}

func (q *queue) due(now time.Time, by []pipeline.Destination, most int) []*entity {
	if len(by) == 0 {
		return nil
	}
	all := q.lacking(by)
	if len(all) >= most {
		return all[:most]
	}
	for _, key := range slices.Sorted(maps.Keys(q.waiting)) {
		e := q.waiting[key]
		if !e.due.IsZero() && !now.Before(e.due) && len(all) < most && !q.lacked(e, by) {
			all = append(all, e)
		}
	}
	return all
}

func (q *queue) when(p applyRate, by []pipeline.Destination) time.Time {
	var at time.Time
	if len(by) == 0 {
		return at
	}
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	all := q.lacking(by)
	if q.whole != nil && q.lacked(q.whole, by) {
		all = append(all, q.whole)
	}
	for _, e := range all {
		sooner(e.received.Add(p.late))
	}
	if len(all) > 0 {
		sooner(q.last.Add(p.quiet))
	}
	for _, e := range q.waiting {
		if !e.due.IsZero() {
			sooner(e.due)
		}
	}
	if !at.IsZero() && at.Before(q.pause) {
		at = q.pause
	}
	return at
}

func (q *queue) floor(all []pipeline.Destination) (low int64, oldest time.Time) {
	lacking := q.lacking(all)
	if q.whole != nil {
		lacking = append(lacking, q.whole)
	}
	for _, e := range lacking {
		if low == 0 || e.first < low {
			low = e.first
		}
		if oldest.IsZero() || e.received.Before(oldest) {
			oldest = e.received
		}
	}
	return low, oldest
}

func (q *queue) giveUp() {
	q.fails = 0
	for _, e := range q.waiting {
		if q.whole == nil {
			q.whole = &entity{first: e.first, received: e.received}
		}
		w := q.whole
		w.first, w.last = min(w.first, e.first), max(w.last, e.last)
		if e.received.Before(w.received) {
			w.received = e.received
		}
	}
	clear(q.waiting)
}

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
		if !q.lacked(&entity{last: e.Ordinal}, d.Destinations) {
			continue
		}
		if len(q.waiting) >= d.pace.entities/4 {
			d.forget()
		}
		if len(q.waiting) >= d.pace.entities/4 {
			q.giveUp()
			h.Key = ""
		}
		q.add(e, h, d.Destinations)
	}
}

func (d *Deltas) report(rep *Report) {
	now, awake := d.now(), d.awake()
	rep.Through = d.read
	if d.left != nil {
		rep.Through = min(rep.Through, d.left.after)
	}
	for _, dest := range d.Destinations {
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
		if low, oldest := q.floor(d.Destinations); low > 0 {
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

// minAgain is the minimum of DeltaReport.ApplyAfter. Work may have to wait for something else, such as the end of a
// pass.
const minAgain = 100 * time.Millisecond

func (d *Deltas) again(rep *Report, in time.Duration) {
	if in = max(in, minAgain); rep.ApplyAfter == 0 || in < rep.ApplyAfter {
		rep.ApplyAfter = in
	}
}

// maxRefresh limits the time between two readings of a stream that the same event requires.
const maxRefresh = time.Hour

// refresh adds the stream to rep.Refresh, after its parents, if it must be read. The intervals between such readings
// grow.
func (d *Deltas) refresh(q *queue, rep *Report) {
	now, owed := d.now(), int64(0)
	for _, a := range q.state {
		owed = max(owed, a.Refresh)
	}
	if owed != q.refreshEvent {
		q.refreshEvent, q.refreshTries = owed, 0
	}
	every := retry.Policy{First: d.pace.refresh, Longest: maxRefresh}.Wait(q.refreshTries) // intervals grow because each of these readings may end as contradicted
	switch {
	case owed == 0:
	case now.Sub(q.refreshedAt) < every:
		d.again(rep, q.refreshedAt.Add(every).Sub(now))
	default:
		q.refreshedAt = now
		q.refreshTries++
		rep.Refresh = d.ancestry(rep.Refresh, q.stream)
		d.again(rep, d.pace.refresh)
	}
}

func (d *Deltas) ancestry(names []string, s schemas.Stream) []string {
	if slices.Contains(names, s.Name) {
		return names
	}
	if i := slices.IndexFunc(d.Streams, func(p schemas.Stream) bool { return p.Name == s.Parent }); i >= 0 {
		names = d.ancestry(names, d.Streams[i])
	}
	return append(names, s.Name)
}
