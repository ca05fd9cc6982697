package state

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Capture stores an unverified delivery, from which penstock can learn the signature scheme. A capture is not an event,
// and is never applied. Each source keeps up to 100 captures, of at most 32 MiB together, for 24 hours. [CaptureRoom]
// decides which captures are deleted to make room for a new one. When Capture returns without an error, the capture is
// durable.
func (b *InboxFile) Capture(ctx context.Context, e Event) error {
	header, err := json.Marshal(e.Header)
	if err != nil {
		return fmt.Errorf("capture delivery: encode header: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.change(ctx, func(tx inboxTx, _ *account) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM captures WHERE received <= ?", time.Now().Add(-CaptureAge).UnixMicro()); err != nil {
			return err
		}
		all, err := capturesOf(ctx, tx, e.Source)
		if err != nil {
			return err
		}
		for _, gone := range CaptureRoom(all, Captured{From: e.From, Likely: e.Likely, Size: len(header) + len(e.Body)}) {
			if _, err := tx.ExecContext(ctx, "DELETE FROM captures WHERE capture = ?", gone); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO captures (source, received, header, body, sender, likely) VALUES (?, ?, ?, ?, ?, ?)",
			[]byte(e.Source), e.Received.UnixMicro(), header, blob(e.Body), e.From, e.Likely)
		return err
	})
	if err != nil {
		return fmt.Errorf("capture delivery: %w", err)
	}
	return nil
}

func capturesOf(ctx context.Context, tx inboxTx, source string) (all []Captured, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT capture, sender, likely, length(header) + length(body) FROM captures WHERE source = ? ORDER BY capture", []byte(source))
	if err != nil {
		return nil, err
	}
	return all, forEachRow(rows, func(scan func(...any) error) error {
		var c Captured
		err := scan(&c.Capture, &c.From, &c.Likely, &c.Size)
		all = append(all, c)
		return err
	})
}

// Captured returns the number of stored captures of a source, and the limit for this number.
func (b *InboxFile) Captured(ctx context.Context, source string) (n, limit int, err error) {
	err = b.file.read.QueryRowContext(ctx, "SELECT count(*) FROM captures WHERE source = ? AND received > ?",
		[]byte(source), time.Now().Add(-CaptureAge).UnixMicro()).Scan(&n)
	if err != nil {
		return 0, CaptureLimit, fmt.Errorf("count captures: %w", err)
	}
	return n, CaptureLimit, nil
}

// Captures returns the deliveries of a source that were captured in the last 24 hours, oldest first. Captures have
// ordinals of their own, which are not ordinals of events.
func (b *InboxFile) Captures(ctx context.Context, source string) (captures []Event, err error) {
	err = forEachQuery(ctx, b.file.read, func(scan func(...any) error) error {
		e := Event{Source: source}
		var micros int64
		var header []byte
		if err := scan(&e.Ordinal, &micros, &header, &e.Body); err != nil {
			return err
		}
		e.Received = time.UnixMicro(micros).UTC()
		captures = append(captures, e)
		return json.Unmarshal(header, &captures[len(captures)-1].Header)
	}, "SELECT capture, received, header, body FROM captures WHERE source = ? AND received > ? ORDER BY capture",
		[]byte(source), time.Now().Add(-CaptureAge).UnixMicro())
	if err != nil {
		return nil, fmt.Errorf("read captures: %w", err)
	}
	return captures, nil
}

// Forget deletes the captures of a source up to the number lastNumber.
func (b *InboxFile) Forget(ctx context.Context, source string, lastNumber int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.change(ctx, func(tx inboxTx, _ *account) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM captures WHERE source = ? AND capture <= ?", []byte(source), lastNumber)
		return err
	})
	if err != nil {
		return fmt.Errorf("forget captures: %w", err)
	}
	return nil
}
