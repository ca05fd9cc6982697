package state

import (
	"context"
	"fmt"
)

type grouping struct {
	tx      inboxTx
	account *account
	quota   int64

	rows  []*Delivery
	heads map[string]head // by source, for the sources of the group
}

type head struct{ ordinal, bytes int64 }

func (g *grouping) put(ctx context.Context, group []*Delivery) error {
	if len(g.account.recent) >= fileEvery {
		if err := g.account.file(ctx, g.tx); err != nil {
			return err
		}
	}
	filed, err := g.account.find(ctx, g.tx, group)
	if err != nil {
		return err
	}
	for _, d := range group {
		if err := g.classify(ctx, d, filed); err != nil {
			return err
		}
	}
	if err := g.flush(ctx); err != nil {
		return err
	}
	return g.close(ctx)
}

func (g *grouping) classify(ctx context.Context, d *Delivery, filed map[identity]known) error {
	first, again := g.account.recent[d.Key]
	if !again {
		first, again = filed[d.Key]
	}
	switch {
	case d.Event.ID == "" || !again:
		d.Previous = Stored
	case first.digest == d.Digest:
		d.Previous = Duplicate
		return nil
	default:
		d.Previous = Conflicting
		if seen, err := g.variant(ctx, d); err != nil || seen {
			d.Previous = Duplicate
			return err
		}
	}
	if g.account.bytes+d.Size > g.quota {
		d.Previous, d.Err = "", fmt.Errorf("%w: the stored events take %d bytes, and the quota is %d bytes", ErrInboxFull, g.account.bytes, g.quota)
		return nil
	}
	g.take(d)
	if d.Previous == Conflicting {
		return g.conflict(ctx, d, first)
	}
	return nil
}

func (g *grouping) take(d *Delivery) {
	g.account.last++
	g.account.bytes += d.Size
	d.Event.Ordinal = g.account.last
	if d.Previous == Stored && d.Event.ID != "" {
		g.account.remember(d.Key, known{d.Digest, d.Event.Ordinal})
	}
	g.heads[d.Event.Source] = head{d.Event.Ordinal, g.heads[d.Event.Source].bytes + d.Size}
	g.rows = append(g.rows, d)
}

func (g *grouping) conflict(ctx context.Context, d *Delivery, first known) error {
	if err := g.flush(ctx); err != nil { // write the earlier deliveries of this group, because one of them may have the same id
		return err
	}
	if _, err := g.tx.ExecContext(ctx, "UPDATE events SET conflict = ? WHERE ordinal = ?", conflictFirst, first.ordinal); err != nil {
		return fmt.Errorf("record conflict: %w", err)
	}
	_, err := g.tx.ExecContext(ctx, "INSERT INTO variants VALUES (?, ?, ?)", d.Key[:], d.Digest[:], today())
	if err != nil {
		return fmt.Errorf("record conflict: %w", err)
	}
	return nil
}

func (g *grouping) variant(ctx context.Context, d *Delivery) (seen bool, err error) {
	err = g.tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM variants WHERE key = ? AND digest = ?)", d.Key[:], d.Digest[:]).Scan(&seen)
	if err != nil {
		return false, fmt.Errorf("read conflicts: %w", err)
	}
	return seen, nil
}

func (g *grouping) flush(ctx context.Context) error {
	for len(g.rows) > 0 {
		n, insert := nextStatement(len(g.rows), insertEvent, insertEvents)
		args := make([]any, 0, n*eventColumns)
		for _, d := range g.rows[:n] {
			source, err := g.source(ctx, d.Event.Source)
			if err != nil {
				return err
			}
			e := &d.Event
			args = append(args, e.Ordinal, source, []byte(e.ID), []byte(e.Type), e.Received.UnixMicro(), []byte(e.Scheme), d.Header, blob(e.Body), d.Digest[:], conflictOf(d), d.Size)
		}
		if _, err := g.tx.prepared(ctx, insert).ExecContext(ctx, args...); err != nil {
			return fmt.Errorf("insert events: %w", err)
		}
		g.rows = g.rows[n:]
	}
	return nil
}

// blob returns an empty slice for nil. The driver would store nil as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (g *grouping) source(ctx context.Context, name string) (id int64, err error) {
	id, ok := g.account.sources[name]
	if ok {
		return id, nil
	}
	if err := g.tx.QueryRowContext(ctx, "INSERT INTO sources (name) VALUES (?) RETURNING source", []byte(name)).Scan(&id); err != nil {
		return 0, fmt.Errorf("add source: %w", err)
	}
	g.account.sources[name] = id
	return id, nil
}

func (g *grouping) close(ctx context.Context) error {
	if len(g.heads) == 0 {
		return nil
	}
	for name, h := range g.heads {
		if _, err := g.tx.prepared(ctx, moveHead).ExecContext(ctx, h.ordinal, h.bytes, g.account.sources[name]); err != nil {
			return fmt.Errorf("update positions: %w", err)
		}
	}
	if _, err := g.tx.prepared(ctx, moveLast).ExecContext(ctx, g.account.last); err != nil {
		return fmt.Errorf("update positions: %w", err)
	}
	return nil
}
