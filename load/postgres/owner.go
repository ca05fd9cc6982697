package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// StreamState implements [load.Destination].
func (d *DB) StreamState(ctx context.Context, k state.Key, table string) (s load.StreamState, err error) {
	err = d.withReadTx(ctx, func(x *session) error {
		s = load.StreamState{}
		c, err := d.readCatalog(ctx, x, []string{table})
		if err != nil || c.made[table].Name == "" {
			return err
		}
		if s.Owner, s.Made, err = d.ownerOf(ctx, x, table); err != nil {
			return err
		}
		for name := range c.made {
			if c.live[name] == nil {
				s.Gone = append(s.Gone, name)
			}
		}
		slices.Sort(s.Gone)
		if o := c.live[table]; o == nil || o.kind != "r" {
			return nil
		}
		t := c.target(c.made[table])
		some := int64(0)
		err = x.numbers(ctx, "SELECT EXISTS (SELECT FROM "+d.place(table)+" AS t WHERE true"+(&tx{key: k}).ownRowsSQL(t)+")::int", &some)
		s.Empty = some == 0
		return err
	})
	if err != nil {
		return s, fmt.Errorf("check table %s: %w", table, err)
	}
	return s, nil
}

// ownerOf returns the recorded owner of a table, and the run that created the table.
func (d *DB) ownerOf(ctx context.Context, s *session, table string) (o *load.Owner, made string, err error) {
	query := fmt.Sprintf(`SELECT DISTINCT ON (action) action, CASE WHEN action = %s THEN to_type ELSE run END FROM %s WHERE "table" = %s AND action IN (%s, %[1]s) ORDER BY action, at DESC`,
		literal(load.ActionOwner), d.place(load.Changes.Name), literal(table), literal(load.ActionCreate))
	err = s.query(ctx, query, func(v [][]byte) (err error) {
		if string(v[0]) == load.ActionOwner {
			o, err = load.ParseOwner(string(v[1]))
		} else {
			made = string(v[1])
		}
		return err
	})
	return o, made, err
}

// claimed is a claim that was checked, and the position of the stream after the commit that checked it.
type claimed struct {
	load.Claim
	at position
}

// claim checks that the stream may write to its table. It skips the check if this process has already made it, and if
// the stream's position is still the same. If a new owner must be recorded, claim repeats the check under a lock, so
// that only one of several streams becomes the owner. Invariant 13
func (x *tx) claim(ctx context.Context) error {
	c := x.of.Claim
	x.db.mu.Lock()
	seen, ok := x.db.claimed[x.key]
	x.db.mu.Unlock()
	if c.Table == "" || ok && seen.Claim == c && seen.at.at(x.position) {
		return nil
	}
	owner, record, have, err := x.checkOwner(ctx)
	if err == nil && record {
		if err = x.s.run(ctx, x.db.advisoryLockSQL("penstock owner "+x.db.o.Schema+"."+c.Table)); err == nil {
			owner, record, have, err = x.checkOwner(ctx)
		}
	}
	if err != nil || !record {
		return err
	}
	x.owner, x.previousOwner = &owner, have
	return nil
}

func (x *tx) checkOwner(ctx context.Context) (owner load.Owner, record bool, have *load.Owner, err error) {
	c := x.of.Claim
	if have, _, err = x.db.ownerOf(ctx, x.s, c.Table); err != nil {
		return owner, false, nil, fmt.Errorf("read owner of %s: %w", c.Table, x.db.recheckTables(err))
	}
	owner, record, err = c.Owned(x.key, x.from, have)
	return owner, record, have, err
}

// recordOwner records the new owner of the table. It resets the cursor of the stream that owned the table before, so
// that no transaction of that stream can commit. // Invariant 13
func (x *tx) recordOwner(ctx context.Context) error {
	if x.owner == nil {
		return nil
	}
	if err := x.record(ctx, []load.Change{x.owner.Change(x.of.Claim.Table, x.previousOwner)}); err != nil {
		return fmt.Errorf("record owner of %s: %w", x.of.Claim.Table, err)
	}
	if x.previousOwner == nil || x.previousOwner.Pipeline == x.key.Pipeline && x.previousOwner.Stream == x.key.Stream {
		return nil
	}
	other := state.Key{Pipeline: x.previousOwner.Pipeline, Stream: x.previousOwner.Stream}
	return x.s.run(ctx, fmt.Sprintf("UPDATE %s SET cursor = '', sequence = sequence + 1 WHERE %s", x.db.place(load.State.Name), whereKey(other)))
}
