package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Deliveries is where webhook events wait, in the order in which they came;
// Each [state.Inbox] is one.
type Deliveries interface {
	// Events are up to limit events of a source behind an ordinal.
	Events(ctx context.Context, source string, after int64, limit int) ([]state.Event, error)
}

// Inbox reads the webhook events of one source as what they are to its streams:
// hints that a record may have changed. What an event says of the record is kept
// beside the hint, and is never taken for the record. It is safe for concurrent
// use.
type Inbox struct {
	waiting Deliveries
	source  string
	known   *schemas.Events
	read    map[string]bool // streams
}

// NewInbox makes the inbox of one source, whose streams are read.
func NewInbox(waiting Deliveries, source string, known *schemas.Events, streams []schemas.Stream) *Inbox {
	i := &Inbox{waiting: waiting, source: source, known: known, read: map[string]bool{}}
	for _, s := range streams {
		i.read[s.Name] = true
	}
	return i
}

// Source is the name of the source.
func (i *Inbox) Source() string { return i.source }

// Announces reports whether there are events about a stream, and it is read.
func (i *Inbox) Announces(stream string) bool { return i.read[stream] && i.known.Announces(stream) }

// Hint says that a record may have changed.
type Hint struct {
	Stream string
	Key    string // of the record, a JSON scalar; "" where any of the stream's may have
	Gone   bool   // the event says that the record is gone
	Data   []byte // what it says of the record, a JSON object; nil for nothing
}

// Delivery is one event and what follows from it.
type Delivery struct {
	state.Event
	Hints    []Hint
	Unmapped bool // no stream is known for its type, or none that is read
	Unparsed bool // its body is no event object
}

// After are up to limit events behind an ordinal.
func (i *Inbox) After(ctx context.Context, after int64, limit int) ([]Delivery, error) {
	events, err := i.waiting.Events(ctx, i.source, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]Delivery, len(events))
	for n, e := range events {
		out[n] = i.Read(e)
	}
	return out, nil
}

// Read says what follows from an event.
func (i *Inbox) Read(e state.Event) Delivery {
	d := Delivery{Event: e}
	data, ok := dataOf(e.Body)
	if d.Unparsed = !ok; d.Unparsed {
		d.Unmapped = true
		return d
	}
	of := slices.DeleteFunc(slices.Clone(i.known.Of(e.Type)), func(s schemas.EventStream) bool { return !i.read[s.Name] })
	if len(of) == 0 {
		d.Unmapped = true
		return d
	}
	gone := i.known.Gone(e.Type)
	for _, s := range of {
		key, object := subject(data, s.Word, s.Fits)
		if key == "" && len(of) == 1 {
			key, object = subject(data, s.Word, func(string) bool { return true })
		}
		if key != "" {
			d.Hints = append(d.Hints, Hint{Stream: s.Name, Key: key, Gone: gone, Data: object})
		}
	}
	if d.Hints == nil { // it is about one of them, and nobody can tell about which record
		for _, s := range of {
			d.Hints = append(d.Hints, Hint{Stream: s.Name})
		}
	}
	return d
}

// dataOf is the member data of an event; nil where it has none. It is false for
// what is no object.
func dataOf(body []byte) ([]byte, bool) {
	if !json.Valid(body) {
		return nil, false
	}
	ms, err := attributes(body)
	if err != nil {
		return nil, false
	}
	for _, m := range ms {
		if m.name == "data" {
			return m.value, true
		}
	}
	return nil, true
}

// subject is the key of the record that an event is about, one that fits, and what
// it says of it: data is the record, or holds it as object, or under the type's
// word, or under any other name if it holds nothing else. Where data names a
// record beside its own id, as lead_id, it is about a part of that record.
func subject(data []byte, word string, fits func(key string) bool) (key string, object []byte) {
	ms, err := attributes(data)
	if err != nil {
		return "", nil
	}
	last := word[strings.LastIndexByte(word, '.')+1:]
	if key := keyAmong(ms, last+"_id"); key != "" && fits(key) {
		return key, nil
	}
	if key := keyAmong(ms, "id"); key != "" && fits(key) {
		return key, data
	}
	for _, m := range ms {
		if m.name != "object" && m.name != last && len(ms) > 1 || !bytes.HasPrefix(m.value, []byte("{")) {
			continue
		}
		if key := KeyOf(m.value, "id"); key != "" && fits(key) {
			return key, m.value
		}
	}
	return "", nil
}
