package signal

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/retry"
)

// Alerts sends messages about problems that need a person: when a problem begins, changes or is over. Problems that
// begin within the digest time share one message. Each target gets at most one message about a topic per quiet time. If
// a problem begins and ends while a target cannot be reached, the target gets no message about the problem.
//
// Alerts stores the current problems, and for each target the last message about each topic, so that a restart
// does not repeat messages. Observe never waits for a target. Alerts is safe for concurrent use.
type Alerts struct {
	notes  state.Notes
	kept   []byte // the content of the note when this process last read or wrote it
	log    *slog.Logger
	redact func(string) string
	count  func(k Kind, outcome string)
	send   func(url wire.Secret, text string) error // blocks; Run may return while a call is in progress

	wake chan struct{}

	mu       sync.Mutex
	routing  Routing
	active   map[topic]troubles // what is wrong at present
	targets  map[string]*target
	refusals map[string]*refusals
	unsaved  bool

	wrongTokens *refusals // wrong tokens at the daemon's routes; nil: none recently
}

// AlertOptions configure Alerts.
type AlertOptions struct {
	Notes  state.Notes         // stores the alerts as a note
	Log    *slog.Logger        // logs messages that could not be sent
	Redact func(string) string // removes secrets from messages
	Count  func(Kind, string)  // counts messages by outcome, sent or failed; may be nil

	send func(wire.Secret, string) error // replaces the delivery in tests
}

const (
	// DefaultDigest is how long an alert waits for other alerts to join its message.
	DefaultDigest = 30 * time.Second

	quiet        = 15 * time.Minute // minimum time between two messages to one target about one topic
	sendTimeout  = 30 * time.Second
	stopPatience = 800 * time.Millisecond
)

var alertRetry = retry.Policy{First: 15 * time.Second, Longest: 30 * time.Minute}

type target struct {
	url wire.Secret

	sent      map[topic]lastSent
	pending   time.Time // since when there is something to send; zero: nothing to send
	failures  int
	notBefore time.Time
	busy      bool
}

type lastSent struct {
	Signature string    `json:"signature"` // hash of the topic's troubles in the message; "" if the message said that they are over
	At        time.Time `json:"at"`
}

// OpenAlerts loads the alerts that an earlier process has stored. If it cannot parse them, it logs that and
// starts without them: a repeated message is better than a lost one.
func OpenAlerts(ctx context.Context, o AlertOptions) (*Alerts, error) {
	a := &Alerts{
		notes: o.Notes, log: o.Log, redact: o.Redact, count: o.Count, send: o.send,
		wake: make(chan struct{}, 1), active: map[topic]troubles{}, targets: map[string]*target{}, refusals: map[string]*refusals{},
	}
	if a.send == nil {
		a.send = deliver
	}
	if a.count == nil {
		a.count = func(Kind, string) {}
	}
	if err := a.load(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Run sends alerts until ctx ends. Messages that are still due at that time are sent by the next process.
func (a *Alerts) Run(ctx context.Context) {
	done := make(chan delivery)
	left := make(chan struct{})
	defer close(left)
	onWay := 0
	for {
		a.save(ctx)
		wait := a.dispatch(func(d delivery) {
			onWay++
			go func() { // send cannot be canceled: see stop
				d.err = a.send(d.url, d.text)
				select {
				case done <- d:
				case <-left:
				}
			}()
		})
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			a.stop(ctx, done, onWay)
			return
		case d := <-done:
			onWay--
			a.delivered(d)
		case <-a.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// stop waits for messages that are being sent, but at most stopPatience. A message that takes longer uses its
// connection until the process ends.
func (a *Alerts) stop(ctx context.Context, done chan delivery, onWay int) {
	defer a.save(ctx)
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	for left := onWay; left > 0; left-- {
		select {
		case d := <-done:
			a.delivered(d)
		case <-patience.C:
			return
		}
	}
}

type delivery struct {
	target     string
	url        wire.Secret
	text       string
	signatures map[topic]string
	err        error
}

const idle = time.Hour

func (a *Alerts) dispatch(send func(delivery)) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.expire(now)
	wait := idle
	for _, id := range slices.Sorted(maps.Keys(a.targets)) {
		t := a.targets[id]
		if t.busy {
			continue
		}
		topics, next := a.news(id, t, now)
		if len(topics) == 0 {
			t.pending = time.Time{}
			wait = min(wait, next)
			continue
		}
		if t.pending.IsZero() {
			t.pending = now
		}
		due := t.pending.Add(a.routing.digest())
		if t.notBefore.After(due) {
			due = t.notBefore
		}
		if d := due.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		t.busy = true
		send(a.compose(id, t, topics))
	}
	return max(wait, time.Millisecond)
}

// news returns the topics that have changed since the last message to the target, without those whose quiet time is
// not over. Its second result is the time until the first of these quiet times ends.
func (a *Alerts) news(id string, t *target, now time.Time) (all []topic, next time.Duration) {
	next = idle
	look := func(tp topic) {
		last, known := t.sent[tp]
		sig := a.active[tp].signature()
		switch {
		case sig == last.Signature || !a.routing.reaches(tp, id):
		case known && now.Sub(last.At).Abs() < quiet: // last.At may be from the clock of another machine, and later than now
			next = min(next, quiet-now.Sub(last.At).Abs())
		default:
			all = append(all, tp)
		}
	}
	for tp := range a.active {
		look(tp)
	}
	for tp := range t.sent {
		if _, also := a.active[tp]; !also {
			look(tp)
		}
	}
	slices.SortFunc(all, func(x, y topic) int {
		return cmp.Or(cmp.Compare(x.Subject, y.Subject), cmp.Compare(x.Kind, y.Kind))
	})
	return all, next
}

func (a *Alerts) compose(id string, t *target, topics []topic) delivery {
	d := delivery{target: id, url: t.url, signatures: map[topic]string{}}
	var texts []string
	for _, tp := range topics {
		d.signatures[tp] = a.active[tp].signature()
		texts = append(texts, tp.text(a.active[tp]))
	}
	d.text = "penstock\n" + a.redact(message(texts)) // Invariant 5
	return d
}

func (a *Alerts) delivered(d delivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	outcome := "sent"
	if d.err != nil {
		outcome = "failed"
	}
	for tp := range d.signatures {
		a.count(tp.Kind, outcome)
	}
	t := a.targets[d.target]
	if t == nil {
		return
	}
	t.busy, t.pending = false, time.Time{}
	now := time.Now()
	if d.err != nil {
		t.failures++
		t.pending = now
		t.notBefore = now.Add(alertRetry.Wait(t.failures))
		a.log.Warn("send alert", "target", d.target, "tries", t.failures, "again", t.notBefore.UTC().Format(time.RFC3339), "error", a.redact(clip(d.err.Error(), mostWhy)))
		return
	}
	t.failures, t.notBefore = 0, time.Time{}
	for tp, sig := range d.signatures {
		t.sent[tp] = lastSent{Signature: sig, At: now}
	}
	a.unsaved = true
}

// expire drops old drifts, without a message, and clears alerts about refusals that have stopped.
func (a *Alerts) expire(now time.Time) {
	for tp, ts := range a.active {
		if tp.Kind != Drift {
			continue
		}
		for item, t := range ts {
			if now.Sub(t.At) > driftLasts {
				delete(ts, item)
				a.unsaved = true
			}
		}
		a.settle(tp)
	}
	for _, t := range a.targets {
		maps.DeleteFunc(t.sent, func(_ topic, last lastSent) bool { return last.Signature == "" && now.Sub(last.At).Abs() >= quiet })
	}
	for source, r := range a.refusals {
		if r.over(now) {
			delete(a.refusals, source)
			a.clear(ofSource(source, Signature), "")
		}
	}
	if r := a.wrongTokens; r != nil && r.over(now) {
		a.wrongTokens = nil
		a.clear(ofDashboard, itemRun)
	}
}

// settle drops a topic that has no troubles. If the topic is about drift, settle also forgets the last messages about
// the topic. So no target gets a message that the drift is over.
func (a *Alerts) settle(tp topic) {
	if len(a.active[tp]) > 0 {
		return
	}
	delete(a.active, tp)
	if tp.Kind == Drift {
		for _, t := range a.targets {
			delete(t.sent, tp)
		}
	}
}

// raise adds a problem. The caller must hold a.mu.
func (a *Alerts) raise(tp topic, item, why string) {
	ts := a.active[tp]
	if ts == nil {
		ts = troubles{}
		a.active[tp] = ts
	}
	at, why := time.Now(), clip(neutral(a.redact(why)), mostWhy)
	if was, ok := ts[item]; ok && tp.Kind != Drift {
		if withoutDigits(was.Why) == withoutDigits(why) {
			return // the same reason as before: nothing has changed, and nothing is stored
		}
		at = was.At
	}
	ts[item] = condition{Why: why, At: at}
	a.changed()
}

// clear removes a problem. The caller must hold a.mu.
func (a *Alerts) clear(tp topic, item string) {
	if _, ok := a.active[tp][item]; !ok {
		return
	}
	delete(a.active[tp], item)
	a.settle(tp)
	a.changed()
}

func (a *Alerts) changed() {
	a.unsaved = true
	select {
	case a.wake <- struct{}{}:
	default:
	}
}
