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
	if err := m.sql.step("sweep"); err != nil {
		return err
	}
	t := m.tables[s.Table]
	var err error
	switch {
	case t == nil:
		m.out.Known = true
	case t.Mode == schemas.Append: // rows are never missing
		m.out.Known = true
		err = m.sql.numbers("SELECT "+countIf(t.current("t."))+" FROM "+t.rows(), &m.out.Alive)
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

// The constant missing names a temporary table with the keys k0, k1… of the missing current rows, or of the current
// rows that [load.Sweep].Keys selects. For a table without a key, it has one row for each hash with surplus rows. Then
// the column h is the hash, n is the number of rows that stay, and spare is the number of surplus rows.
const missing = "_penstock_missing"

func (m *merge) sweepKeyed(t *target, s load.Sweep) error {
	var err error
	if s.Keys == nil {
		err = m.findMissing(t)
	} else {
		err = m.findKeys(t, s.Keys)
	}
	if err != nil {
		return err
	}
	m.out.Known = m.out.Missing == 0 || s.Keys != nil || m.whole && !m.seen.lost
	if err := m.list(t, s.List); err != nil {
		return err
	}
	if !s.Delete || !m.out.Known || m.out.Missing == 0 {
		return nil
	}
	m.out.Deleted = m.out.Missing
	return m.markDeleted(t)
}

// findMissing counts the current rows and the missing rows. A current row is missing if the pass has neither written it
// nor found it unchanged. If rows are missing, findMissing reads the table again and stores the keys of
// the missing rows.
func (m *merge) findMissing(t *target) error {
	from, unseen, err := m.seen.unseen(m.sql, t)
	if err != nil {
		return err
	}
	from += " WHERE " + t.current("t.") + t.own("t.")
	if err := m.sql.numbers("SELECT count(*), "+countIf(unseen)+" FROM "+from, &m.out.Alive, &m.out.Missing); err != nil || m.out.Missing == 0 {
		return err
	}
	return m.sql.temp(missing, "SELECT "+asKeys("t.", t.Key)+" FROM "+from+" AND "+unseen)
}

// findKeys counts the current rows, and stores the given keys that belong to current rows.
func (m *merge) findKeys(t *target, keys []arrow.RecordBatch) error {
	named := &load.Staged{Table: schemas.Table{Name: t.Name}}
	defer named.Release()
	for _, b := range keys {
		if err := named.Add(b); err != nil {
			return err
		}
	}
	find := func(from string) error {
		return m.sql.temp(missing, fmt.Sprintf("SELECT %s FROM %s AND %s AND %s",
			asKeys("t.", t.Key), t.rows(), t.keyIn("(SELECT "+asKeys("", t.Key)+" FROM "+from+" AS r) AS r"), t.current("t.")))
	}
	var err error
	if len(keys) == 0 {
		err = find("(SELECT * FROM " + t.place() + " LIMIT 0)")
	} else {
		err = m.sql.Stage(m.sql.ctx, named, t.Columns, t.Key, find)
	}
	if err != nil {
		return err
	}
	return m.sql.numbers(fmt.Sprintf("SELECT %s, (SELECT count(*) FROM %s) FROM %s",
		countIf(t.current("t.")), m.in.Temp(missing), t.rows()), &m.out.Alive, &m.out.Missing)
}

// The method list() adds at most n of the found keys to the outcome.
func (m *merge) list(t *target, n int) error {
	if n <= 0 || m.out.Missing == 0 {
		return nil
	}
	schema, err := load.Select(t.Columns, t.Key)
	if err != nil {
		return err
	}
	q := fmt.Sprintf("SELECT %s FROM %s LIMIT %d", strings.Join(keyColumns("", t.Key), ", "), m.in.Temp(missing), n)
	return m.sql.Stream(m.sql.ctx, q, schema, func(b arrow.RecordBatch) error {
		b.Retain()
		m.out.Keys = append(m.out.Keys, b)
		return nil
	})
}

// markDeleted deletes the rows that were found, in the way that the table's mode requires.
func (m *merge) markDeleted(t *target) error {
	found := t.keyIn(m.in.Temp(missing)) + " AND " + t.current("t.")
	if err := m.log.deleted(t, t.keyDocument("t."), t.document("t."), t.rows()+" AND "+found); err != nil {
		return err
	}
	if err := m.sql.change(t, t.deletion()+found+t.own("t.")); err != nil {
		return err
	}
	return m.changeChildren(t, func(c *target) string {
		links, link := t.links(c, "", m.in.Temp(missing))
		return c.deletion() + link + " IN (" + links + ")" + c.own("t.") + c.open("t.")
	})
}
