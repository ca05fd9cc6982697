package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// EventQueue is a queue of webhook events in the order of their arrival. [state.Inbox] implements it.
type EventQueue interface {
	// Events returns the events of a source that follow the event with the given ordinal, at most limit of them.
	Events(ctx context.Context, source string, after int64, limit int) ([]state.Event, error)
}

// Inbox reads the webhook events of one source. Each event is a hint that a record may have changed. [Hint].Data
// holds what the event says about the record. An Inbox is safe for concurrent use.
type Inbox struct {
	waiting EventQueue
	source  string
	known   *schemas.Events
	read    map[string]bool
}

// NewInbox returns the inbox of one source, for the streams that are read.
func NewInbox(waiting EventQueue, source string, known *schemas.Events, streams []schemas.Stream) *Inbox {
	i := &Inbox{waiting: waiting, source: source, known: known, read: map[string]bool{}}
	for _, s := range streams {
		i.read[s.Name] = true
	}
	return i
}

// Source returns the name of the source.
func (i *Inbox) Source() string { return i.source }

// HasEvents reports whether the stream is read and has webhook events.
func (i *Inbox) HasEvents(stream string) bool { return i.read[stream] && i.known.HasEvents(stream) }

// Hint says that a record may have changed.
type Hint struct {
	Stream string
	Key    string // key of the record, a JSON scalar; "" if unknown: any record of the stream may have changed
	Gone   bool   // the event says that the record was deleted
	Data   []byte // the record in the event, a JSON object; nil if the event contains no record
}

// Delivery is one event with its hints.
type Delivery struct {
	state.Event
	Hints    []Hint
	Unmapped bool // no stream that is read has events of this type; also true if Unparsed is true
	Unparsed bool // the body is not a JSON object
}

// After returns the events that follow the event with the given ordinal, at most limit of them.
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
	if d.Hints == nil { // it is unknown which record changed
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
	ms, err := jsondoc.SplitObject(body)
	if err != nil {
		return nil, false
	}
	for _, m := range ms {
		if m.Name == "data" {
			return m.Value, true
		}
	}
	return nil, true
}

// subject returns the key of the record that an event is about, and the record that the event contains. The argument
// `word` is the event type, or the beginning of the type.
//
// The record is the whole data, or one member of the data. That is the only member, a member with the name "object", or
// a member whose name is the last part of the event type. If data has a member like lead_id, the event is about a part
// of that lead, and subject returns no record.
func subject(data []byte, word string, fits func(key string) bool) (key string, object []byte) {
	ms, err := jsondoc.SplitObject(data)
	if err != nil {
		return "", nil
	}
	last := word[strings.LastIndexByte(word, '.')+1:]
	if key := records.KeyAmong(ms, last+"_id"); key != "" && fits(key) {
		return key, nil
	}
	if key := records.KeyAmong(ms, "id"); key != "" && fits(key) {
		return key, data
	}
	for _, m := range ms {
		if m.Name != "object" && m.Name != last && len(ms) > 1 || !bytes.HasPrefix(m.Value, []byte("{")) {
			continue
		}
		if key := records.KeyOf(m.Value, "id"); key != "" && fits(key) {
			return key, m.Value
		}
	}
	return "", nil
}
