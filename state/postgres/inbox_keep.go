package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

const (
	// trimRows is the number of events that one transaction deletes. It is small, so that deliveries wait only
	// briefly.
	trimRows  = 500
	keepIDs   = 90
	forgetIDs = 5000
)

// Trim implements [state.EventKeeper]: see [state.InboxFile.Trim]. // Invariant 3
func (b *inbox) Trim(ctx context.Context, source string, lastOrdinal int64) error {
	for more := true; more; {
		err := b.change(ctx, b.s.change, func(tx pgx.Tx) (err error) {
			more, err = trim(ctx, tx, source, lastOrdinal)
			return err
		})
		if err != nil {
			return fmt.Errorf("trim inbox: %w", err)
		}
	}
	err := b.change(ctx, b.s.change, func(tx pgx.Tx) error {
		for _, table := range []string{"event_ids", "event_variants"} {
			_, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE ctid = ANY(ARRAY(SELECT ctid FROM "+table+" WHERE day < "+today+" - $1::integer LIMIT $2))", keepIDs, forgetIDs)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("trim inbox: forget old ids: %w", err)
	}
	return nil
}

func trim(ctx context.Context, tx pgx.Tx, source string, lastOrdinal int64) (more bool, err error) {
	if _, err := tx.Exec(ctx, "SELECT FROM inbox FOR UPDATE"); err != nil {
		return false, err
	}
	var n, last, size int64
	err = tx.QueryRow(ctx, `WITH gone AS (DELETE FROM events WHERE ordinal = ANY(ARRAY(
			SELECT ordinal FROM events JOIN inbox_sources USING (source) WHERE name = $1 AND ordinal <= $2 AND reason IS NULL ORDER BY ordinal LIMIT $3))
			RETURNING ordinal, size)
		SELECT count(*), coalesce(max(ordinal), 0), coalesce(sum(size), 0)::bigint FROM gone`, []byte(source), lastOrdinal, trimRows).Scan(&n, &last, &size)
	if err != nil || n == 0 {
		return false, err
	}
	if _, err = tx.Exec(ctx, "UPDATE inbox_sources SET trimmed = greatest(trimmed, $1), bytes = bytes - $2 WHERE name = $3", last, size, []byte(source)); err == nil {
		_, err = tx.Exec(ctx, "UPDATE inbox SET bytes = bytes - $1", size)
	}
	return n == trimRows, err
}

func (b *inbox) change(ctx context.Context, how func(context.Context, func(pgx.Tx) error) error, do func(pgx.Tx) error) error {
	if b.read {
		return errReading
	}
	return how(ctx, do)
}

// Quarantine implements [state.EventKeeper].
func (b *inbox) Quarantine(ctx context.Context, ordinal int64, reason string) error {
	err := b.change(ctx, b.s.change, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE events SET reason = $1 WHERE ordinal = $2", clean(reason), ordinal)
		if err == nil && tag.RowsAffected() != 1 {
			err = state.ErrNoEvent
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("quarantine event %d: %w", ordinal, err)
	}
	return nil
}

// AppendAgain implements [state.EventKeeper]: see [state.InboxFile.AppendAgain].
func (b *inbox) AppendAgain(ctx context.Context, ordinal int64) (next int64, err error) {
	err = b.change(ctx, b.s.changeOnce, func(tx pgx.Tx) error {
		next, err = b.appendAgain(ctx, tx, ordinal)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("append event %d again: %w", ordinal, err)
	}
	return next, nil
}

func (b *inbox) appendAgain(ctx context.Context, tx pgx.Tx, ordinal int64) (next int64, err error) {
	var kept, size int64
	var source int32
	var dead bool
	if err := tx.QueryRow(ctx, "SELECT last + 1, bytes FROM inbox FOR UPDATE").Scan(&next, &kept); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, "SELECT source, size, reason IS NOT NULL FROM events WHERE ordinal = $1", ordinal).Scan(&source, &size, &dead)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, state.ErrNoEvent
	case err != nil:
		return 0, err
	case !dead && kept+size > b.quota:
		return 0, state.ErrInboxFull
	}
	if dead {
		size = 0
		_, err = tx.Exec(ctx, "UPDATE events SET ordinal = $1, reason = NULL WHERE ordinal = $2", next, ordinal)
	} else {
		_, err = tx.Exec(ctx, `INSERT INTO events (ordinal, source, id, type, received, scheme, header, body, digest, conflict, size)
			SELECT $1, source, id, type, received, scheme, header, body, digest, conflict, size FROM events WHERE ordinal = $2`, next, ordinal)
	}
	if err == nil {
		_, err = tx.Exec(ctx, "UPDATE inbox_sources SET head = $1, bytes = bytes + $2 WHERE source = $3", next, size, source)
	}
	if err == nil {
		_, err = tx.Exec(ctx, "UPDATE inbox SET last = $1, bytes = bytes + $2", next, size)
	}
	return next, err
}

// Capture implements [state.Intake]: see [state.InboxFile.Capture].
func (b *inbox) Capture(ctx context.Context, e state.Event) error {
	header, err := json.Marshal(e.Header)
	if err != nil {
		return fmt.Errorf("capture delivery: encode header: %w", err)
	}
	err = b.change(ctx, b.s.changeOnce, func(tx pgx.Tx) error {
		// The number of captures is limited, so only one transaction at a time may count them and store another.
		if _, err := tx.Exec(ctx, "SELECT FROM inbox FOR UPDATE"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM captures WHERE received <= $1", b.s.Now().Add(-state.CaptureAge)); err != nil {
			return err
		}
		all, err := capturesOf(ctx, tx, e.Source)
		if err != nil {
			return err
		}
		gone := state.CaptureRoom(all, state.Captured{From: e.From, Likely: e.Likely, Size: len(header) + len(e.Body)})
		if _, err := tx.Exec(ctx, "DELETE FROM captures WHERE capture = ANY($1)", gone); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO captures (source, received, header, body, sender, likely) VALUES ($1, $2, $3, $4, $5, $6)",
			[]byte(e.Source), e.Received, header, blob(e.Body), e.From, e.Likely)
		return err
	})
	if err != nil {
		return fmt.Errorf("capture delivery: %w", err)
	}
	return nil
}

func capturesOf(ctx context.Context, tx pgx.Tx, source string) ([]state.Captured, error) {
	rows, err := tx.Query(ctx, "SELECT capture, sender, likely, length(header) + length(body) FROM captures WHERE source = $1 ORDER BY capture", []byte(source))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[state.Captured])
}

// Captures implements [state.Intake].
func (b *inbox) Captures(ctx context.Context, source string) (all []state.Event, err error) {
	err = b.s.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, "SELECT capture, received, header, body FROM captures WHERE source = $1 AND received > $2 ORDER BY capture",
			[]byte(source), b.s.Now().Add(-state.CaptureAge))
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (state.Event, error) {
			e := state.Event{Source: source}
			var header []byte
			if err := row.Scan(&e.Ordinal, &e.Received, &header, &e.Body); err != nil {
				return e, err
			}
			e.Received = e.Received.UTC()
			return e, json.Unmarshal(header, &e.Header)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read captures: %w", err)
	}
	return all, nil
}

// Forget implements [state.Intake].
func (b *inbox) Forget(ctx context.Context, source string, lastNumber int64) error {
	err := b.change(ctx, b.s.change, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM captures WHERE source = $1 AND capture <= $2", []byte(source), lastNumber)
		return err
	})
	if err != nil {
		return fmt.Errorf("forget captures: %w", err)
	}
	return nil
}
