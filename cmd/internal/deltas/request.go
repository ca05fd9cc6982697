package deltas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
)

func (x *delta) refetch(ctx context.Context, all []*entity) error {
	x.requested, x.answers = all, map[*entity][]byte{}
	answers, err := x.request(ctx, all)
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
			x.notFound(e)
		default:
			x.found(e, a.record)
		}
	}
	return x.confirmGone(ctx)
}

// requestsAtOnce is the number of records that are requested at the same time.
const requestsAtOnce = 8

func (x *delta) request(ctx context.Context, all []*entity) ([]recordAnswer, error) {
	answers := make([]recordAnswer, len(all))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(requestsAtOnce)
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
	return answers, err
}

// othersAnswer reports whether an error concerns only one record. It is called after an error that may concern all
// records, such as a missing permission or a login page. It requests the control, a record that existed when it was
// last requested. If the source returns the control, the error concerns only one record.
func (x *delta) othersAnswer(ctx context.Context, about *entity, a *recordAnswer) bool {
	e, ok := errors.AsType[*wire.Error](a.err)
	if !ok || e.Class == wire.Throttled || !e.NotBefore.IsZero() || x.q.control == "" || x.q.control == about.key {
		return false
	}
	record, requests, err := x.fetch.Record(ctx, x.q.detail, x.values(x.q, x.q.control))
	a.requests += requests
	return err == nil && record != nil
}

// failed() handles a failed request. After maxRecordTries it gives the record up, so that other records need not wait.
func (x *delta) failed(e *entity, err error) {
	if e.tries >= maxRecordTries {
		x.dead = append(x.dead, abandoned{e, err})
		return
	}
	x.again = append(x.again, e)
}

// notFound handles a record that the source does not find. The record may not exist yet, so it is requested again. If
// the event says that the record is gone, it is not requested again.
func (x *delta) notFound(e *entity) {
	if !e.gone && e.tries < maxRecordTries-1 {
		x.again = append(x.again, e)
		return
	}
	x.gone = append(x.gone, e)
}

func (x *delta) found(e *entity, record []byte) {
	if records.KeyOf(record, x.q.stream.Key[0]) != e.key {
		x.failed(e, fmt.Errorf("%s returned another record", x.q.detail.Name))
		return
	}
	fit, err := x.q.likeness.Fit(record)
	if err != nil { // the list's records may have more or fewer members now
		x.q.tested = time.Time{}
		x.refresh = max(x.refresh, e.last)
		return
	}
	x.q.control = e.key
	x.records, x.entities = append(x.records, fit), append(x.entities, e)
	x.answers[e] = record
	if e.tries < maxRecordTries && x.stale(e, fit) {
		x.again = append(x.again, e)
	}
}

// stale reports whether a record disagrees with its last event. The source may then still return the old record. If a
// member still disagrees at the last try, stale assumes that events format it differently, and no longer compares it.
func (x *delta) stale(e *entity, record []byte) bool {
	if e.gone {
		return true
	}
	unlike := records.DifferingMembers(e.data, record)
	unlike = slices.DeleteFunc(unlike, func(name string) bool {
		return x.q.strange[name] || slices.Contains(x.q.stream.Volatile, name)
	})
	if e.tries == maxRecordTries-1 {
		for _, name := range unlike {
			x.q.strange[name] = true
		}
	}
	return len(unlike) > 0
}

// confirmGone removes records from x.gone if only one witness reports their deletion. One witness is the answer of the
// source, which does not find the record. A second witness is an event that reports the deletion. If the source still
// finds another record, its answers are trusted, and no event is needed. // Invariant 12
func (x *delta) confirmGone(ctx context.Context) error {
	doubtful := slices.ContainsFunc(x.gone, func(e *entity) bool { return !e.gone })
	if !doubtful || len(x.records) > 0 {
		return nil
	}
	sound, err := x.findsControl(ctx)
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

func (x *delta) findsControl(ctx context.Context) (bool, error) {
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

// test() checks that the endpoint for single records returns the same bytes as the list. Otherwise the content of a row
// would depend on which request loaded it.
func (d *Deltas) test(ctx context.Context, q *queue) error {
	q.likeness, q.unlike = nil, "its list has no records to test "+q.detail.Name+" with"
	for range testRounds {
		page, err := d.fetch.Sample(ctx, q.stream)
		if err != nil {
			return fmt.Errorf("%s: %w", q.stream.Name, err)
		}
		like, err := records.NewRecordForm(page.Records, q.stream.Key[0], q.stream.Volatile)
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
				q.likeness, q.unlike, q.control = like, "", key
				return nil
			}
			q.unlike = q.detail.Name + " does not return a record as the list does"
		}
	}
	return nil
}

// An endpoint for single records is tested with testRecords records of the list, in up to testRounds rounds, because
// records may change between the requests.
const (
	testRecords = 3
	testRounds  = 2
)

// endpointWide reports whether an error may affect other records too. If a key cannot be part of a request, the error
// affects only that record.
func endpointWide(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	if ok && e.Class == wire.Refused && e.Attempts == 0 {
		return false
	}
	return ok && e.Class != wire.Malformed && e.Class != wire.Invalid ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// oneByOne reports whether to request the waiting records one by one. The list is read instead if more than listAbove
// records wait, and if these are more than a fiftieth of the list.
func (d *Deltas) oneByOne(ctx context.Context, q *queue) (bool, error) {
	if !q.canRequest || len(q.lacking(d.awake())) > max(d.pace.listAbove, int(q.longest/50)) {
		return false, nil
	}
	if d.now().Sub(q.tested) < d.pace.trust {
		return q.likeness != nil, nil
	}
	if err := d.test(ctx, q); err != nil {
		return false, err
	}
	q.tested = d.now()
	return q.likeness != nil, nil
}
