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

// EventQueue is a queue of webhook events in the order of their arrival. [state.Inbox] implements
// it.
type EventQueue interface {
	// Events returns up to limit events of a source after an ordinal.
	Events(ctx context.Context, source string, after int64, limit int) ([]state.Event, error)
}

// Inbox reads the webhook events of one source as hints that records may have changed. It does not
// interpret what an event says about a record, but passes it on as [Hint].Data. An Inbox is safe
// for concurrent use.
type Inbox struct {
	waiting EventQueue
	source  string
	known   *schemas.Events
	read    map[string]bool
}

// NewInbox returns the inbox of one source. The argument streams holds the streams that are read.
func NewInbox(waiting EventQueue, source string, known *schemas.Events, streams []schemas.Stream) *Inbox {
	i := &Inbox{waiting: waiting, source: source, known: known, read: map[string]bool{}}
	for _, s := range streams {
		i.read[s.Name] = true
	}
	return i
}

// Source returns the name of the source.
func (i *Inbox) Source() string { return i.source }

// HasEvents reports whether a stream is read and has webhook events.
func (i *Inbox) HasEvents(stream string) bool { return i.read[stream] && i.known.HasEvents(stream) }

// Hint says that a record may have changed.
type Hint struct {
	Stream string
	Key    string // of the record, a JSON scalar; "" if any record of the stream may have changed
	Gone   bool   // the event says that the record was deleted
	Data   []byte // what the event says about the record, a JSON object; nil for nothing
}

// Delivery is one event with its hints.
type Delivery struct {
	state.Event
	Hints    []Hint
	Unmapped bool // the event type is about no stream that is read; also set if Unparsed is
	Unparsed bool // the body is not an event object
}

// After returns up to limit events after an ordinal.
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

// Read returns the hints of an event.
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
	if d.Hints == nil { // the event is about one of these streams, but the record is unknown
		for _, s := range of {
			d.Hints = append(d.Hints, Hint{Stream: s.Name})
		}
	}
	return d
}

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

// subject returns the key of the record that an event is about, and what the event says about it. word is the event
// type, or its beginning. The record is data itself, or a member of data that is named "object" or like the last part
// of word, or the only member. A member such as lead_id says that the event is about a part of that lead: then object
// is nil.
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
