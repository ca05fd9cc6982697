package sqlmerge

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// sweep counts the rows that the pass has neither written nor found unchanged, and deletes them if s.Delete is set.
// Invariant 12
func (m *merge) sweep(s load.Sweep) error {
	if s.Table == "" {
		return nil
	}
	if err := m.b.Step("sweep"); err != nil {
		return err
	}
	t := m.tables[s.Table]
	var err error
	switch {
	case t == nil:
		m.out.Known = true
	case t.Mode == schemas.Append: // rows are never missing
		m.out.Known = true
		err = numbers(m.ctx, m.s, "SELECT "+countIf(t.currentSQL("t."))+" FROM "+m.ownRows(t), &m.out.Alive)
	case len(t.Key) > 0:
		err = m.sweepKeyed(t, s)
	case s.Keys != nil:
		err = errors.New("the table has no key to select rows by")
	default:
		err = m.sweepKeyless(t, s)
	}
	if err != nil {
		return fmt.Errorf("sweep %s: %w", s.Table, err)
	}
	return nil
}

// missing is a temporary table with the keys k0, k1… of the missing current rows, or of those that [load.Sweep].Keys
// selects. For a table without a key, it has the hashes h that have surplus rows, the number n of rows that stay, and
// the number spare of surplus rows.
const missing = "_penstock_missing"

func (m *merge) sweepKeyed(t *target, s load.Sweep) error {
	find := m.findMissing
	if s.Keys != nil {
		find = func(t *target) error { return m.findKeys(t, s.Keys) }
	}
	if err := find(t); err != nil {
		return err
	}
	m.db.mu.Lock()
	lost := m.lost || m.pass.lost
	m.db.mu.Unlock()
	m.out.Known = m.out.Missing == 0 || s.Keys != nil || m.of.Whole && !lost
	if err := m.list(t, s.List); err != nil {
		return err
	}
	if !s.Delete || !m.out.Known || m.out.Missing == 0 {
		return nil
	}
	m.out.Deleted = m.out.Missing
	if err := m.logMissing(t); err != nil {
		return err
	}
	return m.markDeleted(t)
}

// findMissing counts the current rows, and those that the pass has neither written nor found unchanged. If there are
// such rows, it stores their keys. Usually there are none, and reading the table once is enough.
func (m *merge) findMissing(t *target) error {
	from, gone := m.b.Place(t.Name)+" AS t", m.untouchedSQL(t)
	if cond := m.rangeSQL(t); cond != "" {
		gone += " AND NOT (" + cond + ")"
	}
	if m.carried != nil {
		if err := m.castCarried(t); err != nil {
			return err
		}
		if err := m.checkCarried(); err != nil {
			return err
		}
		from += " LEFT JOIN " + m.carried.table + " AS c ON " + on("c", t.Key)
		gone += " AND c.k0 IS NULL"
	}
	from += " WHERE " + t.currentSQL("t.") + m.ownRowsSQL(t, "t.")
	if err := numbers(m.ctx, m.s, "SELECT count(*), "+countIf(gone)+" FROM "+from, &m.out.Alive, &m.out.Missing); err != nil || m.out.Missing == 0 {
		return err
	}
	return m.s.CreateTemp(m.ctx, missing, "AS SELECT "+asKeys("t.", t.Key)+" FROM "+from+" AND "+gone)
}

// findKeys counts the current rows, and stores those of the given keys that current rows have.
func (m *merge) findKeys(t *target, keys []arrow.RecordBatch) error {
	named := &load.Staged{Table: schemas.Table{Name: t.Name}}
	defer named.Release()
	for _, b := range keys {
		if err := named.Add(b); err != nil {
			return err
		}
	}
	find := func(from string) error {
		return m.s.CreateTemp(m.ctx, missing, fmt.Sprintf("AS SELECT %s FROM %s AND %s AND %s",
			asKeys("t.", t.Key), m.ownRows(t), m.keyIn(t, "(SELECT "+asKeys("", t.Key)+" FROM "+from+" AS r) AS r"), t.currentSQL("t.")))
	}
	var err error
	if len(keys) == 0 {
		err = find("(SELECT * FROM " + m.b.Place(t.Name) + " LIMIT 0)")
	} else {
		err = m.s.Stage(m.ctx, named, t.Columns, t.Key, find)
	}
	if err != nil {
		return err
	}
	return numbers(m.ctx, m.s, fmt.Sprintf("SELECT %s, (SELECT count(*) FROM %s) FROM %s",
		countIf(t.currentSQL("t.")), m.b.Temp(missing), m.ownRows(t)), &m.out.Alive, &m.out.Missing)
}

// list adds up to n of the found keys to the outcome.
func (m *merge) list(t *target, n int) error {
	if n <= 0 || m.out.Missing == 0 {
		return nil
	}
	schema, err := load.Select(t.Columns, t.Key)
	if err != nil {
		return err
	}
	q := fmt.Sprintf("SELECT %s FROM %s LIMIT %d", strings.Join(keyColumns("", t.Key), ", "), m.b.Temp(missing), n)
	return m.s.Stream(m.ctx, q, schema, func(b arrow.RecordBatch) error {
		b.Retain()
		m.out.Keys = append(m.out.Keys, b)
		return nil
	})
}

// markDeleted deletes the rows that were found, in the way that the table's mode requires.
func (m *merge) markDeleted(t *target) error {
	if err := m.change(t.Name, m.deleteSQL(t)+m.keyIn(t, m.b.Temp(missing))+" AND "+t.currentSQL("t.")+m.ownRowsSQL(t, "t.")); err != nil {
		return err
	}
	for _, c := range m.children(t) {
		links, link := m.linksOf(t, c, "", m.b.Temp(missing))
		where := m.ownRowsSQL(c, "t.")
		if t.Mode == schemas.History {
			where += " AND " + c.currentSQL("t.")
		}
		if err := m.change(c.Name, m.deleteSQL(c)+link+" IN ("+links+")"+where); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// deleteSQL returns the statement that deletes rows of t, up to the condition.
func (m *merge) deleteSQL(t *target) string {
	at := m.b.Timestamp(m.when)
	switch t.Mode {
	case schemas.Replace:
		return "DELETE FROM " + m.b.Place(t.Name) + " AS t WHERE "
	case schemas.History:
		return fmt.Sprintf("UPDATE %s AS t SET %s, %s = %s, %s = %[4]s WHERE ", m.b.Place(t.Name), m.synced(), schemas.ColValidTo, m.until(at), schemas.ColDeletedAt)
	}
	return fmt.Sprintf("UPDATE %s AS t SET %s, %s = %s WHERE ", m.b.Place(t.Name), m.synced(), schemas.ColDeletedAt, at)
}
