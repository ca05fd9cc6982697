package sqlmerge

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// carried is a temporary table with the carried keys of a pass. These are the keys of the records that the pass has
// found unchanged. Rows that the pass has written need no entry, because they have the run of the pass. The table can
// use disk space, and takes part in transactions.
type carried struct {
	table string
	types []arrow.DataType // of its columns k0, k1…
}

// dropLater makes the next transaction drop a table of carried keys. The caller holds d.mu.
func (d *Store) dropLater(c *carried) {
	if c != nil {
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

// newCarried creates a table of carried keys from a query with the columns k0, k1….
func (m *merge) newCarried(t *target, from string) error {
	m.db.mu.Lock()
	m.db.tables++
	name := fmt.Sprintf("_penstock_carried_%d", m.db.tables)
	m.db.mu.Unlock()
	c := &carried{table: m.b.Temp(name)}
	for _, k := range t.Key {
		c.types = append(c.types, load.TypeOf(t.Columns, k))
	}
	if err := m.temporary(name, "AS "+from); err != nil {
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
	from := fmt.Sprintf("SELECT %s, true AS carried FROM %s WHERE st = %s AND NOT again",
		strings.Join(keyColumns("", t.Key), ", "), m.b.Temp(status), isUnchanged)
	if m.carried == nil {
		return m.newCarried(t, from)
	}
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
	return m.newCarried(t, "SELECT "+strings.Join(columns, ", ")+", carried FROM "+m.carried.table)
}
