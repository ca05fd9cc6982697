package sqlmerge

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// carried is a table with the carried keys of a pass. These are the keys of the records that the pass has found
// unchanged. Rows that the pass has written need no entry, because they have the run of the pass. The table can use
// disk space, and takes part in transactions. It is a temporary table, unless the backend has kept it; see [PooledSession].
type carried struct {
	table string
	types []arrow.DataType // of its columns k0, k1…
	rows  int64
	kept  bool // by [PooledSession].Keep
}

// resume returns the carried keys and the order of the keys after the last commit of the pass.
func (d *Store) resume(p *pass) (*carried, order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.carried == nil {
		return nil, p.order
	}
	c := *p.carried
	return &c, p.order
}

// dropLater drops a table of carried keys, in the next transaction or when the backend does so. The caller holds d.mu.
func (d *Store) dropLater(c *carried) {
	switch {
	case c == nil:
	case d.pooled != nil:
		d.pooled.Discard(c.table)
	default:
		d.droppable = append(d.droppable, c.table)
	}
}

// dropCarried drops the tables of carried keys that are no longer needed. A long-running process would otherwise
// collect the keys of all its passes. // Invariant 6
func (x *tx) dropCarried(ctx context.Context) error {
	x.db.mu.Lock()
	x.dropped, x.db.droppable = x.db.droppable, nil
	x.db.mu.Unlock()
	for _, table := range x.dropped {
		if err := x.s.Exec(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
			return err
		}
	}
	return nil
}

// keepCarried keeps the carried keys for the next transaction of the pass, if temporary tables end with this one.
func (x *tx) keepCarried(ctx context.Context) error {
	c := x.carried
	s, pooled := x.s.(PooledSession)
	switch {
	case c == nil || !pooled:
		return nil
	case x.swept || x.of.Once:
		x.carried, x.lost = nil, true
		return nil
	case c.kept:
		return nil
	}
	table, err := s.Keep(ctx, c.table, len(c.types))
	c.table, c.kept = table, true
	return err
}

// advance records the progress of the pass after a commit. The caller holds d.mu.
func (x *tx) advance() {
	p := x.pass
	p.order, p.fresh = x.order, x.fresh
	p.lost = p.lost || x.lost
	if p.carried != nil && (x.carried == nil || x.carried.table != p.carried.table) {
		x.db.dropLater(p.carried)
	}
	p.carried = x.carried
}

// newCarried creates a table of carried keys from a query with the columns k0, k1… and the given number of rows.
func (m *merge) newCarried(t *target, from string, rows int64) error {
	m.db.mu.Lock()
	m.db.tables++
	name := fmt.Sprintf("_penstock_carried_%d", m.db.tables)
	m.db.mu.Unlock()
	c := &carried{table: m.b.Temp(name), rows: rows}
	for _, k := range t.Key {
		c.types = append(c.types, load.TypeOf(t.Columns, k))
	}
	if err := m.s.CreateTemp(m.ctx, name, "AS "+from); err != nil {
		return err
	}
	m.carried = c
	return nil
}

// recordCarried records the keys of the unchanged rows.
func (m *merge) recordCarried(t *target, unchanged int64) error {
	if unchanged == 0 || load.IsInternal(t.Name) {
		return nil
	}
	return m.addCarried(t, fmt.Sprintf("SELECT %s FROM %s WHERE st = %s AND NOT again", strings.Join(keyColumns("", t.Key), ", "), m.b.Temp(status), isUnchanged), unchanged)
}

// addCarried adds the keys that a query returns, which has the given number of rows.
func (m *merge) addCarried(t *target, from string, rows int64) error {
	if m.carried == nil {
		return m.newCarried(t, from, rows)
	}
	m.carried.rows += rows
	return m.s.Exec(m.ctx, "INSERT INTO "+m.carried.table+" "+from)
}

// castCarried casts the carried keys to the current types of the key columns of t.
func (m *merge) castCarried(t *target) error {
	if m.carried == nil || load.IsInternal(t.Name) {
		return nil
	}
	same := true
	columns := make([]string, len(t.Key))
	for i, k := range t.Key {
		from, to := m.carried.types[i], load.TypeOf(t.Columns, k)
		same = same && schemas.SameType(from, to)
		columns[i] = m.b.Cast(fmt.Sprintf("k%d", i), from, to) + fmt.Sprintf(" AS k%d", i)
	}
	if same {
		return nil
	}
	return m.newCarried(t, "SELECT "+strings.Join(columns, ", ")+" FROM "+m.carried.table, m.carried.rows)
}

// checkCarried records that carried keys are lost if the database has lost rows of the table, as in a crash of the
// server. It prepares the table for a sweep.
func (m *merge) checkCarried() error {
	s, pooled := m.s.(PooledSession)
	if !pooled {
		return nil
	}
	if m.carried.kept {
		rows := int64(0)
		if err := numbers(m.ctx, m.s, "SELECT count(*) FROM "+m.carried.table, &rows); err != nil {
			return err
		}
		m.lost = m.lost || rows != m.carried.rows // Invariant 12
	}
	return s.Prepare(m.ctx, m.carried.table)
}
