package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

// queue is what the events of one stream have to be applied yet.
type queue struct {
	stream schemas.Stream
	detail schemas.Stream // that gives one of its records
	able   bool           // there is one
	beside *queue         // of the table that detail has itself; nil where it has none

	like    *extract.Likeness // what its list shows; nil: not known
	unlike  string            // why its records cannot be asked for one by one
	tested  time.Time
	strange map[string]bool // members of which events say something else than the source
	control string          // key of a record that was there when it was asked for last
	most    int64           // records that the longest reading of the list has found

	state   map[string]applied // by destination
	waiting map[string]*entity // by key
	whole   *entity            // that any record may have changed; nil: no event says so
	last    time.Time          // receipt of the last event

	pause time.Time // nothing before
	fails int       // in a row
	asked time.Time // when it was last named for a refresh
	owed  int64     // because of this event
	vain  int       // how often before, because of the same

	turn *streamLock // with the runs of this process; nil where it is not shared
	lent bool        // a pass has lent it, and may want records to be asked for once more
	shut string      // a pass that has to end first
}

// entity is a record that may have changed.
type entity struct {
	key         string // JSON scalar
	first, last int64  // events that are not applied everywhere
	received    time.Time
	gone        bool      // the last event says that it is gone
	data        []byte    // what the last event says of it; nil where events do not agree
	tries       int       // how often it was asked for
	due         time.Time // when it is to be asked for again; zero: not
	stored      bool      // a destination has it as open; received says nothing of its event
}

// maxData is as much of what an event says of a record as is remembered.
const maxData = 8 << 10

func newQueue() *queue {
	return &queue{state: map[string]applied{}, waiting: map[string]*entity{}, strange: map[string]bool{}}
}

// add puts in what an event says. Of two with one id that say different things,
// neither is believed.
func (q *queue) add(e extract.Delivery, h extract.Hint, all []Destination) {
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

// reopen puts in a record that a destination has as open.
func (q *queue) reopen(o open, now time.Time) {
	if q.waiting[o.Key] == nil {
		q.waiting[o.Key] = &entity{key: o.Key, first: o.At, last: o.At, gone: o.Gone, tries: o.Tries, received: now, due: now, stored: true}
	}
}

// recount begins to count anew where an event bears the ordinal of one that was
// applied before it came.
func (q *queue) recount(ordinal int64, received time.Time) {
	for name, a := range q.state {
		if ordinal <= a.Through && received.After(a.At) {
			a.Through, a.recounted = ordinal-1, true
			q.state[name] = a
		}
	}
}

// lacked reports whether one of the destinations has not applied e's last event.
func (q *queue) lacked(e *entity, by []Destination) bool {
	return slices.ContainsFunc(by, func(d Destination) bool { return q.state[d.Name].Through < e.last })
}

// lacking are the records whose events are not applied in one of the destinations,
// in the order of the last ones.
func (q *queue) lacking(by []Destination) (all []*entity) {
	for _, e := range q.waiting {
		if q.lacked(e, by) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entity) int { return cmp.Compare(a.last, b.last) })
	return all
}

// due are the records to ask for now: those with new events, and those whose time
// has come.
func (q *queue) due(now time.Time, by []Destination, most int) []*entity {
	if len(by) == 0 { // nobody could take what is asked for
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

// when is the time at which there is something to do for these destinations; zero
// for never.
func (q *queue) when(p applyRate, by []Destination) time.Time {
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

// floor is the first event that not all have applied, and when the oldest of them
// was received; 0 for none.
func (q *queue) floor(all []Destination) (low int64, oldest time.Time) {
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

// giveUp leaves what waits to a reading of the whole stream.
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

// receive puts the events that have come into the queues, as far as there is room.
func (d *Deltas) receive(ctx context.Context) error {
	d.catchUp()
	for {
		if d.tight() {
			d.forget()
		}
		if d.tight() { // what waits has to go first
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

// sort puts one event into the queues of its streams.
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

// report fills in what is left.
func (d *Deltas) report(rep *DeltaReport) {
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
		rep.Behind += len(q.waiting)
		if q.whole != nil {
			rep.Behind++
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
		if q.lent {
			d.again(rep, d.pace.busy)
		}
		d.refresh(q, rep)
	}
	for _, r := range d.resting {
		d.again(rep, r.until.Sub(now))
	}
}

// minAgain keeps what has to wait for others, as for a pass, from being tried all
// the time.
const minAgain = 100 * time.Millisecond

func (d *Deltas) again(rep *DeltaReport, in time.Duration) {
	if in = max(in, minAgain); rep.Again == 0 || in < rep.Again {
		rep.Again = in
	}
}

// maxRefresh is the longest between two readings that the same event asks for.
const maxRefresh = time.Hour

// refresh names a stream that has to be read, with its parents, now and then.
func (d *Deltas) refresh(q *queue, rep *DeltaReport) {
	now, owed := d.now(), int64(0)
	for _, a := range q.state {
		owed = max(owed, a.Refresh)
	}
	if owed != q.owed {
		q.owed, q.vain = owed, 0
	}
	every := min(maxRefresh, d.pace.refresh<<max(0, min(q.vain-1, 10))) // a list may contradict itself each time
	switch {
	case owed == 0:
	case now.Sub(q.asked) < every:
		d.again(rep, q.asked.Add(every).Sub(now))
	default:
		q.asked = now
		q.vain++
		rep.Refresh = d.ancestry(rep.Refresh, q.stream)
		d.again(rep, d.pace.refresh)
	}
}

// ancestry adds a stream to those that are named, its parents before it.
func (d *Deltas) ancestry(names []string, s schemas.Stream) []string {
	if slices.Contains(names, s.Name) {
		return names
	}
	if i := slices.IndexFunc(d.Streams, func(p schemas.Stream) bool { return p.Name == s.Parent }); i >= 0 {
		names = d.ancestry(names, d.Streams[i])
	}
	return append(names, s.Name)
}
