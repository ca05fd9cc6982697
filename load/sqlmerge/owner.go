package sqlmerge

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// StreamState returns the state of a stream's table; see [load.Destination].
func (d *Store) StreamState(ctx context.Context, k state.Key, table string) (s load.StreamState, err error) {
	err = d.b.Read(ctx, func(r Reader) error {
		s, err = d.streamState(ctx, r, k, table)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("check table %s: %w", table, err)
	}
	return s, nil
}

func (d *Store) streamState(ctx context.Context, r Reader, k state.Key, table string) (s load.StreamState, err error) {
	c, err := d.readCatalog(ctx, r, table)
	if err != nil || c.live[load.Changes.Name] == nil {
		return s, err
	}
	if s.Owner, err = c.owner(table); err != nil {
		return s, err
	}
	if s.Made, err = d.runThatMade(ctx, r, table); err != nil {
		return s, err
	}
	for name := range c.made {
		if c.live[name] == nil {
			s.Gone = append(s.Gone, name)
		}
	}
	slices.Sort(s.Gone)
	t, made := c.made[table]
	if o := c.live[table]; !made || o == nil || !o.isTable() {
		return s, nil
	}
	some := int64(0)
	err = numbers(ctx, r, "SELECT count(*) FROM (SELECT 1 FROM "+rowsSQL(d.b, t, k.Source)+" LIMIT 1) AS t", &some)
	s.Empty = some == 0
	return s, err
}

// owner returns the recorded owner of a table.
func (c *catalog) owner(table string) (*load.Owner, error) {
	var last load.Change
	for _, change := range c.changes {
		if change.Table == table && change.Action == load.ActionOwner && !change.At.Before(last.At) {
			last = change
		}
	}
	return load.ParseOwner(last.To)
}

// runThatMade returns the run that has created a table.
func (d *Store) runThatMade(ctx context.Context, r Reader, table string) (run string, err error) {
	query := fmt.Sprintf(`SELECT run FROM %s WHERE "table" = %s AND action = %s ORDER BY "at" DESC LIMIT 1`,
		d.b.Place(load.Changes.Name), d.b.Literal(table), d.b.Literal(load.ActionCreate))
	err = r.Query(ctx, query, func(v []driver.Value) error {
		run, _ = v[0].(string)
		return nil
	})
	return run, err
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
	owner, record, have, err := x.checkOwner(ctx)
	if s, ok := x.s.(PooledSession); ok && record && err == nil { // only one of several streams becomes the owner
		leave, lerr := s.Lock(ctx, "owner "+c.Table)
		if lerr != nil {
			return lerr
		}
		x.c = x.db.newCatalog(x.s)
		if owner, record, have, err = x.checkOwner(ctx); err == nil {
			err = leave(!record)
		}
	}
	if err != nil || !record {
		return err
	}
	x.owner, x.was = &owner, have
	return nil
}

// checkOwner returns the owner that the table will have, whether it must be recorded, and the owner that is recorded.
func (x *tx) checkOwner(ctx context.Context) (owner load.Owner, record bool, have *load.Owner, err error) {
	c := x.of.Claim
	if err := x.c.read(ctx, c.Table); err != nil {
		return owner, false, nil, err
	}
	if have, err = x.c.owner(c.Table); err != nil {
		return owner, false, nil, fmt.Errorf("read owner of %s: %w", c.Table, err)
	}
	owner, record, err = c.Owned(x.key, x.from, have)
	return owner, record, have, err
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
	if err := x.c.read(ctx, x.of.Claim.Table); err != nil { // so that the change is later than all earlier ones
		return err
	}
	if err := x.record(ctx, []load.Change{x.owner.Change(x.of.Claim.Table, x.was)}); err != nil {
		return fmt.Errorf("record owner of %s: %w", x.of.Claim.Table, err)
	}
	if x.was == nil || x.was.Pipeline == x.key.Pipeline && x.was.Stream == x.key.Stream {
		return nil
	}
	other := state.Key{Pipeline: x.was.Pipeline, Stream: x.was.Stream}
	return x.s.Exec(ctx, fmt.Sprintf(`UPDATE %s SET "cursor" = '', sequence = sequence + 1 WHERE %s`, x.b.Place(load.State.Name), x.db.whereKey(other)))
}
