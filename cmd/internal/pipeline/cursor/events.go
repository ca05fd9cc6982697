package cursor

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/state"
)

// Applied says how far a stream's webhook events are applied in one destination. It is stored inside the stream's
// cursor, so that it is committed together with the rows. // Invariants 2, 3
type Applied struct {
	// Through is the number of an event. Each event up to this number is applied, or its record is in Open, or the
	// reading that Refresh requires will find the change.
	Through int64     `json:"through"`
	At      time.Time `json:"at"` // time of the commit that set Through; no event up to Through was received later
	Open    []Record  `json:"open,omitempty"`

	// Refresh is the number of an event after which the whole stream must be read again; 0 if there is none. Only a
	// reading that begins after the event counts.
	Refresh int64 `json:"refresh,omitempty"`

	Run   string `json:"run,omitempty"`
	Fresh int64  `json:"fresh,omitempty"`
	Dead  int64  `json:"dead,omitempty"`

	// Announced counts the changes that events announced. Found counts the changes that only a pass found.
	Announced int64 `json:"announced,omitempty"`
	Found     int64 `json:"found,omitempty"`

	Recounted bool `json:"-"` // Through is less than the stored value, because the inbox was lost
}

// Record is a record that must be requested again after its event was applied.
type Record struct {
	Key   string `json:"key"` // a JSON scalar
	At    int64  `json:"at"`
	Tries int    `json:"tries"`
	Gone  bool   `json:"gone,omitempty"` // the event says that the record is gone
}

// Applied returns how far the stream's events are applied.
func (p Position) Applied() (a Applied, err error) {
	if p.Events == "" {
		return a, nil
	}
	if err := json.Unmarshal([]byte(p.Events), &a); err != nil {
		return a, fmt.Errorf("read events %q: %w", p.Events, err)
	}
	return a, nil
}

// Knows reports whether an event was seen before. An event with a low number is new if it was received after the last
// commit. Then the inbox was lost, and the event comes from a new inbox that counts from the beginning.
func (a Applied) Knows(ordinal int64, received time.Time) bool {
	return ordinal <= a.Through && !received.After(a.At)
}

// WithApplied returns the position with the given state of the webhook events.
func (p Position) WithApplied(a Applied) Position {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	p.Events = text(b)
	return p
}

// AfterPass returns the state of the webhook events after a pass. The argument `begun` is their state when the pass
// began. The other arguments describe the pass: whether it read every record, whether it was the first pass that did
// so, and how many rows it changed.
func (a Applied) AfterPass(begun Applied, all, first bool, changes int64) Applied {
	if all && a.Refresh <= begun.Refresh {
		a.Refresh = 0
	}
	if !first && begun.Refresh == 0 {
		a.Found += changes
	}
	a.Announced += a.Fresh
	a.Fresh = 0
	return a
}

// Put adds a record that must be requested again.
func (a *Applied) Put(o Record) {
	a.Drop(o.Key)
	a.Open = append(a.Open, o)
}

// Drop removes a record that need not be requested again.
func (a *Applied) Drop(key string) {
	a.Open = slices.DeleteFunc(a.Open, func(o Record) bool { return o.Key == key })
}

// Webhooks is the event state of a stream's cursor, for display.
type Webhooks struct {
	Through   int64 `json:"through"`             // number up to which events are applied
	Open      int   `json:"open,omitempty"`      // records that will be requested again
	Refresh   bool  `json:"refresh,omitempty"`   // the whole stream must be read
	Dead      int64 `json:"dead,omitempty"`      // records that were given up: see _penstock_rejects
	Announced int64 `json:"announced,omitempty"` // changes announced by events
	Found     int64 `json:"found,omitempty"`     // changes that a run found and no event announced
}

// WebhooksOf returns the event state of a stream's cursor, and false if no event was applied yet.
func WebhooksOf(c state.Cursor) (Webhooks, bool) {
	p, err := Decode(c)
	a, failed := p.Applied()
	if err != nil || failed != nil || p.Events == "" {
		return Webhooks{}, false
	}
	return a.Webhooks(), true
}

// Webhooks returns the state of the events for display.
func (a Applied) Webhooks() Webhooks {
	return Webhooks{Through: a.Through, Open: len(a.Open), Refresh: a.Refresh > 0, Dead: a.Dead, Announced: a.Announced + a.Fresh, Found: a.Found}
}

// Coverage returns the share of changes that events announced, from 0 to 1. It returns false if nothing has changed
// yet.
func (w Webhooks) Coverage() (share float64, ok bool) {
	all := w.Announced + w.Found
	if all == 0 {
		return 0, false
	}
	return float64(w.Announced) / float64(all), true
}
