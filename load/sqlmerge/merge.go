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

// OneRowPerKey reports whether a table has at most one row per key.
func OneRowPerKey(t schemas.Table) bool {
	return len(t.Key) > 0 && t.Mode != schemas.Append && t.Mode != schemas.History
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
		case len(t.Key) > 0 && load.IsInternal(t.Name) && m.db.traits.PrimaryKeys:
			err = m.s.(Keyed).Upsert(m.ctx, Insertion{Table: t.Table, Staged: t.staged}, -1)
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
	if load.IsInternal(t.Name) {
		if done, err := m.replaceListed(t); done || err != nil {
			return err
		}
	}
	compared := t.staged
	if m.db.traits.PrimaryKeys {
		if done, err := m.insertUncompared(t); done || err != nil {
			return err
		}
	}
	if err := m.b.Step("stage"); err != nil {
		return err
	}
	if err := m.castCarried(t); err != nil {
		return err
	}
	if m.db.traits.PrimaryKeys {
		rest, err := m.skipUnchanged(t)
		if err != nil {
			return err
		}
		if rest != nil {
			defer rest.Release()
			compared = rest
		}
		if compared.Rows == 0 {
			m.fresh[t.Name] = false
			return nil
		}
	}
	n, err := m.compare(t, compared)
	if err != nil {
		return err
	}
	m.fresh[t.Name] = n.fresh == t.staged.Rows
	if err := m.recordCarried(t, n.unchanged); err != nil {
		return err
	}
	if n.written() == 0 {
		return nil
	}
	if err := m.logWritten(t, n); err != nil {
		return err
	}
	if n.changed > 0 && OneRowPerKey(t.Table) && m.db.traits.PrimaryKeys {
		return m.replaceInPlace(t, n)
	}
	if n.changed+n.next > 0 {
		if err := m.supersede(t, n); err != nil {
			return err
		}
	}
	return m.insertFamily(t, n)
}

// insertUncompared appends the rows to a table with a primary key, without comparing them, if the table probably has
// none of them. If the primary key accepts all rows, they are new. Otherwise insertUncompared undoes the insertion. It
// reports whether the rows were inserted.
func (m *merge) insertUncompared(t *target) (bool, error) {
	if err := m.trackOrder(t); err != nil {
		return false, err
	}
	likely, known := m.fresh[t.Name]
	if !known {
		m.db.mu.Lock()
		likely = m.pass.fresh[t.Name]
		m.db.mu.Unlock()
	}
	if m.of.Log || t.Mode == schemas.Append {
		return false, nil
	}
	if !likely {
		if empty, err := m.isEmpty(t); !empty || err != nil {
			return false, err
		}
	}
	if err := m.b.Step("copy"); err != nil {
		return false, err
	}
	done, err := m.s.(Keyed).Try(m.ctx, func() error { return m.insertFamily(t, counts{fresh: t.staged.Rows}) })
	if err != nil {
		return false, err
	}
	m.fresh[t.Name] = done
	if done {
		m.out.Written += t.staged.Rows
		m.out.Inserted += t.staged.Rows
	}
	return done, nil
}

// isEmpty reports whether the table has no rows of the transaction's source.
func (m *merge) isEmpty(t *target) (bool, error) {
	if t.empty {
		return true, nil
	}
	some := int64(0)
	err := numbers(m.ctx, m.s, "SELECT count(*) FROM (SELECT 1 FROM "+m.ownRows(t)+" LIMIT 1) AS t", &some)
	return some == 0, err
}

// replaceInPlace writes the new rows of changed records over their previous rows, and inserts the new records.
func (m *merge) replaceInPlace(t *target, n counts) error {
	if err := m.b.Step("delete"); err != nil {
		return err
	}
	if err := m.removeChildren(t); err != nil {
		return err
	}
	changed := Insertion{Table: t.Table, Staged: t.staged, Chosen: "SELECT o FROM " + m.records(isChanged)}
	if n.changed == t.staged.Rows {
		changed.Chosen = ""
	}
	if err := m.s.(Keyed).Upsert(m.ctx, changed, n.changed); err != nil {
		return err
	}
	if n.fresh > 0 {
		if err := m.b.Step("insert"); err != nil {
			return err
		}
		if err := m.s.Insert(m.ctx, Insertion{Table: t.Table, Staged: t.staged, Chosen: "SELECT o FROM " + m.records(isNew)}); err != nil {
			return err
		}
	}
	return m.insertChildren(t, m.chosen(t, n))
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
		return ours + " AND " + m.writtenSQL(prefix)
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
	return m.removeChildren(t)
}

// removeChildren deletes the child rows of rows that are replaced.
func (m *merge) removeChildren(t *target) error {
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
	return m.s.CreateTemp(m.ctx, foreignCells, fmt.Sprintf("AS SELECT s.o, %s FROM %s AS t JOIN %s AS s ON %s WHERE s.st = %s%s",
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
	if err := m.b.Step("insert"); err != nil {
		return err
	}
	i := m.chosen(t, n)
	if err := m.s.Insert(m.ctx, i); err != nil {
		return err
	}
	if n.changed > 0 {
		if err := m.restoreUserColumns(t); err != nil {
			return err
		}
	}
	return m.insertChildren(t, i)
}

// chosen returns the insertion of the new and changed records.
func (m *merge) chosen(t *target, n counts) Insertion {
	i := Insertion{Table: t.Table, Staged: t.staged, Valid: n.shifted > 0}
	switch {
	case i.Valid:
		i.Chosen = "SELECT o, f FROM " + m.b.Temp(status) + " WHERE st < " + isUnchanged
	case n.written() < t.staged.Rows:
		i.Chosen = "SELECT o FROM " + m.b.Temp(status) + " WHERE st < " + isUnchanged
	}
	return i
}

// insertChildren appends the child rows of the records that the insertion i selects.
func (m *merge) insertChildren(t *target, i Insertion) error {
	if err := m.b.Step("children"); err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.staged == nil || c.staged.Rows == 0 {
			continue
		}
		i.Table, i.Staged = c.Table, c.staged
		if err := m.s.Insert(m.ctx, i); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}
