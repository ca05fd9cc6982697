package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Refetcher is implemented by sources that give one record, or the beginning of a
// list, as it is now; *extract.Client is one. Without it, an event has its whole
// stream read again.
type Refetcher interface {
	// Record asks for the record of s that values lead to, JSON scalars by the
	// name of the parameter: nil where the source says that there is none.
	Record(ctx context.Context, s schemas.Stream, values map[string][]byte) (record []byte, requests int, err error)

	// Sample is the first page of a list. It is no pass.
	Sample(ctx context.Context, s schemas.Stream) (extract.Page, error)
}

// applyRate is when events are applied, and how many at a time.
type applyRate struct {
	quiet   time.Duration // after a stream's last event, so that one request serves several
	late    time.Duration // at most, after the first that waits
	again   []time.Duration
	busy    time.Duration // while a pass over the stream is under way
	line    time.Duration // at most, for a commit of such a pass to end
	rest    time.Duration // after a failure that is not one record's; doubled each time
	refresh time.Duration // between two readings of a stream that events ask for
	trust   time.Duration // in what was found out about an endpoint

	chunk    int // events that are read, or written to the table of events, at a time
	slice    int // records of one commit
	entities int // records that wait, over all streams // Invariant 6
	storm    int // of one stream, from which its list is read instead
}

// The source may serve what it had before for some seconds after it has sent an
// event: what disagrees with the event is asked for again.
var defaultPace = applyRate{
	quiet: 2 * time.Second, late: 10 * time.Second, again: []time.Duration{3 * time.Second, 12 * time.Second},
	busy: time.Second, line: 5 * time.Second, rest: 5 * time.Second, refresh: time.Minute, trust: 15 * time.Minute,
	chunk: 5_000, slice: 200, entities: 100_000, storm: 200,
}

// maxRecordTries is how often one record is asked for because of one event, at
// most. What fails for the last time is set aside. // Invariant 15
const maxRecordTries = 3

// Deltas applies the webhook events of a source to the tables of a pipeline.
//
// An event is a hint that a record may have changed. The records that events of a
// stream name are asked for once it is quiet, by the address each has of its own,
// and what the source says then is committed in one step with the ordinal of the
// events; a record that it does not have any more gets a tombstone. Where records
// have no such address, or it does not show what the list shows, the stream has
// to be read again: see [DeltaReport].Refresh.
//
// Deltas shares its Config's Turns with the runs of the pipeline in the same
// process. It belongs to one goroutine, and lives as long as the configuration.
type Deltas struct {
	*run
	inbox  *extract.Inbox
	pace   applyRate
	fetch  Refetcher
	queues map[string]*queue
	names  []string // of queues, in the order of the streams

	settles time.Time        // when what is known of the streams is to be read again
	read    int64            // the last event that was put into queues
	left    *leftBehind      // events that were let go of; nil for none
	upTo    int64            // the last event that was read before some are read again
	rep     DeltaReport      // of the Apply under way
	looked  map[string]bool  // destinations that have said where they stand
	ledgers map[string]int64 // by destination, the last event in its table of events
	kept    time.Time        // when these were written to last
	resting map[string]*rest // destinations that have failed
	aside   func(ctx context.Context, ordinal int64, reason string) error
	now     func() time.Time // the clock
	made    time.Time        // by it; events before may be older than what an earlier process has read
}

// DeltaConfig says where a Deltas has its events from.
type DeltaConfig struct {
	Config
	Inbox *extract.Inbox

	// Quarantine is told of events that were given up, after three tries. It may
	// be nil.
	Quarantine func(ctx context.Context, ordinal int64, reason string) error
}

// NewDeltas makes a Deltas. Nothing is asked of anyone yet.
func NewDeltas(c DeltaConfig) (*Deltas, error) {
	r, err := newRun(c.Config)
	if err != nil {
		return nil, err
	}
	if c.Inbox == nil {
		return nil, errors.New("apply events: no inbox")
	}
	d := &Deltas{run: r, inbox: c.Inbox, pace: defaultPace, queues: map[string]*queue{},
		looked: map[string]bool{}, ledgers: map[string]int64{}, resting: map[string]*rest{}, aside: c.Quarantine, now: r.Now, made: r.Now()}
	if d.aside == nil {
		d.aside = func(context.Context, int64, string) error { return nil }
	}
	d.fetch, _ = r.Source.(Refetcher)
	for _, s := range r.Streams {
		if c.Inbox.Announces(s.Name) {
			d.Turns.watch(s.Name)
		}
	}
	return d, nil
}

// DeltaReport is what one Apply has come to, and what is left.
type DeltaReport struct {
	Events    int   // that were put into the table of events, in the first destination
	Applied   int   // records that were committed, deletions included, or left to a refresh
	Refetches int   // requests for single records
	Written   int64 // rows that were new or have changed, in the first destination
	Deleted   int64 // likewise
	Unmapped  int   // events of a type that no stream is for
	Conflicts int   // events with the id of another, and not its body
	Dead      int   // records that were given up

	Lags []time.Duration // of the records that every destination now has: since the first event about each was received

	Behind  int           // records that wait, and streams of which any may have changed
	Oldest  time.Time     // when the oldest event that waits was received; zero: none waits
	Through int64         // each event up to here is applied for good, in every destination
	Refresh []string      // streams that an ordinary run is to read now, each after its parents
	Again   time.Duration // Apply has something to do after so long, though nothing may come; 0: when something comes
	Trouble error         // what kept some from being applied: they wait, and nothing is lost
}

// Apply takes in the events that have come, and applies those that have come to
// rest. What cannot be applied now waits. The error is that of the inbox, or of
// ctx.
func (d *Deltas) Apply(ctx context.Context) (DeltaReport, error) {
	d.rep = DeltaReport{}
	d.begin(ctx)
	if err := d.receive(ctx); err != nil {
		return d.rep, err
	}
	d.keep(ctx)
	for _, name := range d.names {
		q := d.queues[name]
		if ctx.Err() != nil {
			break
		}
		if err := guard(name, func() error { return d.serve(ctx, q) }); err != nil {
			d.fail(q)
			d.trouble(err)
		}
	}
	d.report(&d.rep)
	if ctx.Err() != nil {
		return d.rep, context.Cause(ctx)
	}
	return d.rep, nil
}

func (d *Deltas) trouble(err error) { d.rep.Trouble = errors.Join(d.rep.Trouble, err) }

// begin learns, the first time and now and then, what is known of the streams, and
// from each destination, once it can say, how far it is.
func (d *Deltas) begin(ctx context.Context) {
	if now := d.now(); d.settles.Before(now) {
		d.settles = now.Add(d.pace.trust)
		d.adopt(ctx)
	}
	d.lookAgain(ctx)
	d.trouble(d.each(ctx, func(ctx context.Context, dest Destination) error {
		d.mu.Lock()
		looked := d.looked[dest.Name]
		d.mu.Unlock()
		if looked {
			return errIdle
		}
		for _, name := range d.names {
			if err := d.look(ctx, d.queues[name], dest); err != nil {
				return err
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.looked[dest.Name] = true
		return nil
	}))
}

// adopt makes the queues of the streams as they are read.
func (d *Deltas) adopt(ctx context.Context) {
	clear(d.down) // what did not answer the last time may do so now
	d.settle(ctx)
	for _, s := range d.Streams {
		q := d.queues[s.Name]
		if !d.inbox.Announces(s.Name) {
			continue
		}
		if q == nil {
			q = newQueue()
			d.queues[s.Name] = q
			d.names = append(d.names, s.Name)
		}
		q.stream, q.turn = s, d.Turns.watch(s.Name)
		q.detail, q.able = detailOf(s, d.Catalogue)
		q.able = q.able && d.fetch != nil && len(s.Key) > 0 && s.Parent == ""
		q.beside = d.besideOf(q)
	}
}

// look reads how far a stream's events are applied in a destination, and takes up
// the records that are still open there.
func (d *Deltas) look(ctx context.Context, q *queue, dest Destination) error {
	p := &placed{dest: dest}
	if err := d.stands(ctx, q, p); err != nil {
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

// stands reads where a destination is with a stream.
func (d *Deltas) stands(ctx context.Context, q *queue, p *placed) (err error) {
	if p.stored, err = p.dest.Cursor(ctx, d.key(q.stream.Name)); err != nil {
		return err
	}
	if p.pos, err = decodePosition(p.stored); err != nil {
		return err
	}
	if err := d.run.stays(q.stream, p.pos); err != nil {
		return err
	}
	p.events, err = p.pos.applied()
	d.mu.Lock()
	defer d.mu.Unlock()
	q.most = max(q.most, p.pos.longest)
	return err
}

// rest is how long nothing is tried with a destination that has failed.
type rest struct {
	until time.Time
	fails int
}

// maxRest is the longest.
const maxRest = 5 * time.Minute

func (d *Deltas) restFor(fails int) time.Duration {
	return min(maxRest, d.pace.rest<<min(fails, 10))
}

// awake are the destinations to try now.
func (d *Deltas) awake() []Destination {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	return slices.DeleteFunc(slices.Clone(d.Destinations), func(dest Destination) bool {
		r := d.resting[dest.Name]
		return r != nil && now.Before(r.until)
	})
}

// met notes how a destination has fared.
func (d *Deltas) met(dest string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r := d.resting[dest]; {
	case err == nil:
		delete(d.resting, dest)
	case errors.Is(err, state.ErrMoved): // somebody else has committed; it is asked again at once
	case r == nil:
		d.resting[dest] = &rest{until: d.now().Add(d.restFor(0)), fails: 1}
	default:
		r.until, r.fails = d.now().Add(d.restFor(r.fails)), r.fails+1
	}
}

// fail has a stream wait after an error that is not one record's. The third in a
// row leaves it to a reading of the whole stream: events must not wait for ever
// for an endpoint that is gone. // Invariant 15
func (d *Deltas) fail(q *queue) {
	q.fails++
	q.pause = d.now().Add(d.restFor(q.fails))
	if q.fails >= maxRecordTries {
		q.giveUp()
	}
}

// errIdle is returned where nothing was to be done: nothing is known of the
// destination by it.
var errIdle = errors.New("nothing to do")

// each does something with every destination that is awake, all at once, and
// returns what those have met that failed.
func (d *Deltas) each(ctx context.Context, do func(ctx context.Context, dest Destination) error) error {
	dests := d.awake()
	errs := make([]error, len(dests))
	var all sync.WaitGroup
	for i, dest := range dests {
		all.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, d.limits.patience, errSlow)
			defer cancel()
			err := guard(dest.Name, func() error { return do(ctx, dest) })
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
