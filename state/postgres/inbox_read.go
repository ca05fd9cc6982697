package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// Limits of one call of Events: the bytes of bodies and headers, and the events per query. // Invariant 6
const (
	eventsBytes = 16 << 20
	eventsPage  = 64
)

const readEvents = `SELECT ordinal, name, id, type, received, scheme, header, body, conflict, coalesce(reason, '')
	FROM events JOIN inbox_sources USING (source) `

// Events implements [state.EventReader]: see [state.InboxFile.Events].
func (b *inbox) Events(ctx context.Context, source string, after int64, limit int) ([]state.Event, error) {
	letters, err := b.pages(ctx, "name = $1 AND ordinal > $2", source, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	events := make([]state.Event, len(letters))
	for i, l := range letters {
		events[i] = l.Event
	}
	return events, nil
}

// DeadLetters implements [state.EventReader].
func (b *inbox) DeadLetters(ctx context.Context, source string, after int64, limit int) ([]state.DeadLetter, error) {
	letters, err := b.pages(ctx, "name = $1 AND ordinal > $2 AND reason IS NOT NULL", source, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return letters, nil
}

func (b *inbox) pages(ctx context.Context, where, source string, after int64, limit int) (all []state.DeadLetter, err error) {
	size := 0
	for len(all) < limit && size < eventsBytes {
		n := min(eventsPage, limit-len(all))
		letters, err := b.letters(ctx, readEvents+"WHERE "+where+" ORDER BY ordinal LIMIT $3", []byte(source), after, n)
		if err != nil {
			return nil, err
		}
		for _, l := range letters {
			if size >= eventsBytes {
				return all, nil
			}
			size += len(l.Body) + sizeOf(l.Header)
			all, after = append(all, l), l.Ordinal
		}
		if len(letters) < n {
			break
		}
	}
	return all, nil
}

func sizeOf(header map[string]string) (n int) {
	for name, value := range header {
		n += len(name) + len(value)
	}
	return n
}

// Event implements [state.EventReader].
func (b *inbox) Event(ctx context.Context, ordinal int64) (state.DeadLetter, error) {
	letters, err := b.letters(ctx, readEvents+"WHERE ordinal = $1", ordinal)
	if err == nil && len(letters) == 0 {
		err = state.ErrNoEvent
	}
	if err != nil {
		return state.DeadLetter{}, fmt.Errorf("read event %d: %w", ordinal, err)
	}
	return letters[0], nil
}

func (b *inbox) letters(ctx context.Context, query string, args ...any) (letters []state.DeadLetter, err error) {
	err = b.s.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		letters, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l state.DeadLetter, err error) {
			var source, id, kind, scheme, header []byte
			if err := row.Scan(&l.Ordinal, &source, &id, &kind, &l.Received, &scheme, &header, &l.Body, &l.Conflict, &l.Reason); err != nil {
				return l, err
			}
			l.Source, l.ID, l.Type, l.Scheme, l.Received = string(source), string(id), string(kind), string(scheme), l.Received.UTC()
			return l, json.Unmarshal(header, &l.Header)
		})
		return err
	})
	return letters, err
}

// Backlogs implements [state.EventReader].
func (b *inbox) Backlogs(ctx context.Context) (all []state.SourceBacklog, err error) {
	err = b.s.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, `SELECT name, head, trimmed, bytes,
				(SELECT count(*) FROM events WHERE source = s.source AND reason IS NOT NULL),
				(SELECT received FROM events WHERE source = s.source AND reason IS NULL ORDER BY ordinal LIMIT 1)
			FROM inbox_sources s ORDER BY name`)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (st state.SourceBacklog, err error) {
			var name []byte
			var oldest *time.Time
			err = row.Scan(&name, &st.Head, &st.Trimmed, &st.Bytes, &st.DeadLetters, &oldest)
			st.Source, st.Oldest = string(name), timeOf(oldest)
			return st, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read backlogs: %w", err)
	}
	return all, nil
}

func ping(ctx context.Context) func(querier) error {
	return func(q querier) error {
		var one int
		return q.QueryRow(ctx, "SELECT 1").Scan(&one)
	}
}
