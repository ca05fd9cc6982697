//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// StreamState implements [load.Destination].
func (d *DB) StreamState(ctx context.Context, k state.Key, table string) (s load.StreamState, err error) {
	err = d.withReader(ctx, func(x *session) error {
		c, err := readCatalog(ctx, x, []string{table}, false)
		if err != nil || c.live[load.Changes.Name] == nil {
			return err
		}
		if s.Owner, err = ownerOf(ctx, x, table); err != nil {
			return err
		}
		if s.Made, err = madeBy(ctx, x, table); err != nil {
			return err
		}
		for name := range c.made {
			if c.live[name] == nil {
				s.Gone = append(s.Gone, name)
			}
		}
		slices.Sort(s.Gone)
		t, made := c.made[table]
		if o := c.live[table]; !made || o == nil || o.view {
			return nil
		}
		some := int64(0)
		err = x.numbers(ctx, "SELECT count(*) FROM (FROM "+relationOf(t, k.Source)+" LIMIT 1)", &some)
		s.Empty = some == 0
		return err
	})
	if err != nil {
		return s, fmt.Errorf("check table %s: %w", table, err)
	}
	return s, nil
}

// ownerOf returns the recorded owner of a table.
func ownerOf(ctx context.Context, s *session, table string) (*load.Owner, error) {
	text, err := lastChange(ctx, s, "to_type", table, load.ActionOwner)
	if err != nil {
		return nil, err
	}
	return load.ParseOwner(text)
}

// madeBy returns the run that created a table.
func madeBy(ctx context.Context, s *session, table string) (string, error) {
	return lastChange(ctx, s, "run", table, load.ActionCreate)
}

// lastChange returns a column of the last recorded change of a kind to a table.
func lastChange(ctx context.Context, s *session, column, table, action string) (text string, err error) {
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE "table" = %s AND action = %s ORDER BY "at" DESC LIMIT 1`,
		column, place(load.Changes.Name), literal(table), literal(action))
	err = s.query(ctx, query, func(v []driver.Value) error {
		text, _ = v[0].(string)
		return nil
	})
	if tableMissing(err) {
		return "", nil
	}
	return text, err
}

// claim checks that the stream may write its table. The check is skipped if this process has already done it, and the
// stream's position is still the same. // Invariant 13
func (x *tx) claim(ctx context.Context) error {
	c := x.of.Claim
	x.db.mu.Lock()
	seen, ok := x.db.claimed[x.key]
	x.db.mu.Unlock()
	if c.Table == "" || ok && seen == (claimed{c, x.at}) {
		return nil
	}
	have, err := ownerOf(ctx, x.s, c.Table)
	if err != nil {
		return fmt.Errorf("read owner of %s: %w", c.Table, err)
	}
	owner, record, err := c.Owned(x.key, x.from, have)
	if err != nil || !record {
		return err
	}
	x.owner, x.was = &owner, have
	return nil
}

// claimed is a claim that was checked, and the stream's position after the commit that checked it.
type claimed struct {
	load.Claim
	at position
}

// recordOwner records the owner of the table. It resets the cursor of the stream that owned the table before, so that
// no transaction of that stream can commit.
// Invariant 13
func (x *tx) recordOwner(ctx context.Context) error {
	if x.owner == nil {
		return nil
	}
	if err := x.recorder.record(ctx, []load.Change{x.owner.Change(x.of.Claim.Table, x.was)}); err != nil {
		return fmt.Errorf("record owner of %s: %w", x.of.Claim.Table, err)
	}
	if x.was == nil || x.was.Pipeline == x.key.Pipeline && x.was.Stream == x.key.Stream {
		return nil
	}
	other := state.Key{Pipeline: x.was.Pipeline, Stream: x.was.Stream}
	return x.s.exec(ctx, fmt.Sprintf("UPDATE %s SET cursor = '', sequence = sequence + 1 WHERE %s", place(load.State.Name), whereKey(other)))
}
