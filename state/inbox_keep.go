package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// trimRows is the number of events that one transaction deletes. It is small, so that deliveries wait only briefly.
const trimRows = 500

// Trim deletes the events of a source up to the ordinal lastOrdinal, except dead letters. The caller must ensure that
// all destinations have applied these events durably. The ids of deleted events stay, so repetitions are still
// recognized. // Invariant 3
func (b *InboxFile) Trim(ctx context.Context, source string, lastOrdinal int64) error {
	for {
		more, err := b.trim(ctx, source, lastOrdinal)
		if err != nil {
			return fmt.Errorf("trim inbox: %w", err)
		}
		if !more {
			break
		}
	}
	if err := b.shrink(ctx); err != nil {
		return fmt.Errorf("trim inbox: %w", err)
	}
	return nil
}

func (b *InboxFile) trim(ctx context.Context, source string, lastOrdinal int64) (more bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.change(ctx, func(tx inboxTx, a *account) error {
		id, known := a.sources[source]
		if !known {
			return nil
		}
		var last, n, size sql.NullInt64
		err := tx.QueryRowContext(ctx, `SELECT max(ordinal), count(*), sum(size) FROM (SELECT ordinal, size FROM events
			WHERE source = ? AND ordinal <= ? AND reason IS NULL ORDER BY ordinal LIMIT ?)`, id, lastOrdinal, trimRows).Scan(&last, &n, &size)
		if err != nil || n.Int64 == 0 {
			return err
		}
		if last.Int64 > a.filed { // some ids of these events are not yet in the ids table, so insert them first
			if err := a.file(ctx, tx); err != nil {
				return err
			}
		}
		more = n.Int64 == trimRows
		a.bytes -= size.Int64
		_, err = tx.ExecContext(ctx, "DELETE FROM events WHERE source = ? AND ordinal <= ? AND reason IS NULL", id, last)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE sources SET trimmed = max(trimmed, ?), bytes = bytes - ? WHERE source = ?", last, size, id)
		}
		return err
	})
	return more, err
}

// Limits of shrink(). After a flood of events, the file has empty space. All of it except spareBytes is given back to
// the disk, in steps of shrinkPages.
const (
	spareBytes  = 16 << 20
	shrinkPages = 1 << 10
)

func (b *InboxFile) shrink(ctx context.Context) error {
	for {
		empty, err := b.file.empty(ctx)
		if err != nil || empty <= spareBytes {
			return err
		}
		b.mu.Lock()
		_, err = b.file.write.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages))
		b.mu.Unlock()
		if err != nil {
			return fmt.Errorf("make the file smaller: %w", err)
		}
	}
}

// Quarantine makes an event a dead letter. The reason is a text for people. AppendAgain makes the dead letter a normal
// event again.
func (b *InboxFile) Quarantine(ctx context.Context, ordinal int64, reason string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.change(ctx, func(tx inboxTx, _ *account) error {
		done, err := tx.ExecContext(ctx, "UPDATE events SET reason = ? WHERE ordinal = ?", reason, ordinal)
		return requireOneRow(done, err)
	})
	if err != nil {
		return fmt.Errorf("quarantine event %d: %w", ordinal, err)
	}
	return nil
}

func requireOneRow(done sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, ErrNoEvent)
	}
	return nil
}

// AppendAgain appends a stored event to the inbox again, so that it is applied once more. It returns the new ordinal.
// A dead letter becomes a normal event. AppendAgain returns [ErrNoEvent], wrapped, if the event is not stored. It
// returns [ErrInboxFull], wrapped, if there is no room for a copy.
func (b *InboxFile) AppendAgain(ctx context.Context, ordinal int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next int64
	err := b.change(ctx, func(tx inboxTx, a *account) error {
		var source, size int64
		var dead bool
		err := tx.QueryRowContext(ctx, "SELECT source, size, reason IS NOT NULL FROM events WHERE ordinal = ?", ordinal).Scan(&source, &size, &dead)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNoEvent
		case err != nil:
			return err
		case !dead && a.bytes+size > b.quota:
			return ErrInboxFull
		}
		a.last++
		next = a.last
		if dead {
			size = 0
			_, err = tx.ExecContext(ctx, "UPDATE events SET ordinal = ?, reason = NULL WHERE ordinal = ?", next, ordinal)
		} else {
			_, err = tx.ExecContext(ctx, `INSERT INTO events (ordinal, source, id, type, received, scheme, header, body, digest, conflict, size)
				SELECT ?, source, id, type, received, scheme, header, body, digest, conflict, size FROM events WHERE ordinal = ?`, next, ordinal)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, moveHead, next, size, source)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, moveLast, next)
		}
		a.bytes += size
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("append event %d again: %w", ordinal, err)
	}
	return next, nil
}
