package sqlmerge

import (
	"context"
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
	c, err := readCatalog(ctx, d.b, r, table)
	if err != nil || c.live[load.Changes.Name] == nil {
		return s, err
	}
	if s, err = c.stateOf(table); err != nil {
		return s, err
	}
	t, recorded := c.made[table]
	if o := c.live[table]; !recorded || o == nil || !o.isTable() {
		return s, nil
	}
	s.Empty, err = isEmpty(ctx, r, rowsSQL(d.b, t, k.Source))
	return s, err
}

// stateOf returns those parts of the state of a stream's table that the catalog knows: the owner, the run that made the
// table, and the tables of its family that are gone.
func (c *catalog) stateOf(table string) (s load.StreamState, err error) {
	for name := range c.made {
		if c.live[name] == nil && inFamilies(name, []string{table}) {
			s.Gone = append(s.Gone, name)
		}
	}
	slices.Sort(s.Gone)
	s.Made = c.makers[table].run
	s.Owner, err = c.owner(table)
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

// claimed holds a claim that a transaction has checked, and the stream's position after the commit of that transaction.
type claimed struct {
	claim load.Claim
	at    position
}

// ownership has two owners of a stream's table. The field `now` has the owner that a transaction must record, or nil if
// it must record none. The field `was` has the previous owner.
type ownership struct {
	table    string
	now, was *load.Owner
}

// claim returns an error if the stream k must not write to its table. // Invariant 13
func (c *catalog) claim(ctx context.Context, s Session, k state.Key, from state.Cursor) (o ownership, err error) {
	if o, err = c.checkOwner(ctx, k, from); err != nil || o.now == nil {
		return o, err
	}
	pooled, ok := s.(PooledSession)
	if !ok {
		return o, nil
	}
	leave, err := pooled.Lock(ctx, "owner "+o.table) // only one of several streams becomes the owner
	if err != nil {
		return o, err
	}
	c.reset()
	if o, err = c.checkOwner(ctx, k, from); err != nil {
		return o, err
	}
	return o, leave(o.now == nil)
}

func (c *catalog) checkOwner(ctx context.Context, k state.Key, from state.Cursor) (o ownership, err error) {
	o.table = c.of.Claim.Table
	if err := c.read(ctx, o.table); err != nil {
		return o, err
	}
	if o.was, err = c.owner(o.table); err != nil {
		return o, fmt.Errorf("read owner of %s: %w", o.table, err)
	}
	owner, record, err := c.of.Claim.Owned(k, from, o.was)
	if record && err == nil {
		o.now = &owner
	}
	return o, err
}

// recordOwner records the owner of the table. It resets the cursor of the stream that owned the table before, so that
// no open transaction of that stream can commit.
// Invariant 13
func (c *catalog) recordOwner(sql *statements, o ownership, k state.Key) error {
	if o.now == nil {
		return nil
	}
	if err := c.read(sql.ctx, o.table); err != nil { // reads the earlier changes, because record() must choose a time after them
		return err
	}
	if err := c.record(sql, []load.Change{o.now.Change(o.table, o.was)}); err != nil {
		return fmt.Errorf("record owner of %s: %w", o.table, err)
	}
	if o.was == nil || o.was.Pipeline == k.Pipeline && o.was.Stream == k.Stream {
		return nil
	}
	other := state.Key{Pipeline: o.was.Pipeline, Stream: o.was.Stream}
	return sql.exec(fmt.Sprintf(`UPDATE %s SET "cursor" = '', sequence = sequence + 1 WHERE %s`, c.d.Place(load.State.Name), whereKey(c.d, other)))
}
