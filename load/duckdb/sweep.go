//go:build cgo && duckdb_arrow

package duckdb

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
	if err := m.db.step("sweep"); err != nil {
		return err
	}
	t := m.tables[s.Table]
	var err error
	switch {
	case t == nil:
		m.out.Known = true
	case t.Mode == schemas.Append: // rows are never missing
		m.out.Known = true
		err = m.s.numbers(m.ctx, fmt.Sprintf("SELECT count_if(%s) FROM %s", t.currentSQL(""), m.ownRelation(t)), &m.out.Alive)
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

// missingKeys is a temporary table with the keys k0, k1… of the missing current rows, or of those that
// [load.Sweep].Keys selects. For a table without a key, it has the hashes h that have surplus rows.
const missingKeys = "temp.main._penstock_missing"

func (m *merge) sweepKeyed(t *target, s load.Sweep) error {
	find := m.findMissing
	if s.Keys != nil {
		find = func(t *target) error { return m.findKeys(t, s.Keys) }
	}
	if err := find(t); err != nil {
		return err
	}
	err := m.s.numbers(m.ctx, fmt.Sprintf("SELECT count_if(%s), (SELECT count(*) FROM %s) FROM %s",
		t.currentSQL(""), missingKeys, m.ownRelation(t)), &m.out.Alive, &m.out.Missing)
	if err != nil {
		return err
	}
	m.out.Known = m.out.Missing == 0 || s.Keys != nil || m.of.Whole && !m.pass.lost
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

// findMissing stores the keys of the current rows that the pass has neither written nor found unchanged.
func (m *merge) findMissing(t *target) error {
	carried := ""
	if m.carried != nil {
		if err := m.castCarried(t); err != nil {
			return err
		}
		carried = fmt.Sprintf(" AND NOT EXISTS (SELECT 1 FROM %s AS c WHERE %s)", m.carried.table, on("c", t.Key))
	}
	return m.s.exec(m.ctx, fmt.Sprintf("CREATE OR REPLACE TEMP TABLE _penstock_missing AS SELECT %s FROM %s AS t "+
		"WHERE %s AND NOT coalesce(t.%s >= %s, false)%s",
		asKeys("t.", t.Key), m.ownRelation(t), t.currentSQL("t."), schemas.ColRun, literal(m.of.Run), carried))
}

// findKeys stores those of the given keys that current rows have.
func (m *merge) findKeys(t *target, keys []arrow.RecordBatch) error {
	named := &load.Staged{Table: schemas.Table{Name: t.Name}}
	defer named.Release()
	for _, b := range keys {
		if err := named.Add(b); err != nil {
			return err
		}
	}
	make := func(from string) error {
		return m.s.exec(m.ctx, fmt.Sprintf("CREATE OR REPLACE TEMP TABLE _penstock_missing AS SELECT %s FROM %s AS t "+
			"SEMI JOIN (SELECT %s FROM %s) AS s ON %s WHERE %s",
			asKeys("t.", t.Key), m.ownRelation(t), asKeys("", t.Key), from, on("s", t.Key), t.currentSQL("t.")))
	}
	if len(keys) == 0 {
		return make("(SELECT * FROM " + place(t.Name) + " LIMIT 0)")
	}
	return m.scan(named, t.Columns, t.Key, make)
}

// asKeys returns SQL that selects the columns of a key as k0, k1…. The prefix is put before the column names.
func asKeys(prefix string, key []string) string {
	out := make([]string, len(key))
	for i, k := range key {
		out[i] = fmt.Sprintf("%s%s AS k%d", prefix, ident(k), i)
	}
	return strings.Join(out, ", ")
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
	q := fmt.Sprintf("SELECT %s FROM %s LIMIT %d", strings.Join(keyColumns("", t.Key), ", "), missingKeys, n)
	return m.s.stream(m.ctx, q, func(b arrow.RecordBatch) error {
		m.out.Keys = append(m.out.Keys, retyped(b, schema))
		return nil
	})
}

// markDeleted deletes the rows that were found, in the way that the table's mode requires.
func (m *merge) markDeleted(t *target) error {
	err := m.change(m.ctx, t.Name, fmt.Sprintf("%s %s AS s WHERE %s AND %s%s", m.deleteSQL(t), missingKeys, on("s", t.Key), t.currentSQL("t."), m.ownRowsSQL(t, "t.")))
	if err != nil {
		return err
	}
	for _, c := range m.children(t) {
		key, link := linkOf(t, c)
		where := m.ownRowsSQL(c, "t.")
		if t.Mode == schemas.History {
			where += " AND " + c.currentSQL("t.")
		}
		err := m.change(m.ctx, c.Name, fmt.Sprintf("%s (SELECT %s AS l FROM %s) AS s WHERE s.l = %s%s", m.deleteSQL(c), key, missingKeys, link, where))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// deleteSQL returns the start of the statement that deletes rows of t, up to the selection of the rows.
func (m *merge) deleteSQL(t *target) string {
	at := timestamp(m.when)
	switch t.Mode {
	case schemas.Replace:
		return "DELETE FROM " + place(t.Name) + " AS t USING"
	case schemas.History:
		at = "greatest(" + at + ", t." + schemas.ColValidFrom + ")"
		return fmt.Sprintf("UPDATE %s AS t SET %s, %s = %s, %s = %[4]s FROM", place(t.Name), m.synced(), schemas.ColValidTo, at, schemas.ColDeletedAt)
	}
	return fmt.Sprintf("UPDATE %s AS t SET %s, %s = %s FROM", place(t.Name), m.synced(), schemas.ColDeletedAt, at)
}
