package deltas

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// eventStream is the stream name under which events are committed. Its cursor belongs to the source, not to the
// pipeline, so the table contains each event once, even if several pipelines read the source.
const eventStream = "_events"

const eventChunks = 40

// keep() writes new events to the tables of events. It does not write at every call: while a database file is written,
// its readers have to wait. Invariant 7
func (d *Deltas) keep(ctx context.Context) {
	for _, dest := range d.conf.Destinations {
		if _, begun := d.ledgers[dest.Name]; !begun {
			d.ledgers[dest.Name] = 0
		}
	}
	now := d.now()
	if since := now.Sub(d.kept); since >= 0 && since < d.pace.quiet {
		return // the duration `since` is negative if the clock was set back
	}
	d.kept = now
	counts := map[string]int{}
	err := d.each(ctx, func(ctx context.Context, dest pipeline.Destination) error {
		d.mu.Lock()
		through := d.ledgers[dest.Name]
		d.mu.Unlock()
		if through >= d.read {
			return errIdle
		}
		for range eventChunks {
			n, more, err := d.keepSome(ctx, dest)
			d.mu.Lock()
			counts[dest.Name] += n
			d.mu.Unlock()
			if err != nil || !more {
				return err
			}
		}
		return nil
	})
	d.rep.Events = counts[d.conf.Destinations[0].Name]
	d.trouble(err)
}

// keepSome commits a chunk of events. The ordinal of its last event is the cursor. // Invariants 2, 3
func (d *Deltas) keepSome(ctx context.Context, dest pipeline.Destination) (n int, more bool, err error) {
	d.mu.Lock()
	after := d.ledgers[dest.Name]
	d.mu.Unlock()
	if after >= d.read {
		return 0, false, nil
	}
	key := state.Key{Pipeline: d.inbox.Source(), Stream: eventStream}
	stored, err := dest.Cursor(ctx, key)
	if err != nil {
		return 0, false, err
	}
	pos, err := cursor.Decode(stored)
	if err != nil {
		return 0, false, err
	}
	a, err := pos.Applied()
	if err != nil {
		return 0, false, err
	}
	events, err := d.inbox.After(ctx, after, d.pace.chunk)
	if err != nil || len(events) == 0 {
		return 0, false, err
	}
	last := events[len(events)-1]
	events = slices.DeleteFunc(events, func(e extract.Delivery) bool { return a.Knows(e.Ordinal, e.Received) })
	if len(events) > 0 {
		stamp := runid.New(d.conf.Now())
		a.Through, a.At, a.Run, pos.TouchedBy = last.Ordinal, d.now().UTC(), stamp, stamp
		if err := d.commitEvents(ctx, dest, key, stored, pos.WithApplied(a), events); err != nil {
			return 0, false, err
		}
	}
	d.mu.Lock()
	d.ledgers[dest.Name] = last.Ordinal
	d.mu.Unlock()
	return len(events), true, nil
}

func (d *Deltas) commitEvents(ctx context.Context, dest pipeline.Destination, key state.Key, stored state.Cursor, next cursor.Position, events []extract.Delivery) error {
	rows := make([][]any, len(events))
	for i, e := range events {
		rows[i] = eventRow(e)
	}
	return load.CommitRows(ctx, dest, key, stored, next.Encode(), load.Pass{Run: next.TouchedBy, Whole: true, Now: d.conf.Now}, load.Events, rows...)
}

func eventRow(e extract.Delivery) []any {
	what, streams := "mapped", []string{}
	for _, h := range e.Hints {
		streams = append(streams, h.Stream)
	}
	switch {
	case e.Unparsed:
		what = "unparsed"
	case e.Unmapped:
		what = "unmapped"
	case e.Conflict:
		what = "conflict"
	}
	list, _ := json.Marshal(slices.Compact(streams)) // texts always marshal
	body, encoding := bodyText(e.Body)
	return []any{e.Source, e.Ordinal, wellFormed(e.ID), wellFormed(e.Type), e.Received, e.Scheme, what, string(list), body, encoding}
}

// bodyText encodes a body that is not plain text as base64, because every destination can store base64. // Invariant 11
func bodyText(body []byte) (text string, encoding any) {
	if utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 {
		return string(body), nil
	}
	return base64.StdEncoding.EncodeToString(body), "base64"
}

// wellFormed replaces bytes that are not UTF-8. Nothing is lost, because the stored body has the original text.
func wellFormed(text string) any {
	if text == "" {
		return nil
	}
	return string(bytes.ReplaceAll(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD")), []byte{0}, []byte("\uFFFD")))
}
