package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
)

// serve applies what of a stream's events has come to rest. While a pass over the
// stream is under way that is between two of its commits, where it lends its turn,
// or else after its end. // Invariant 8
func (d *Deltas) serve(ctx context.Context, q *queue) error {
	now := d.now()
	at := q.when(d.pace, d.awake())
	if q.owing() && now.Sub(q.asked) >= d.pace.refresh {
		at = now // it may have been read since
	}
	if at.IsZero() || now.Before(at) {
		return nil
	}
	if q.owing() {
		d.trouble(d.each(ctx, func(ctx context.Context, dest Destination) error { return d.look(ctx, q, dest) }))
	}
	for range slicesAtOnce {
		if more, err := d.serveSome(ctx, q); !more || err != nil {
			return err
		}
	}
	return nil
}

// serveSome applies one slice while it is the stream's turn, and reports whether
// there may be more to do.
func (d *Deltas) serveSome(ctx context.Context, q *queue) (more bool, err error) {
	loans, free := q.turn.try(ctx, d.pace.line)
	if !free {
		q.pause = d.now().Add(d.pace.busy)
		return false, nil
	}
	defer q.turn.release()
	dests, most := d.admitted(q, loans, d.awake()), d.pace.slice
	if loans != nil {
		most = min(most, atOnce) // a commit of the pass waits
	}
	all := q.due(d.now(), dests, most)
	byList := q.whole != nil && q.lacked(q.whole, dests)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case loans != nil && (byList || len(all) == 0): // what was read before an event is no reading after it
		q.pause = d.now().Add(d.pace.busy)
		return false, nil
	case !byList && len(all) == 0:
		return false, nil
	}
	return true, d.slice(ctx, q, all, byList, loans)
}

// lookAgain takes up the records that a pass wants to be asked for once more.
func (d *Deltas) lookAgain(ctx context.Context) {
	for _, q := range d.queues {
		if !q.lent {
			continue
		}
		q.lent = q.turn.lent.Load()
		if q.turn.doubt.Swap(false) {
			d.trouble(d.each(ctx, func(ctx context.Context, dest Destination) error { return d.look(ctx, q, dest) }))
		}
	}
}

// slicesAtOnce is how many commits one stream makes before it is another's turn.
const slicesAtOnce = 20

// owing reports whether a reading of the stream is owed somewhere.
func (q *queue) owing() bool {
	for _, a := range q.state {
		if a.Refresh > 0 {
			return true
		}
	}
	return false
}

// slice applies some records in one commit, or leaves all that wait to a reading of
// the whole stream.
func (d *Deltas) slice(ctx context.Context, q *queue, all []*entity, byList bool, loans map[string]*overlay) error {
	x := &delta{Deltas: d, q: q, began: d.now().UTC(), loans: loans}
	places := x.places(ctx)
	var dests []Destination
	for _, p := range places {
		dests = append(dests, p.dest)
	}
	all = slices.DeleteFunc(all, func(e *entity) bool { return e.due.IsZero() && !q.lacked(e, dests) })
	if len(dests) == 0 || !byList && len(all) == 0 { // nobody could take what is asked for
		return nil
	}
	if !byList {
		alone, err := d.alone(ctx, q)
		if err != nil {
			return err
		}
		byList = !alone
	}
	if byList && loans != nil {
		q.shut = loans[places[0].dest.Name].pass.Run
		return nil
	}
	if byList {
		for _, e := range q.lacking(d.Destinations) {
			if e.data != nil && !e.gone {
				x.told = append(x.told, e)
			}
		}
		q.giveUp()
		x.refresh, x.through = q.whole.last, q.whole.last
		return x.commit(ctx, places)
	}
	q.lent = q.lent || loans != nil
	beside := x.alongside(ctx, dests)
	defer beside.leave()
	if err := x.refetch(ctx, all); err != nil {
		return err
	}
	if err := x.commit(ctx, places); err != nil || beside == nil {
		return err
	}
	x.trouble(beside.write(ctx, x))
	return nil
}

// alone reports whether the records that wait are to be asked for one by one:
// they can be, what is found so is what the list shows, and there are not more
// of them than the list has pages, more or less.
func (d *Deltas) alone(ctx context.Context, q *queue) (bool, error) {
	if !q.able || len(q.lacking(d.awake())) > max(d.pace.storm, int(q.most/50)) {
		return false, nil
	}
	if d.now().Sub(q.tested) < d.pace.trust {
		return q.like != nil, nil
	}
	if err := d.test(ctx, q); err != nil {
		return false, err
	}
	q.tested = d.now()
	return q.like != nil, nil
}

// How an endpoint for single records is tested: with so many records of the list,
// and once more where they may have changed in between.
const (
	testRecords = 3
	testRounds  = 2
)

// test finds out whether a record that is asked for by itself is what the list
// shows, byte by byte. Else a row would depend on who has brought it.
func (d *Deltas) test(ctx context.Context, q *queue) error {
	q.like, q.unlike = nil, "its list shows no records to try "+q.detail.Name+" with"
	for range testRounds {
		page, err := d.fetch.Sample(ctx, q.stream)
		if err != nil {
			return fmt.Errorf("%s: %w", q.stream.Name, err)
		}
		like, err := extract.NewLikeness(page.Records, q.stream.Key[0], q.stream.Volatile)
		if err != nil {
			return fmt.Errorf("%s: %w", q.stream.Name, err)
		}
		keys := like.Keys()
		for _, key := range keys[:min(len(keys), testRecords)] {
			record, _, err := d.fetch.Record(ctx, q.detail, d.values(q, key))
			if err != nil && endpointWide(err) {
				return fmt.Errorf("%s: %w", q.detail.Name, err)
			}
			if err == nil && record != nil && like.Same(record) {
				q.like, q.unlike, q.control = like, "", key
				return nil
			}
			q.unlike = q.detail.Name + " does not show a record as the list does"
		}
	}
	return nil
}

// since is when all that was read of a stream was older than an event that comes
// after it, as far as this process knows.
func (d *Deltas) since(q *queue) time.Time {
	if ended := q.turn.since(); ended.After(d.made) {
		return ended
	}
	return d.made
}

func (d *Deltas) values(q *queue, key string) map[string][]byte {
	return map[string][]byte{q.detail.Params[0].Name: []byte(key)}
}

// endpointWide reports whether an error may be one that other records would meet as
// well. A key that fits no request is not.
func endpointWide(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	if ok && e.Class == wire.Refused && e.Attempts == 0 {
		return false
	}
	return ok && e.Class != wire.Malformed && e.Class != wire.Invalid ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// delta is one commit in the making: what the source has said of some records.
type delta struct {
	*Deltas
	q       *queue
	began   time.Time
	asked   []*entity
	records [][]byte  // of those that are there
	whose   []*entity // of each of records
	gone    []*entity // that are to be buried
	dead    []abandoned
	again   []*entity           // to be asked for once more
	told    []*entity           // that an event describes, and that are not requested
	loans   map[string]*overlay // of the pass that is under way, by destination; nil for none
	heard   map[*entity][]byte  // what the source has said of each of whose, all of it
	reread  []string            // parents that the next run is to ask again, JSON arrays
	through int64
	refresh int64
}

// abandoned is a record that was given up.
type abandoned struct {
	e   *entity
	why error
}

// heard is what came of asking for one record.
type heard struct {
	record   []byte
	requests int
	err      error
}

// refetch asks for records and sorts them by what has to be done.
func (x *delta) refetch(ctx context.Context, all []*entity) error {
	x.asked, x.heard = all, map[*entity][]byte{}
	answers, err := x.ask(ctx, all)
	if err != nil {
		return err
	}
	for i, e := range all {
		e.tries++
		x.through = max(x.through, e.last)
		switch a := answers[i]; {
		case a.err != nil:
			x.failed(e, a.err)
		case a.record == nil:
			x.missing(e)
		default:
			x.there(e, a.record)
		}
	}
	return x.sure(ctx)
}

// ask asks for several records at once. An error is one that all would meet.
func (x *delta) ask(ctx context.Context, all []*entity) ([]heard, error) {
	answers := make([]heard, len(all))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(atOnce)
	for i, e := range all {
		asking.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			a := &answers[i]
			a.record, a.requests, a.err = x.fetch.Record(ctx, x.q.detail, x.values(x.q, e.key))
			if a.err != nil && endpointWide(a.err) && !x.othersAnswer(ctx, e, a) {
				return fmt.Errorf("%s: %w", x.q.detail.Name, a.err)
			}
			return nil
		})
	}
	err := asking.Wait()
	for _, a := range answers {
		x.rep.Refetches += a.requests
	}
	x.run.asked.Add(int64(len(all)))
	return answers, err
}

// othersAnswer reports whether the record that was there last is there still, right after an
// error about another one that may be about all of them: a missing permission, a login page, a
// server that does not respond.
func (x *delta) othersAnswer(ctx context.Context, about *entity, a *heard) bool {
	e, ok := errors.AsType[*wire.Error](a.err)
	if !ok || e.Class == wire.Throttled || !e.NotBefore.IsZero() || x.q.control == "" || x.q.control == about.key {
		return false
	}
	record, requests, err := x.fetch.Record(ctx, x.q.detail, x.values(x.q, x.q.control))
	a.requests += requests
	return err == nil && record != nil
}

// failed has a record tried again, and given up the third time: the others continue
// without it.
func (x *delta) failed(e *entity, err error) {
	if e.tries >= maxRecordTries {
		x.dead = append(x.dead, abandoned{e, err})
		return
	}
	x.again = append(x.again, e)
}

// missing takes up a record that the source says it does not have. Where no event
// says that it is gone, it may just not be there yet.
func (x *delta) missing(e *entity) {
	if !e.gone && e.tries < maxRecordTries-1 {
		x.again = append(x.again, e)
		return
	}
	x.gone = append(x.gone, e)
}

// there takes up a record as the source has it.
func (x *delta) there(e *entity, record []byte) {
	if extract.KeyOf(record, x.q.stream.Key[0]) != e.key {
		x.failed(e, fmt.Errorf("%s gives another record", x.q.detail.Name))
		return
	}
	fit, err := x.q.like.Fit(record)
	if err != nil { // the list may show more, or less, by now
		x.q.tested = time.Time{}
		x.refresh = max(x.refresh, e.last)
		return
	}
	x.q.control = e.key
	x.records, x.whose = append(x.records, fit), append(x.whose, e)
	x.heard[e] = record
	if e.tries < maxRecordTries && x.stale(e, fit) {
		x.again = append(x.again, e)
	}
}

// stale reports whether a record disagrees with what its last event says: the
// source may serve what it had before. What still disagrees at the last try is
// said in another way, and not compared any more.
func (x *delta) stale(e *entity, record []byte) bool {
	if e.gone {
		return true
	}
	unlike := extract.Disagree(e.data, record)
	unlike = slices.DeleteFunc(unlike, func(name string) bool {
		return x.q.strange[name] || slices.Contains(x.q.stream.Volatile, name)
	})
	if e.tries == maxRecordTries-1 { // it is asked for once more, and that is that
		for _, name := range unlike {
			x.q.strange[name] = true
		}
	}
	return len(unlike) > 0
}

// sure keeps of the records to bury those of which two witnesses say that they are
// gone: the event and the source; or the source, which still finds others.
// What nobody can tell is left to a reading of the whole list. // Invariant 12
func (x *delta) sure(ctx context.Context) error {
	doubtful := slices.ContainsFunc(x.gone, func(e *entity) bool { return !e.gone })
	if !doubtful || len(x.records) > 0 {
		return nil
	}
	sound, err := x.sound(ctx)
	if err != nil || sound {
		return err
	}
	x.gone = slices.DeleteFunc(x.gone, func(e *entity) bool {
		if !e.gone {
			x.refresh = max(x.refresh, e.last)
		}
		return !e.gone
	})
	return nil
}

// sound reports whether a record that is there is found: the one that was there
// when it was asked for last or, should that be gone by now, one of the list.
func (x *delta) sound(ctx context.Context) (bool, error) {
	if x.q.control != "" {
		record, n, err := x.fetch.Record(ctx, x.q.detail, x.values(x.q, x.q.control))
		x.rep.Refetches += n
		if err != nil || record != nil {
			return record != nil, err
		}
		x.q.control = ""
	}
	if err := x.test(ctx, x.q); err != nil {
		return false, err
	}
	return x.q.control != "", nil
}
