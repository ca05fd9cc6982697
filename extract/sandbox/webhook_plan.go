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

// WebhookFaults are the probabilities of faults, per event. The same seed and changes give the same faults.
type WebhookFaults struct {
	Duplicate float64 `json:"duplicate,omitempty"` // the event is delivered twice or three times
	Reorder   float64 `json:"reorder,omitempty"`   // the event is delivered after up to Window later events
	Delay     float64 `json:"delay,omitempty"`     // the event is delayed by DelayFor
	Loss      float64 `json:"loss,omitempty"`      // the event is never sent
	Conflict  float64 `json:"conflict,omitempty"`  // another body with the same id is sent too
	Unknown   float64 `json:"unknown,omitempty"`   // an event of an unknown type is sent too
	Forged    float64 `json:"forged,omitempty"`    // the event's body is also sent with a wrong signature

	Window   int      `json:"window,omitempty"`    // 0 means 8
	DelayFor Duration `json:"delay_for,omitempty"` // 0 means 2s
}

const reorderWait = time.Second

// ParseWebhookFaults parses faults on the command line: "duplicate=0.1,reorder=0.3,window=20".
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

// Delivery is one event that is sent to one subscriber, with its outcome.
type Delivery struct {
	Webhook      int       `json:"webhook"`           // number of the subscription
	Event        string    `json:"event"`             // id of the event
	Type         string    `json:"type"`              // type of the event
	Subject      string    `json:"subject,omitempty"` // id of the changed record
	Kind         string    `json:"kind"`              // see the Delivered constants
	Digest       string    `json:"digest"`            // SHA-256 of the body
	Attempts     int       `json:"attempts"`
	Status       int       `json:"status,omitempty"` // status of the last answer
	Error        string    `json:"error,omitempty"`  // error of the last attempt, if there was no answer
	Acknowledged bool      `json:"acknowledged"`     // answered 2xx, so the receiver must not lose the event
	Done         bool      `json:"done"`             // there are no further attempts
	At           time.Time `json:"at,omitzero"`      // start of the last attempt
	Took         Duration  `json:"took,omitempty"`   // duration of the last attempt
}

// Kinds of deliveries.
const (
	DeliveredEvent     = "event"
	DeliveredDuplicate = "duplicate"
	DeliveredConflict  = "conflict"
	DeliveredUnknown   = "unknown"
	DeliveredForged    = "forged"
	DeliveredLost      = "lost" // never sent
)

type plannedDelivery struct {
	Delivery
	body  []byte
	place int       // send the delivery when this many events have been announced
	due   time.Time // send the delivery at this time at the latest; zero: wait for place
}

func (f *WebhookFaults) plan(random *rand.Rand, e event, place int, now time.Time) []*plannedDelivery {
	// Each event uses the same number of random values, so that the probability of one fault does not affect the other
	// faults.
	var draw [7]float64
	for i := range draw {
		draw[i] = random.Float64()
	}
	extra, ahead := 1+random.IntN(2), 1+random.IntN(f.Window)
	strange := random.IntN(len(unknownBodies))
	first := newDelivery(DeliveredEvent, e)
	all := []*plannedDelivery{first}
	switch {
	case draw[0] < f.Loss:
		first.Kind, first.Done = DeliveredLost, true
	case draw[1] < f.Reorder:
		first.place, first.due = place+ahead, now.Add(reorderWait)
	case draw[2] < f.Delay:
		first.place, first.due = never, now.Add(time.Duration(f.DelayFor))
	}
	if draw[3] < f.Duplicate && !first.Done {
		for range extra {
			all = append(all, newDelivery(DeliveredDuplicate, e))
		}
	}
	if draw[4] < f.Conflict {
		other := e
		other.body = append([]byte(`{"conflict":true,`), e.body[1:]...)
		all = append(all, newDelivery(DeliveredConflict, other))
	}
	if draw[5] < f.Unknown {
		all = append(all, newDelivery(DeliveredUnknown, unknownEvent(e.id+"x", strange)))
	}
	if draw[6] < f.Forged {
		all = append(all, newDelivery(DeliveredForged, e))
	}
	return all
}

// The constant `never` is a number of events that is never reached. A delivery with this place waits for its due time.
const never = int(^uint(0) >> 1)

func newDelivery(kind string, e event) *plannedDelivery {
	sum := sha256.Sum256(e.body)
	return &plannedDelivery{Delivery: Delivery{Event: e.id, Type: e.kind, Subject: e.subject, Kind: kind, Digest: hex.EncodeToString(sum[:])}, body: e.body}
}

var unknownBodies = []string{
	`{"id":"%s","type":"mystery.happened","data":{"id":7}}`,
	`{"id":"%s","type":"` + strings.Repeat("long.", 60) + `","data":{}}`,
	`{"id":"%s","type":42,"data":{"id":1}}`,
	`{"id":"%s","type":"../../x","data":null}`,
	`{"id":"%s","type":"contact.vanished"}`,
	`{"id":"%s"}`,
}

func unknownEvent(id string, which int) event {
	return event{id: id, kind: "unknown", body: fmt.Appendf(nil, unknownBodies[which], id)}
}
