package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const eventsBytes = 16 << 20

const readEvents = `SELECT ordinal, name, id, type, received, scheme, header, body, conflict <> 0, coalesce(reason, '')
	FROM events JOIN sources USING (source) `

// Events returns the stored events of a source after an ordinal, in order. It returns at most limit events. If these
// events have more than 16 MiB together, it returns fewer events, but at least one event if there is any. Dead letters
// are included: one reader may have given up an event, and another reader may still have to apply it. // Invariant 3
func (b *InboxFile) Events(ctx context.Context, source string, after int64, limit int) ([]Event, error) {
	letters, err := b.letters(ctx, readEvents+"WHERE name = ? AND ordinal > ? ORDER BY ordinal LIMIT ?", []byte(source), after, limit)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	events := make([]Event, len(letters))
	for i, l := range letters {
		events[i] = l.Event
	}
	return events, nil
}

// DeadLetter is an event that was quarantined.
type DeadLetter struct {
	Event
	Reason string
}

// DeadLetters returns the dead letters of a source after an ordinal, with the limits of [InboxFile.Events].
func (b *InboxFile) DeadLetters(ctx context.Context, source string, after int64, limit int) ([]DeadLetter, error) {
	letters, err := b.letters(ctx, readEvents+"WHERE name = ? AND ordinal > ? AND reason IS NOT NULL ORDER BY ordinal LIMIT ?", []byte(source), after, limit)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return letters, nil
}

// Event returns one event, with the reason if it is a dead letter. It returns [ErrNoEvent], wrapped, if the event is
// not stored.
func (b *InboxFile) Event(ctx context.Context, ordinal int64) (DeadLetter, error) {
	letters, err := b.letters(ctx, readEvents+"WHERE ordinal = ?", ordinal)
	if err == nil && len(letters) == 0 {
		err = ErrNoEvent
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("read event %d: %w", ordinal, err)
	}
	return letters[0], nil
}

var errEnough = errors.New("enough")

func (b *InboxFile) letters(ctx context.Context, query string, args ...any) (letters []DeadLetter, err error) {
	size := 0
	err = forEachQuery(ctx, b.file.read, func(scan func(...any) error) error {
		if size >= eventsBytes { // Invariant 6
			return errEnough
		}
		var l DeadLetter
		var source, id, kind, scheme, header []byte
		var micros int64
		if err := scan(&l.Ordinal, &source, &id, &kind, &micros, &scheme, &header, &l.Body, &l.Conflict, &l.Reason); err != nil {
			return err
		}
		l.Source, l.ID, l.Type, l.Scheme, l.Received = string(source), string(id), string(kind), string(scheme), time.UnixMicro(micros).UTC()
		size += len(l.Body) + len(header)
		letters = append(letters, l)
		return json.Unmarshal(header, &letters[len(letters)-1].Header)
	}, query, args...)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return letters, nil
}

// SourceBacklog describes the stored events of one source.
type SourceBacklog struct {
	Source      string
	Head        int64 // ordinal of the last event
	Trimmed     int64 // events up to this ordinal are deleted, except dead letters
	Bytes       int64 // size of the stored events, including dead letters
	DeadLetters int64
	Oldest      time.Time // when the oldest stored event arrived, not counting dead letters; zero if there is none
}

// Backlogs returns the backlog of each source that ever had an event. It reads a few rows for each source, and one
// index entry for each dead letter.
func (b *InboxFile) Backlogs(ctx context.Context) (all []SourceBacklog, err error) {
	err = forEachQuery(ctx, b.file.read, func(scan func(...any) error) error {
		var s SourceBacklog
		var name []byte
		var oldest sql.NullInt64
		if err := scan(&name, &s.Head, &s.Trimmed, &s.Bytes, &s.DeadLetters, &oldest); err != nil {
			return err
		}
		s.Source = string(name)
		if oldest.Valid {
			s.Oldest = time.UnixMicro(oldest.Int64).UTC()
		}
		all = append(all, s)
		return nil
	}, `SELECT name, head, trimmed, bytes,
			(SELECT count(*) FROM events WHERE source = s.source AND reason IS NOT NULL),
			(SELECT received FROM events WHERE source = s.source AND reason IS NULL ORDER BY ordinal LIMIT 1)
		FROM sources s ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read backlogs: %w", err)
	}
	return all, nil
}
