//go:build cgo && duckdb_arrow

package duckdb

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
			err = m.insert(t, chosen{})
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
	if err := m.db.step("stage"); err != nil {
		return err
	}
	if err := m.castCarried(t); err != nil {
		return err
	}
	err := m.scan(t.staged, t.Columns, stagedColumns(t), func(from string) error {
		return m.s.exec(m.ctx, "CREATE OR REPLACE TEMP TABLE _penstock_status AS "+m.statusSQL(t, from))
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
	if err := m.db.step("delete"); err != nil {
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
		return ours + " AND " + prefix + schemas.ColRun + " >= " + literal(m.of.Run)
	}
	return ours
}

// remove deletes the rows that are replaced and their child rows.
func (m *merge) remove(t *target) error {
	err := m.change(m.ctx, t.Name, fmt.Sprintf("DELETE FROM %s AS t USING %s AS s WHERE s.st = %s AND %s%s",
		place(t.Name), status, isChanged, on("s", t.Key), m.replaced(t, "t.")))
	if err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.empty {
			continue
		}
		key, link := linkOf(t, c)
		err := m.change(m.ctx, c.Name, fmt.Sprintf("DELETE FROM %s AS t USING (SELECT %s AS l FROM %s WHERE st = %s) AS s WHERE s.l = %s%s",
			place(c.Name), key, status, isChanged, link, m.replaced(c, "t.")))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
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
		var last int64
		if err := m.s.numbers(m.ctx, fmt.Sprintf("SELECT epoch_us(max(%s)) FROM %s", schemas.ColSyncedAt, m.ownRelation(t)), &last); err != nil {
			return fmt.Errorf("read times of %s: %w", p.Name, err)
		}
		m.when = load.CommitTime(m.when, time.UnixMicro(last))
	}
	return nil
}

// synced returns the assignment that gives a changed row the commit's time.
func (m *merge) synced() string { return schemas.ColSyncedAt + " = " + timestamp(m.when) }

// end ends the versions that are followed by a new one, and their child rows.
func (m *merge) end(t *target) error {
	set := "SET " + m.synced() + ", " + schemas.ColValidTo + " = s.f"
	err := m.change(m.ctx, t.Name, fmt.Sprintf("UPDATE %s AS t %s FROM %s AS s WHERE s.st = %s AND %s AND %s%s",
		place(t.Name), set, status, isNext, on("s", t.Key), t.currentSQL("t."), m.ownRowsSQL(t, "t.")))
	if err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.empty {
			continue
		}
		key, link := linkOf(t, c)
		err := m.change(m.ctx, c.Name, fmt.Sprintf("UPDATE %s AS t %s FROM (SELECT %s AS l, f FROM %s WHERE st = %s) AS s WHERE s.l = %s AND %s%s",
			place(c.Name), set, key, status, isNext, link, c.currentSQL("t."), m.ownRowsSQL(c, "t.")))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// foreignCells is a temporary table with the values that users' own columns have in rows that are about to be replaced.
// The column o of this table is the ordinal of the new row.
const foreignCells = "temp.main._penstock_foreign"

// saveUserColumns fills foreignCells from the rows that are about to be replaced. // Invariant 16
func (m *merge) saveUserColumns(t *target) error {
	if len(t.userColumns) == 0 {
		return nil
	}
	columns := make([]string, len(t.userColumns))
	for i, f := range t.userColumns {
		columns[i] = fmt.Sprintf("t.%s AS f%d", ident(f), i)
	}
	return m.s.exec(m.ctx, fmt.Sprintf("CREATE OR REPLACE TEMP TABLE _penstock_foreign AS SELECT s.o, %s FROM %s AS t JOIN %s AS s ON %s WHERE s.st = %s%s",
		strings.Join(columns, ", "), m.ownRelation(t), status, on("s", t.Key), isChanged, m.replaced(t, "t.")))
}

// restoreUserColumns copies the values that saveUserColumns stored to the new rows.
func (m *merge) restoreUserColumns(t *target) error {
	if len(t.userColumns) == 0 {
		return nil
	}
	set := make([]string, len(t.userColumns))
	for i, f := range t.userColumns {
		set[i] = fmt.Sprintf("%s = f.f%d", ident(f), i)
	}
	return m.change(m.ctx, t.Name, fmt.Sprintf("UPDATE %s AS t SET %s FROM %s AS s, %s AS f WHERE f.o = s.o AND %s%s",
		place(t.Name), strings.Join(set, ", "), status, foreignCells, on("s", t.Key), m.replaced(t, "t.")))
}

// chosen selects the staged rows for an insert and sets the start of their validity.
type chosen struct {
	where     string // condition after FROM … AS r; "": all rows
	validFrom string
}

// insertFamily appends the new and changed records and their child rows.
func (m *merge) insertFamily(t *target, n counts) error {
	if n.written() == 0 {
		return nil
	}
	rows := chosen{validFrom: "r." + schemas.ColSyncedAt}
	switch {
	case len(t.Key) > 0 && t.Mode == schemas.History && !t.empty:
		rows = chosen{
			where:     fmt.Sprintf(" JOIN %s AS s ON s.o = r.%s WHERE s.st < %s", status, schemas.ColOrdinal, isUnchanged),
			validFrom: "s.f",
		}
	case n.written() < n.staged:
		rows.where = fmt.Sprintf(" WHERE r.%s IN (SELECT o FROM %s WHERE st < %s)", schemas.ColOrdinal, status, isUnchanged)
	}
	if err := m.db.step("insert"); err != nil {
		return err
	}
	if err := m.insert(t, rows); err != nil {
		return err
	}
	if n.changed > 0 {
		if err := m.restoreUserColumns(t); err != nil {
			return err
		}
	}
	if err := m.db.step("children"); err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.staged == nil || c.staged.Rows == 0 {
			continue
		}
		if err := m.insert(c, rows); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// insert appends staged rows.
func (m *merge) insert(t *target, rows chosen) error {
	names := load.Names(t.Columns)
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = "r." + ident(name)
		if name == schemas.ColValidFrom && t.Mode == schemas.History {
			values[i] = rows.validFrom
		}
	}
	scanned := names
	if rows.where != "" {
		scanned = append(scanned[:len(scanned):len(scanned)], schemas.ColOrdinal)
	}
	return m.scan(t.staged, t.Columns, scanned, func(from string) error {
		return m.s.exec(m.ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS r%s",
			place(t.Name), idents(names), strings.Join(values, ", "), from, rows.where))
	})
}
