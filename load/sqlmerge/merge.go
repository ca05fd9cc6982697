package sqlmerge

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// merge is one call of Apply.
type merge struct {
	*tx
	ctx    context.Context
	out    *load.Outcome
	tables map[string]*target // those written to, swept, and their children
}

// target is a table of the destination that fits the staged rows.
type target struct {
	schemas.Table
	staged      *load.Staged // nil if nothing was staged
	empty       bool
	userColumns []string // columns that penstock did not make
}

// currentSQL returns the condition that a row is current: in History it has not ended, otherwise it is no tombstone.
// The prefix, such as "t.", is put before the column names.
func (t *target) currentSQL(prefix string) string {
	if t.Mode == schemas.History {
		return prefix + schemas.ColValidTo + " IS NULL"
	}
	return prefix + schemas.ColDeletedAt + " IS NULL"
}

// has reports whether the table has the given bookkeeping column.
func (t *target) has(column string) bool { return t.Columns.HasField(column) }

// ownRows returns a FROM item for the rows of t that belong to the transaction's source, with a condition.
func (x *tx) ownRows(t *target) string { return rowsSQL(x.b, t.Table, x.key.Source) }

// ownRowsSQL returns " AND" and the condition that a row of t belongs to the transaction's source. For a table that is
// not shared it returns "". The prefix, such as "t.", is put before the column name.
func (x *tx) ownRowsSQL(t *target, prefix string) string {
	if x.key.Source == "" || !load.Shared(t.Columns) {
		return ""
	}
	return " AND " + prefix + schemas.ColSource + " = " + x.b.Literal(x.key.Source)
}

// change runs a statement that deletes or updates rows of the named table.
func (m *merge) change(table, q string) error {
	if m.changed == nil {
		m.changed = map[string]bool{}
	}
	m.changed[table] = true
	return m.s.Exec(m.ctx, q)
}

// rows merges what was staged, each root table together with its children.
func (m *merge) rows(pending []*load.Staged) error {
	for _, p := range pending {
		t := m.tables[p.Name]
		if load.Child(t.Columns) || p.Rows == 0 {
			continue
		}
		var err error
		switch {
		case len(t.Key) > 0:
			err = m.keyed(t)
		case load.IsInternal(t.Name):
			err = m.s.Insert(m.ctx, Insertion{Table: t.Table, Staged: t.staged})
		default:
			err = m.keyless(t)
		}
		if err != nil {
			return fmt.Errorf("merge %s: %w", p.Name, err)
		}
	}
	return nil
}

// keyed merges rows by their key.
func (m *merge) keyed(t *target) error {
	if err := m.b.Step("stage"); err != nil {
		return err
	}
	if err := m.castCarried(t); err != nil {
		return err
	}
	err := m.s.Stage(m.ctx, t.staged, t.Columns, stagedColumns(t), func(from string) error {
		return m.temporary(status, "AS "+m.statusSQL(t, from))
	})
	if err != nil {
		return err
	}
	n, err := m.count(t)
	if err != nil {
		return err
	}
	if err := m.recordCarried(t, n.unchanged); err != nil {
		return err
	}
	if err := m.logWritten(t, n); err != nil {
		return err
	}
	if n.changed+n.next > 0 {
		if err := m.supersede(t, n); err != nil {
			return err
		}
	}
	return m.insertFamily(t, n)
}

// supersede deletes the previous rows of records that are replaced in place. In History, it ends the versions that a
// new version follows. Their child rows are treated in the same way.
func (m *merge) supersede(t *target, n counts) error {
	if err := m.b.Step("delete"); err != nil {
		return err
	}
	if n.changed > 0 {
		if err := m.saveUserColumns(t); err != nil {
			return err
		}
		if err := m.remove(t); err != nil {
			return err
		}
	}
	if n.next > 0 && t.Mode == schemas.History {
		return m.end(t)
	}
	return nil
}

// replaced returns " AND" and the condition that a row of t, or of one of its child tables, belongs to a version that
// is replaced in place. It returns "" if this holds for all rows of the record. The prefix is put before the column
// names.
func (m *merge) replaced(t *target, prefix string) string {
	ours := m.ownRowsSQL(t, prefix)
	switch t.Mode {
	case schemas.History:
		return ours + " AND " + prefix + schemas.ColValidTo + " IS NULL"
	case schemas.Append:
		return ours + " AND " + prefix + schemas.ColRun + " >= " + m.b.Literal(m.of.Run)
	}
	return ours
}

// records returns a FROM item with the records of the status table whose st has the given value.
func (m *merge) records(st string) string { return m.b.Temp(status) + " WHERE st = " + st }

// remove deletes the rows that are replaced and their child rows.
func (m *merge) remove(t *target) error {
	err := m.change(t.Name, "DELETE FROM "+m.b.Place(t.Name)+" AS t WHERE "+m.keyIn(t, m.records(isChanged))+m.replaced(t, "t."))
	if err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.empty {
			continue
		}
		links, link := m.linksOf(t, c, "", m.records(isChanged))
		if err := m.change(c.Name, fmt.Sprintf("DELETE FROM %s AS t WHERE %s IN (%s)%s", m.b.Place(c.Name), link, links, m.replaced(c, "t."))); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// keyIn returns the condition that the key of a row t is one of those that a FROM item has.
func (m *merge) keyIn(t *target, records string) string {
	key := make([]string, len(t.Key))
	for i, k := range t.Key {
		key[i] = "t." + Ident(k)
	}
	return fmt.Sprintf("(%s) IN (SELECT %s FROM %s)", strings.Join(key, ", "), strings.Join(keyColumns("", t.Key), ", "), records)
}

// advanceTime makes the commit's time later than the times of all rows in the tables. It has to look at the rows only
// if the stream's row in _penstock_state is lost. Otherwise that row has the time of the last commit, and no row is
// later.
func (m *merge) advanceTime(pending []*load.Staged) error {
	if m.at.sequence > 0 || m.timed {
		return nil
	}
	m.timed = true
	for _, p := range pending {
		t := m.tables[p.Name]
		if load.IsInternal(p.Name) || load.Child(t.Columns) || t.empty {
			continue
		}
		last := int64(0)
		query := "SELECT " + m.b.Micros("max(t."+schemas.ColSyncedAt+")") + " FROM " + m.ownRows(t)
		if err := numbers(m.ctx, m.s, query, &last); err != nil {
			return fmt.Errorf("read times of %s: %w", p.Name, err)
		}
		m.when = load.CommitTime(m.when, time.UnixMicro(last))
	}
	return nil
}

// synced returns the assignment that gives a changed row the commit's time.
func (m *merge) synced() string { return schemas.ColSyncedAt + " = " + m.b.Timestamp(m.when) }

// until returns an expression for the end of a row t of a table in mode History: the time at, but not before the row
// began.
func (m *merge) until(at string) string { return m.b.Greatest(at, "t."+schemas.ColValidFrom) }

// end ends the versions that are followed by a new one, and their child rows.
func (m *merge) end(t *target) error {
	set := "SET " + m.synced() + ", " + schemas.ColValidTo + " = "
	err := m.change(t.Name, fmt.Sprintf("UPDATE %s AS t %ss.f FROM %s AS s WHERE s.st = %s AND %s AND %s%s",
		m.b.Place(t.Name), set, m.b.Temp(status), isNext, on("s", t.Key), t.currentSQL("t."), m.ownRowsSQL(t, "t.")))
	if err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.empty {
			continue
		}
		links, link := m.linksOf(t, c, ", f", m.records(isNext))
		err := m.change(c.Name, fmt.Sprintf("UPDATE %s AS t %s%s FROM (%s) AS s WHERE s.l = %s AND %s%s",
			m.b.Place(c.Name), set, m.until("s.f"), links, link, c.currentSQL("t."), m.ownRowsSQL(c, "t.")))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// foreignCells is a temporary table with the values that users' own columns have in rows that are about to be replaced.
// The column o of this table is the ordinal of the new row.
const foreignCells = "_penstock_foreign"

// saveUserColumns fills foreignCells from the rows that are about to be replaced. // Invariant 16
func (m *merge) saveUserColumns(t *target) error {
	if len(t.userColumns) == 0 {
		return nil
	}
	columns := make([]string, len(t.userColumns))
	for i, f := range t.userColumns {
		columns[i] = fmt.Sprintf("t.%s AS f%d", Ident(f), i)
	}
	return m.temporary(foreignCells, fmt.Sprintf("AS SELECT s.o, %s FROM %s AS t JOIN %s AS s ON %s WHERE s.st = %s%s",
		strings.Join(columns, ", "), m.b.Place(t.Name), m.b.Temp(status), on("s", t.Key), isChanged, m.replaced(t, "t.")))
}

// restoreUserColumns copies the values that saveUserColumns stored to the new rows.
func (m *merge) restoreUserColumns(t *target) error {
	if len(t.userColumns) == 0 {
		return nil
	}
	set := make([]string, len(t.userColumns))
	for i, f := range t.userColumns {
		set[i] = fmt.Sprintf("%s = f.f%d", Ident(f), i)
	}
	return m.change(t.Name, fmt.Sprintf("UPDATE %s AS t SET %s FROM %s AS s, %s AS f WHERE f.o = s.o AND %s%s",
		m.b.Place(t.Name), strings.Join(set, ", "), m.b.Temp(status), m.b.Temp(foreignCells), on("s", t.Key), m.replaced(t, "t.")))
}

// insertFamily appends the new and changed records and their child rows.
func (m *merge) insertFamily(t *target, n counts) error {
	if n.written() == 0 {
		return nil
	}
	valid := len(t.Key) > 0 && t.Mode == schemas.History && !t.empty
	chosen := ""
	switch {
	case valid:
		chosen = "SELECT o, f FROM " + m.b.Temp(status) + " WHERE st < " + isUnchanged
	case n.written() < n.staged:
		chosen = "SELECT o FROM " + m.b.Temp(status) + " WHERE st < " + isUnchanged
	}
	if err := m.b.Step("insert"); err != nil {
		return err
	}
	if err := m.s.Insert(m.ctx, Insertion{Table: t.Table, Staged: t.staged, Chosen: chosen, Valid: valid}); err != nil {
		return err
	}
	if n.changed > 0 {
		if err := m.restoreUserColumns(t); err != nil {
			return err
		}
	}
	if err := m.b.Step("children"); err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.staged == nil || c.staged.Rows == 0 {
			continue
		}
		if err := m.s.Insert(m.ctx, Insertion{Table: c.Table, Staged: c.staged, Chosen: chosen, Valid: valid}); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}
