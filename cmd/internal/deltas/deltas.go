// Package deltas applies webhook events to the tables of a pipeline. It requests the records that the events name, and
// commits the records together with the position in the inbox. If a pass over the stream is running, deltas commit
// between two commits of the pass: see package overlay.
package deltas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/retry"
)

// Refetcher is implemented by sources that can request a single record and the first page of a list, such as
// *extract.Client. With other sources, an event causes its whole stream to be read again.
type Refetcher interface {
	pipeline.RecordSource

	// Sample requests the first page of a list. This request is not a pass.
	Sample(ctx context.Context, s schemas.Stream) (extract.Page, error)
}

// Deltas applies the webhook events of a source to the tables of a pipeline.
//
// An event is a hint that a record may have changed. Once a stream has had no events for a short time, Deltas requests
// the records that its events name, each by its own address. It commits the answers together with the ordinal of the
// last event. A record that no longer exists gets a tombstone. In two cases the stream must be read again instead (see
// [Report].Refresh): its records have no addresses, or their addresses return other content than the list.
//
// The field Locks of the Config must have the locks that the pipeline's runs in this process use. Only one goroutine at
// a time may use a Deltas. A changed configuration needs a new Deltas.
type Deltas struct {
	conf   pipeline.Config
	mu     sync.Mutex // guards fields that operations of several destinations change at the same time
	inbox  *extract.Inbox
	pace   applyRate
	fetch  Refetcher
	queues map[string]*queue
	names  []string

	settles time.Time // when to read the stored conventions again
	read    int64
	left    *leftBehind // events dropped from memory; nil for none
	upTo    int64       // the last event that was read before catchUp set d.read back
	rep     Report
	looked  map[string]bool
	ledgers map[string]int64
	kept    time.Time
	resting map[string]*rest
	aside   func(ctx context.Context, ordinal int64, reason string) error
	now     func() time.Time
	made    time.Time // when this Deltas was created; the values in older events are not used, because another process may have read newer values
}

// Config configures a Deltas.
type Config struct {
	pipeline.Config
	Inbox *extract.Inbox

	// Quarantine is called for the last event of each record that was given up after three tries. It may be nil.
	Quarantine func(ctx context.Context, ordinal int64, reason string) error
}

// New returns a Deltas. It sends no requests yet.
func New(c Config) (*Deltas, error) {
	if c.Inbox == nil {
		return nil, errors.New("apply events: no inbox")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	d := &Deltas{conf: c.Config, inbox: c.Inbox, pace: defaultPace, queues: map[string]*queue{},
		looked: map[string]bool{}, ledgers: map[string]int64{}, resting: map[string]*rest{}, aside: c.Quarantine, now: c.Now, made: c.Now()}
	if d.aside == nil {
		d.aside = func(context.Context, int64, string) error { return nil }
	}
	d.fetch, _ = c.Source.(Refetcher)
	for _, s := range c.Streams {
		if c.Inbox.HasEvents(s.Name) {
			d.conf.Locks.Watch(s.Name)
		}
	}
	return d, nil
}

// Report is the result of one Apply, and what remains to be done.
type Report struct {
	Events    int   // events stored in the first destination's table of events
	Applied   int   // records that were committed or deleted, or left to a new reading of the stream
	Refetches int   // requests for single records
	Written   int64 // new or changed rows in the first destination
	Deleted   int64 // deleted rows in the first destination
	Unmapped  int   // events that concern no stream of the pipeline
	Conflicts int   // events with the id of another event, but a different body
	Dead      int   // records that were given up

	Lags []time.Duration // for each record that every destination now has: time since its first event was received

	Waiting    int           // waiting records, plus streams in which any record may have changed
	Oldest     time.Time     // when the oldest waiting event was received; zero if none waits
	Through    int64         // every event up to this ordinal is applied durably in every destination
	Refresh    []string      // streams that a normal run should read now; a parent comes before its child streams
	ApplyAfter time.Duration // call Apply after this time even if no event arrives; 0: only when an event arrives
	Trouble    error         // why some events could not be applied yet; none of them is lost
}

func (d *Deltas) trouble(err error) { d.rep.Trouble = errors.Join(d.rep.Trouble, err) }

// rest is the pause of a destination after failures.
type rest struct {
	until time.Time
	fails int
}

const maxRest = 5 * time.Minute

func (d *Deltas) restFor(fails int) time.Duration {
	return retry.Policy{First: d.pace.rest, Longest: maxRest}.Wait(fails + 1)
}

// awake() returns the destinations that are not paused after a failure.
func (d *Deltas) awake() []pipeline.Destination {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	return slices.DeleteFunc(slices.Clone(d.conf.Destinations), func(dest pipeline.Destination) bool {
		r := d.resting[dest.Name]
		return r != nil && now.Before(r.until)
	})
}

// met() notes whether an operation of a destination has failed. After a failure, the destination is paused.
func (d *Deltas) met(dest string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r := d.resting[dest]; {
	case err == nil:
		delete(d.resting, dest)
	case errors.Is(err, state.ErrMoved): // another process has committed; the operation is tried again at once
	case r == nil:
		d.resting[dest] = &rest{until: d.now().Add(d.restFor(0)), fails: 1}
	default:
		r.until, r.fails = d.now().Add(d.restFor(r.fails)), r.fails+1
	}
}

// fail pauses a stream. After maxRecordTries errors in a row, fail requires a reading of the whole stream. Otherwise
// its events would wait forever if the endpoint for single records no longer exists. // Invariant 15
func (d *Deltas) fail(q *queue) {
	q.fails++
	q.pause = d.now().Add(d.restFor(q.fails))
	if q.fails >= maxRecordTries {
		q.giveUp()
	}
}

// errNoAnswer cancels an operation of a destination that takes too long.
var errNoAnswer = errors.New("too slow: the other destinations did not wait")

// errIdle means that there was nothing to do, so the destination's health is still unknown.
var errIdle = errors.New("nothing to do")

// each() calls do() at the same time for all destinations that are not paused.
func (d *Deltas) each(ctx context.Context, do func(ctx context.Context, dest pipeline.Destination) error) error {
	dests := d.awake()
	errs := make([]error, len(dests))
	var all sync.WaitGroup
	for i, dest := range dests {
		all.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, d.pace.patience, errNoAnswer)
			defer cancel()
			err := pipeline.Guard(dest.Name, func() error { return do(ctx, dest) })
			if errors.Is(err, errIdle) {
				return
			}
			d.met(dest.Name, err)
			if err != nil {
				errs[i] = fmt.Errorf("destination %s: %w", dest.Name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (d *Deltas) again(rep *Report, in time.Duration) {
	if in = max(in, minAgain); rep.ApplyAfter == 0 || in < rep.ApplyAfter {
		rep.ApplyAfter = in
	}
}

// leftBehind describes events that were dropped from memory because only failing destinations lack them. The events
// stay in the inbox. Deltas reads them again when it tries those destinations again. // Invariants 3, 6
type leftBehind struct {
	after int64           // the first dropped event has the ordinal after + 1
	lack  map[string]bool // destinations that lack some of the events; nothing is committed to them until the events are read again
}

// minAgain is the minimum of Report.ApplyAfter. It limits how often Apply is called while events wait, for example for
// the end of a pass.
const minAgain = 100 * time.Millisecond
