package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// WebhookFaults is what goes wrong with deliveries: for each event, how probable
// it is. The same seed and the same changes give the same faults.
type WebhookFaults struct {
	Duplicate float64 `json:"duplicate,omitempty"` // it is delivered twice or three times
	Reorder   float64 `json:"reorder,omitempty"`   // up to Window later ones overtake it
	Delay     float64 `json:"delay,omitempty"`     // it is held back for DelayFor
	Loss      float64 `json:"loss,omitempty"`      // it is never sent
	Conflict  float64 `json:"conflict,omitempty"`  // another body comes under the same id
	Unknown   float64 `json:"unknown,omitempty"`   // an event of a type that nobody knows comes too
	Forged    float64 `json:"forged,omitempty"`    // its body comes once more, under a signature that is wrong

	Window   int      `json:"window,omitempty"`    // 0 means 8
	DelayFor Duration `json:"delay_for,omitempty"` // 0 means 2s
}

// overtaken is how long an event that others should overtake waits for them.
const overtaken = time.Second

// ParseWebhookFaults reads the form of the command line:
// "duplicate=0.1,reorder=0.3,window=20".
func ParseWebhookFaults(text string) (WebhookFaults, error) {
	var f WebhookFaults
	shares := f.shares()
	for _, word := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch share, ok := shares[name]; {
		case ok:
			*share, err = strconv.ParseFloat(value, 64)
		case name == "window":
			f.Window, err = strconv.Atoi(value)
		case name == "delay_for":
			err = f.DelayFor.UnmarshalText([]byte(value))
		default:
			err = errors.New("no such fault")
		}
		if err != nil {
			return f, fmt.Errorf("parse webhook fault %q: %s: %w", text, name, err)
		}
	}
	return f, f.check()
}

func (f *WebhookFaults) shares() map[string]*float64 {
	return map[string]*float64{
		"duplicate": &f.Duplicate, "reorder": &f.Reorder, "delay": &f.Delay, "loss": &f.Loss,
		"conflict": &f.Conflict, "unknown": &f.Unknown, "forged": &f.Forged,
	}
}

// check also sets what is left out.
func (f *WebhookFaults) check() error {
	for name, share := range f.shares() {
		if !(*share >= 0 && *share <= 1) {
			return fmt.Errorf("webhook fault %s %v: want a share between 0 and 1", name, *share)
		}
	}
	if f.Window < 0 || f.DelayFor < 0 {
		return errors.New("webhook faults: window and delay_for cannot be negative")
	}
	f.Window, f.DelayFor = cmp.Or(f.Window, 8), cmp.Or(f.DelayFor, Duration(2*time.Second))
	return nil
}

// Delivery is one event on its way to one subscriber, and what came of it.
type Delivery struct {
	Webhook      int       `json:"webhook"`           // number of the subscription
	Event        string    `json:"event"`             // id
	Type         string    `json:"type"`              // of the event
	Subject      string    `json:"subject,omitempty"` // id of the record that it is about
	Kind         string    `json:"kind"`              // see the Delivered constants
	Digest       string    `json:"digest"`            // SHA-256 of the body
	Attempts     int       `json:"attempts"`
	Status       int       `json:"status,omitempty"` // last answer
	Error        string    `json:"error,omitempty"`  // why there was none
	Acknowledged bool      `json:"acknowledged"`     // it was answered 2xx: its receiver must never lose it
	Done         bool      `json:"done"`             // nothing more will be tried
	At           time.Time `json:"at,omitzero"`      // beginning of the last attempt
	Took         Duration  `json:"took,omitempty"`   // until its answer
}

// Kinds of deliveries.
const (
	DeliveredEvent     = "event"
	DeliveredDuplicate = "duplicate"
	DeliveredConflict  = "conflict"
	DeliveredUnknown   = "unknown"
	DeliveredForged    = "forged"
	DeliveredLost      = "lost" // or rather not
)

// plannedDelivery is a delivery with what it takes to make it.
type plannedDelivery struct {
	Delivery
	body  []byte
	place int       // not before so many were announced
	due   time.Time // but at this time at the latest; the zero time: by place alone
}

// plan says what one event makes for a subscriber to get, and in what order.
func (f *WebhookFaults) plan(random *rand.Rand, e event, place int, now time.Time) []*plannedDelivery {
	// Every event draws the same number of times, so that one fault's share moves
	// no other fault.
	var draw [7]float64
	for i := range draw {
		draw[i] = random.Float64()
	}
	extra, ahead := 1+random.IntN(2), 1+random.IntN(f.Window)
	strange := random.IntN(len(strangers))
	first := parcelOf(DeliveredEvent, e)
	all := []*plannedDelivery{first}
	switch {
	case draw[0] < f.Loss:
		first.Kind, first.Done = DeliveredLost, true
	case draw[1] < f.Reorder:
		first.place, first.due = place+ahead, now.Add(overtaken)
	case draw[2] < f.Delay:
		first.place, first.due = never, now.Add(time.Duration(f.DelayFor))
	}
	if draw[3] < f.Duplicate && !first.Done {
		for range extra {
			all = append(all, parcelOf(DeliveredDuplicate, e))
		}
	}
	if draw[4] < f.Conflict {
		other := e
		other.body = append([]byte(`{"conflict":true,`), e.body[1:]...)
		all = append(all, parcelOf(DeliveredConflict, other))
	}
	if draw[5] < f.Unknown {
		all = append(all, parcelOf(DeliveredUnknown, stranger(e.id+"x", strange)))
	}
	if draw[6] < f.Forged {
		all = append(all, parcelOf(DeliveredForged, e))
	}
	return all
}

// never is a place that is not reached.
const never = int(^uint(0) >> 1)

func parcelOf(kind string, e event) *plannedDelivery {
	sum := sha256.Sum256(e.body)
	return &plannedDelivery{Delivery: Delivery{Event: e.id, Type: e.kind, Subject: e.subject, Kind: kind, Digest: hex.EncodeToString(sum[:])}, body: e.body}
}

// strangers are bodies that no catalogue foresees, with %s for the id.
var strangers = []string{
	`{"id":"%s","type":"mystery.happened","data":{"id":7}}`,
	`{"id":"%s","type":"` + strings.Repeat("long.", 60) + `","data":{}}`,
	`{"id":"%s","type":42,"data":{"id":1}}`,
	`{"id":"%s","type":"../../x","data":null}`,
	`{"id":"%s","type":"contact.vanished"}`,
	`{"id":"%s"}`,
}

func stranger(id string, which int) event {
	return event{id: id, kind: "unknown", body: fmt.Appendf(nil, strangers[which], id)}
}
