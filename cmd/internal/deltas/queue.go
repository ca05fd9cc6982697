package deltas

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

type queue struct {
	stream     schemas.Stream
	detail     schemas.Stream // stream that returns a single record
	canRequest bool
	beside     *queue // queue for the table of the stream in `detail`; nil if the stream has no table

	likeness *records.RecordForm // the form in which the list returns records; nil: unknown
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
	refreshTries int // readings that were requested for the same event
	triesBefore  int // refreshTries before the last request

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
	due         time.Time // when to request the record again; zero if it need not be requested
	stored      bool      // a destination stores that the record must be requested again; then the field `received` has the time when the record was queued
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
