//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// sweep counts the rows that the pass did not carry, and deletes them if it
// shall. // Invariant 12
func (m *merge) sweep(s load.Sweep) error {
	if s.Table == "" {
		return nil
	}
	if err := m.db.step("sweep"); err != nil {
		return err
	}
	t := m.tables[s.Table]
	var err error
	switch {
	case t == nil:
		m.out.Known = true
	case len(t.Key) == 0:
		err = m.sweepKeyless(t, s)
	default:
		err = m.sweepKeyed(t, s)
	}
	if err != nil {
		return fmt.Errorf("sweep %s: %w", s.Table, err)
	}
	return nil
}

// lostKeys is the temporary table of the keys that the pass did not carry.
const lostKeys = "temp.main.penstock_missing"

func (m *merge) sweepKeyed(t *target, s load.Sweep) error {
	keys := ""
	for i, k := range t.Key {
		keys += fmt.Sprintf(", t.%s AS k%d", ident(k), i)
	}
	carried := ""
	if m.carried != nil {
		if err := m.recarry(t); err != nil {
			return err
		}
		carried = fmt.Sprintf(" AND NOT EXISTS (SELECT 1 FROM %s AS c WHERE %s)", m.carried.table, on("c", t.Key))
	}
	err := m.s.exec(m.ctx, fmt.Sprintf("CREATE OR REPLACE TEMP TABLE penstock_missing AS SELECT %s FROM %s AS t "+
		"WHERE t.%s IS NULL AND NOT coalesce(t.%s >= %s, false)%s",
		keys[2:], place(t.Name), schemas.ColDeletedAt, schemas.ColRun, literal(m.of.Run), carried))
	if err != nil {
		return err
	}
	err = m.s.numbers(m.ctx, fmt.Sprintf("SELECT count_if(%s IS NULL), (SELECT count(*) FROM %s) FROM %s",
		schemas.ColDeletedAt, lostKeys, place(t.Name)), &m.out.Alive, &m.out.Missing)
	if err != nil {
		return err
	}
	m.out.Known = m.out.Missing == 0 || m.of.Whole && !m.pass.lost
	if !s.Delete || !m.out.Known || m.out.Missing == 0 {
		return nil
	}
	m.out.Deleted = m.out.Missing
	return m.bury(t, s)
}

// bury sets the tombstones.
func (m *merge) bury(t *target, s load.Sweep) error {
	set := "SET " + schemas.ColDeletedAt + " = " + timestamp(s.At)
	err := m.s.exec(m.ctx, fmt.Sprintf("UPDATE %s AS t %s FROM %s AS s WHERE %s", place(t.Name), set, lostKeys, on("s", t.Key)))
	if err != nil {
		return err
	}
	for _, c := range m.children(t) {
		key, link := linkOf(t, c)
		err := m.s.exec(m.ctx, fmt.Sprintf("UPDATE %s AS t %s FROM (SELECT %s AS l FROM %s) AS s WHERE s.l = %s",
			place(c.Name), set, key, lostKeys, link))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}
