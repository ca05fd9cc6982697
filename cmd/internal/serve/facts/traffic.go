package facts

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
)

const minutes = 60

// deliveries counts the deliveries of each source. It is safe for concurrent use.
type deliveries struct {
	mu       sync.Mutex
	bySource map[string]*traffic
}

type traffic struct {
	last     time.Time
	received int64
	refused  map[string]int64 // how many deliveries were refused, by verdict; the set of verdicts is small
	perMin   [minutes]int64
	minute   int64
}

func (d *deliveries) add(n serve.WebhookSeen, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.bySource[n.Source]
	if t == nil {
		t = &traffic{refused: map[string]int64{}, minute: now.Unix() / 60}
		d.bySource[n.Source] = t
	}
	if n.Status/100 != 2 {
		t.refused[n.Verdict]++
		return
	}
	t.move(now)
	t.last, t.received = now.UTC(), t.received+1
	t.perMin[t.minute%minutes]++
}

// count() adds the numbers of deliveries from the source to w.
func (d *deliveries) count(w *board.Webhook, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.bySource[w.Source]
	if t == nil {
		return
	}
	t.move(now)
	w.Last, w.Received = t.last, t.received
	for verdict, n := range t.refused {
		w.Refused = append(w.Refused, board.Count{Name: verdict, N: n})
	}
	slices.SortFunc(w.Refused, func(a, b board.Count) int { return int(b.N - a.N) })
	for m := t.minute + 1; m <= t.minute+minutes; m++ {
		w.PerMin = append(w.PerMin, t.perMin[m%minutes])
	}
}

func (t *traffic) move(now time.Time) {
	to := now.Unix() / 60
	for m := max(t.minute+1, to-minutes+1); m <= to; m++ {
		t.perMin[m%minutes] = 0
	}
	t.minute = max(t.minute, to)
}

const (
	shownEvents = 20
	shownBody   = 500
)

// captures is an inbox that can count captured deliveries without reading them.
type captures interface {
	Captured(ctx context.Context, source string) (n, most int, err error)
}

var _ captures = (*state.InboxFile)(nil)

// Webhooks implements board.Live.
func (f *Facts) Webhooks(ctx context.Context) ([]board.Webhook, error) {
	if f.Inbox == nil {
		return nil, nil
	}
	standings, err := f.Inbox.Backlogs(ctx)
	if err != nil {
		return nil, err
	}
	var all []board.Webhook
	for _, r := range f.Config.Webhooks() {
		w := board.Webhook{Source: r.Source, Path: "/webhooks/" + r.Source, Scheme: r.Scheme, Quota: f.Inbox.Quota()}
		f.backlog(&w)
		f.deliveries.count(&w, f.Clock())
		w.Coverage = f.coverage(ctx, r.Source)
		if counts, ok := f.Inbox.(captures); ok && r.Scheme == "learn" {
			if w.Captured, w.Room, err = counts.Captured(ctx, r.Source); err != nil {
				return nil, err
			}
		}
		if i := slices.IndexFunc(standings, func(s state.SourceBacklog) bool { return s.Source == r.Source }); i >= 0 {
			w.Bytes, w.DeadSum = standings[i].Bytes, standings[i].DeadLetters
			if err := addEvents(ctx, f.Inbox, &w, standings[i]); err != nil {
				return nil, err
			}
		}
		all = append(all, w)
	}
	return all, nil
}

func (f *Facts) backlog(w *board.Webhook) {
	for _, s := range f.daemon.Hub().Statuses() {
		if d := s.Deltas; d != nil && slices.Contains(s.Sources, w.Source) {
			w.Waiting = max(w.Waiting, int64(d.Deltas.Waiting))
			if !d.Deltas.Oldest.IsZero() {
				w.Lag = max(w.Lag, f.Clock().Sub(d.Deltas.Oldest).Seconds())
			}
		}
	}
}

// coverage returns how many changes webhooks have announced, for each stream. If several destinations store such
// counts, it returns the counts of the first destination.
func (f *Facts) coverage(ctx context.Context, source string) (all []board.Coverage) {
	snapshots := f.snapshotsOf(ctx, "")
	for _, s := range f.daemon.Hub().Statuses() {
		if !slices.Contains(s.Sources, source) {
			continue
		}
		for _, name := range s.Streams {
			for _, b := range snapshots {
				c, ok := b.announced[state.Key{Pipeline: s.Name, Stream: name}]
				if !ok {
					c = b.announced[state.Key{Pipeline: s.Name, Source: source, Stream: name}]
				}
				if c.Announced+c.Missed > 0 {
					all = append(all, c)
					break
				}
			}
		}
	}
	return all
}

// addEvents adds the last events and the last dead letters of a source.
func addEvents(ctx context.Context, in state.Inbox, w *board.Webhook, s state.SourceBacklog) error {
	events, err := in.Events(ctx, w.Source, max(s.Trimmed, s.Head-shownEvents), shownEvents)
	if err != nil {
		return err
	}
	dead, err := in.DeadLetters(ctx, w.Source, 0, shownEvents)
	if err != nil {
		return err
	}
	given := map[int64]bool{}
	for _, d := range dead {
		given[d.Ordinal] = true
		w.Dead = append(w.Dead, eventOf(d.Event, "dead", d.Reason))
	}
	for _, e := range slices.Backward(events) {
		if !given[e.Ordinal] {
			w.Recent = append(w.Recent, eventOf(e, "kept", ""))
		}
	}
	return nil
}

func eventOf(e state.Event, is, why string) board.Event {
	if e.Conflict {
		is = "conflict"
	}
	return board.Event{Ordinal: e.Ordinal, ID: e.ID, Type: e.Type, Received: e.Received, State: is, Why: why, Body: cut(string(e.Body), shownBody)}
}
