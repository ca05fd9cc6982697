package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/state"
)

// applied is how far a stream's webhook events are applied in one destination. It
// stands inside the stream's cursor, so that rows and ordinal are one commit. The
// place of the polls is none of its business. // Invariants 2, 3
type applied struct {
	Through int64     `json:"through"`        // each event up to here is applied, among Open, or left to Refresh
	At      time.Time `json:"at"`             // when that was: none of these came later
	Open    []open    `json:"open,omitempty"` // records that have to be asked for again

	// Refresh is the last event that waits for a reading of the whole stream to
	// begin after it; 0 for none.
	Refresh int64 `json:"refresh,omitempty"`

	Run   string `json:"run,omitempty"`   // stamp of the rows written last
	Fresh int64  `json:"fresh,omitempty"` // rows written since the last pass has ended
	Dead  int64  `json:"dead,omitempty"`  // records that were given up

	// Of the changes since events began to come: those that events have brought,
	// and those that no event had announced when a pass found them.
	Announced int64 `json:"announced,omitempty"`
	Found     int64 `json:"found,omitempty"`

	recounted bool // Through is less than what is stored: see recount
}

// open is a record that has to be asked for again, though its event is behind.
type open struct {
	Key   string `json:"key"` // a JSON scalar
	At    int64  `json:"at"`  // its last event
	Tries int    `json:"tries"`
	Gone  bool   `json:"gone,omitempty"` // the event says so
}

// applied is what p says of events; the zero value where none has come.
func (p position) applied() (a applied, err error) {
	if p.events == "" {
		return a, nil
	}
	if err := json.Unmarshal([]byte(p.events), &a); err != nil {
		return a, fmt.Errorf("read events %q: %w", p.events, err)
	}
	return a, nil
}

// knows reports whether an event was applied, or is taken care of. One that came
// after the last commit was not, whatever its ordinal says: it is that of another
// inbox, which was put in the place of one that was lost.
func (a applied) knows(ordinal int64, received time.Time) bool {
	return ordinal <= a.Through && !received.After(a.At)
}

// withEvents is p with what a says.
func (p position) withEvents(a applied) position {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // numbers and texts
	}
	p.events = string(text)
	return p
}

// passed is the state of events when a pass has ended, of which begun is the
// state when it began. A reading of everything that began after an event has seen
// what it announced, and what the pass has changed no event had announced by then.
func (a applied) passed(begun applied, all, first bool, c Counts) applied {
	if all && a.Refresh <= begun.Refresh {
		a.Refresh = 0
	}
	if !first && begun.Refresh == 0 {
		a.Found += c.Written + c.Deleted
	}
	a.Announced += a.Fresh
	a.Fresh = 0
	return a
}

// put has a record asked for again, in place of what was noted of it before.
func (a *applied) put(o open) {
	a.drop(o.Key)
	a.Open = append(a.Open, o)
}

func (a *applied) drop(key string) {
	a.Open = slices.DeleteFunc(a.Open, func(o open) bool { return o.Key == key })
}

// Webhooks is what a stream's cursor tells of its events, for people to see.
type Webhooks struct {
	Through   int64 `json:"through"`             // ordinal up to which events are applied
	Open      int   `json:"open,omitempty"`      // records that will be asked for again
	Refresh   bool  `json:"refresh,omitempty"`   // a reading of the whole stream is owed
	Dead      int64 `json:"dead,omitempty"`      // records that were given up: see _penstock_rejects
	Announced int64 `json:"announced,omitempty"` // changes that events have brought
	Found     int64 `json:"found,omitempty"`     // changes that polls found and no event had announced
}

// WebhooksOf reads a stream's cursor. It is false where no event has come yet.
func WebhooksOf(c state.Cursor) (Webhooks, bool) {
	p, err := decodePosition(c)
	if err != nil || p.events == "" {
		return Webhooks{}, false
	}
	var a applied
	if json.Unmarshal([]byte(p.events), &a) != nil {
		return Webhooks{}, false
	}
	return a.webhooks(), true
}

func (a applied) webhooks() Webhooks {
	return Webhooks{Through: a.Through, Open: len(a.Open), Refresh: a.Refresh > 0, Dead: a.Dead, Announced: a.Announced + a.Fresh, Found: a.Found}
}

// Coverage is the share of the changes that events have brought, from 0 to 1. It
// is false where nothing has changed yet.
func (w Webhooks) Coverage() (share float64, ok bool) {
	all := w.Announced + w.Found
	if all == 0 {
		return 0, false
	}
	return float64(w.Announced) / float64(all), true
}

// all reports whether a pass that ends with g has read whatever the stream has:
// one that an earlier process began, that spared parents, that asked for what has
// changed, or that the list's own total contradicts may lack what an event was
// about.
func (k *destinationRun) all(p *pass, g *group) bool {
	return !k.resumed && !k.refuted && !g.end.Partial && g.end.Skipped == 0 &&
		(g.end.Rule != extract.RuleWindows || p.from == "")
}

// owes reports whether a reading of everything is owed, because of events.
func (k *destinationRun) owes() bool {
	a, err := k.main.applied()
	return err == nil && a.Refresh > 0
}

// announced is pos, at the end of a pass of k, with what that means for events.
func (k *destinationRun) announced(pos position, all bool) position {
	begun, err := position{events: k.begun}.applied()
	if err != nil || pos.events == "" {
		return pos
	}
	now, err := pos.applied()
	if err != nil {
		return pos
	}
	return pos.withEvents(now.passed(begun, all, k.over == "", k.counts))
}
