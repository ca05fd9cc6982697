package sqlmerge

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// merge changes the rows of tables. The tables already fit the staged rows. It is the second part of an Apply.
type merge struct {
	sql    *statements
	in     *scope
	tables targets
	seen   *seen
	log    *rowLog
	out    *load.Outcome
	whole  bool // this process has made all transactions of the pass
}

// lastTime returns the latest [schemas.ColSyncedAt] in the tables that get rows.
func (m *merge) lastTime(pending []*load.Staged) (last time.Time, err error) {
	for _, p := range pending {
		t := m.tables[p.Name]
		if load.IsInternal(p.Name) || load.Child(t.Columns) || t.empty {
			continue
		}
		micros := int64(0)
		if err := m.sql.numbers("SELECT "+m.in.Micros("max(t."+schemas.ColSyncedAt+")")+" FROM "+t.rows(), &micros); err != nil {
			return last, fmt.Errorf("read times of %s: %w", p.Name, err)
		}
		if at := time.UnixMicro(micros); at.After(last) {
			last = at
		}
	}
	return last, nil
}

// The method rows() merges the staged rows, each root table together with its children.
func (m *merge) rows(pending []*load.Staged) error {
	for _, p := range pending {
		t := m.tables[p.Name]
		if load.Child(t.Columns) || p.Rows == 0 {
			continue
		}
		var err error
		switch {
		case load.IsInternal(t.Name):
			err = m.internal(t)
		case len(t.Key) > 0:
			err = m.keyed(t)
		default:
			err = m.keyless(t)
		}
		if err != nil {
			return fmt.Errorf("merge %s: %w", p.Name, err)
		}
	}
	return nil
}

// internal writes the staged rows to one of penstock's own tables. A staged row replaces the stored row that has the
// same key.
func (m *merge) internal(t *target) error {
	all := Insertion{Table: t.Table, Staged: t.staged}
	switch {
	case len(t.Key) == 0:
		return m.sql.Insert(m.sql.ctx, all)
	case m.in.traits.PrimaryKeys:
		return m.sql.Session.(Keyed).Upsert(m.sql.ctx, all, -1)
	}
	if done, err := m.replaceListed(t); done || err != nil {
		return err
	}
	return m.compareAndWrite(t, t.staged)
}

// maxListed is the greatest number of rows whose keys are written into a statement. SQLite limits the depth of an
// expression to 1,000.
const maxListed = 100

// replaceListed does the work of the method internal if there are only a few rows. It runs two statements, and
// compareAndWrite would run ten. It does nothing and returns false in three cases: there are many rows, two rows have
// the same key, or users have added columns to the table.
func (m *merge) replaceListed(t *target) (done bool, err error) {
	if t.staged.Rows > maxListed || len(t.userColumns) > 0 {
		return false, nil
	}
	keys := map[string]bool{}
	var listed []string
	err = StagedColumns(t.staged, t.Columns, t.Key, "").Each(m.sql.ctx, func(values []any) error {
		and := make([]string, len(values))
		for i, v := range values {
			and[i] = "t." + Ident(t.Key[i]) + " = " + m.in.Literal(fmt.Sprint(v)) // the keys of these tables are texts
		}
		key := strings.Join(and, " AND ")
		keys[key], listed = true, append(listed, "("+key+")")
		return nil
	})
	if err != nil || len(keys) < len(listed) {
		return false, err
	}
	if !t.empty {
		if err := m.sql.change(t, "DELETE FROM "+t.place()+" AS t WHERE ("+strings.Join(listed, " OR ")+")"+t.own("t.")); err != nil {
			return false, err
		}
	}
	return true, m.sql.Insert(m.sql.ctx, Insertion{Table: t.Table, Staged: t.staged})
}

// keyed merges rows by their key.
func (m *merge) keyed(t *target) error {
	if m.in.traits.PrimaryKeys {
		if done, err := m.insertUncompared(t); done || err != nil {
			return err
		}
		if err := m.addKeys(m.tables.children(t)); err != nil { // from here on, rows of the child tables are found by their keys
			return err
		}
	}
	if err := m.sql.step("stage"); err != nil {
		return err
	}
	if err := m.seen.cast(m.sql, t); err != nil {
		return err
	}
	compared := t.staged
	if m.in.traits.PrimaryKeys {
		rest, err := m.seen.skipUnchanged(m.sql, t)
		if err != nil {
			return err
		}
		if rest != nil {
			defer rest.Release()
			m.out.Unchanged += t.staged.Rows - rest.Rows
			compared = rest
		}
		if compared.Rows == 0 {
			m.seen.fresh[t.Name] = false
			return nil
		}
	}
	return m.compareAndWrite(t, compared)
}

// insertUncompared is for a table with a primary key that probably has no rows of the arriving records. It appends the
// staged rows without comparing them with the table. If no row violates the primary key, all rows are new. Otherwise
// insertUncompared undoes the insertion. It reports whether the rows were inserted.
func (m *merge) insertUncompared(t *target) (bool, error) {
	if err := m.seen.track(m.sql, t); err != nil {
		return false, err
	}
	if m.log != nil || t.Mode == schemas.Append {
		return false, nil
	}
	if !m.seen.fresh[t.Name] && !t.empty {
		if empty, err := isEmpty(m.sql.ctx, m.sql, t.rows()); !empty || err != nil {
			return false, err
		}
	}
	if err := m.sql.step("copy"); err != nil {
		return false, err
	}
	done, err := m.sql.Session.(Keyed).Try(m.sql.ctx, func() error { return m.insertFamily(t, counts{fresh: t.staged.Rows}) })
	if err != nil {
		return false, err
	}
	m.seen.fresh[t.Name] = done
	if done {
		m.out.Written += t.staged.Rows
		m.out.Inserted += t.staged.Rows
	}
	return done, nil
}

// compareAndWrite compares staged rows with the table, and writes what is new or changed. The argument `compared` has
// all staged rows, or only the keys and hashes of some staged rows. In the second case, the other staged rows are known
// to be unchanged.
func (m *merge) compareAndWrite(t *target, compared *load.Staged) error {
	again, carried := m.seen.again(t)
	err := m.sql.Stage(m.sql.ctx, compared, t.Columns, stagedColumns(t), func(from string) error {
		return m.sql.temp(status, statusSQL(t, from, again, carried))
	})
	if err != nil {
		return err
	}
	n, err := m.count(t, compared.Rows)
	if err != nil {
		return err
	}
	m.seen.fresh[t.Name] = n.fresh == t.staged.Rows
	unchanged := "SELECT " + strings.Join(keyColumns("", t.Key), ", ") + " FROM " + m.in.records(isUnchanged) + " AND NOT again"
	if err := m.seen.add(m.sql, t, unchanged, n.unchanged); err != nil || n.written() == 0 {
		return err
	}
	if err := m.log.written(t, n); err != nil {
		return err
	}
	if n.changed > 0 && OneRowPerKey(t.Table) && m.in.traits.PrimaryKeys {
		return m.replaceInPlace(t, n)
	}
	if n.changed+n.next > 0 {
		if err := m.supersede(t, n); err != nil {
			return err
		}
	}
	return m.insertFamily(t, n)
}

// count counts the records of the status table: how many are new, changed and so on. The second argument is the number
// of rows that were compared.
func (m *merge) count(t *target, staged int64) (counts, error) {
	var n counts
	var records, again, revived, unchangedAgain int64
	shifted := "1 = 0"
	if t.Mode == schemas.History {
		shifted = isWritten + " AND f <> y"
	}
	err := m.sql.numbers("SELECT count(*), "+strings.Join([]string{
		countIf("st = " + isNew), countIf("st = " + isChanged), countIf("st = " + isNext), countIf("st = " + isUnchanged + " AND NOT again"),
		countIf("again"), countIf("revived AND " + isWritten + " AND NOT again"), countIf("st = " + isUnchanged + " AND again"), countIf(shifted),
	}, ", ")+" FROM "+m.in.Temp(status), &records, &n.fresh, &n.changed, &n.next, &n.unchanged, &again, &revived, &unchangedAgain, &n.shifted)
	if err != nil || load.IsInternal(t.Name) {
		return n, err
	}
	o := m.out
	o.Deduplicated += staged - records + again
	o.Inserted += n.fresh
	o.Written += n.written() - (again - unchangedAgain)
	o.Unchanged += n.unchanged
	o.Revived += revived
	return n, nil
}

// replaceInPlace writes the new rows of changed records over their previous rows, and inserts the new records.
func (m *merge) replaceInPlace(t *target, n counts) error {
	if err := m.sql.step("delete"); err != nil {
		return err
	}
	if err := m.removeChildren(t); err != nil {
		return err
	}
	changed := Insertion{Table: t.Table, Staged: t.staged, Chosen: "SELECT o FROM " + m.in.records(isChanged)}
	if n.changed == t.staged.Rows {
		changed.Chosen = ""
	}
	if err := m.sql.Session.(Keyed).Upsert(m.sql.ctx, changed, n.changed); err != nil {
		return err
	}
	if n.fresh > 0 {
		if err := m.sql.step("insert"); err != nil {
			return err
		}
		if err := m.sql.Insert(m.sql.ctx, Insertion{Table: t.Table, Staged: t.staged, Chosen: "SELECT o FROM " + m.in.records(isNew)}); err != nil {
			return err
		}
	}
	return m.insertChildren(t, t.chosen(n))
}

// supersede deletes the previous rows of records that are replaced in place, and the child rows of these records. In
// History, it ends each version that is followed by a new version, and ends the child rows of that version.
func (m *merge) supersede(t *target, n counts) error {
	if err := m.sql.step("delete"); err != nil {
		return err
	}
	if n.changed > 0 {
		if err := m.saveUserColumns(t); err != nil {
			return err
		}
		if err := m.sql.change(t, "DELETE FROM "+t.place()+" AS t WHERE "+t.keyIn(m.in.records(isChanged))+t.replaced("t.")); err != nil {
			return err
		}
		if err := m.removeChildren(t); err != nil {
			return err
		}
	}
	if n.next > 0 && t.Mode == schemas.History {
		return m.end(t)
	}
	return nil
}

// removeChildren deletes the child rows of rows that are replaced.
func (m *merge) removeChildren(t *target) error {
	return m.changeChildren(t, func(c *target) string {
		links, link := t.links(c, "", m.in.records(isChanged))
		return fmt.Sprintf("DELETE FROM %s AS t WHERE %s IN (%s)%s", c.place(), link, links, c.replaced("t."))
	})
}

// The method end() ends the versions that are followed by a new one, and their child rows.
func (m *merge) end(t *target) error {
	set := "SET " + m.in.synced() + ", " + schemas.ColValidTo + " = "
	err := m.sql.change(t, fmt.Sprintf("UPDATE %s AS t %ss.f FROM %s AS s WHERE s.st = %s AND %s AND %s%s",
		t.place(), set, m.in.Temp(status), isNext, on("s", t.Key), t.current("t."), t.own("t.")))
	if err != nil {
		return err
	}
	return m.changeChildren(t, func(c *target) string {
		links, link := t.links(c, ", f", m.in.records(isNext))
		return fmt.Sprintf("UPDATE %s AS t %s%s FROM (%s) AS s WHERE s.l = %s AND %s%s",
			c.place(), set, m.in.until("s.f"), links, link, c.current("t."), c.own("t."))
	})
}

// changeChildren runs a statement for each child table of t that may have rows.
func (m *merge) changeChildren(t *target, statement func(c *target) string) error {
	for _, c := range m.tables.children(t) {
		if c.empty {
			continue
		}
		if err := m.sql.change(c, statement(c)); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// foreignCells is a temporary table with the values of users' own columns, taken from the rows that are about to be
// replaced. The column o of this table is the ordinal of the new row.
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
	return m.sql.temp(foreignCells, fmt.Sprintf("SELECT s.o, %s FROM %s AS t JOIN %s AS s ON %s WHERE s.st = %s%s",
		strings.Join(columns, ", "), t.place(), m.in.Temp(status), on("s", t.Key), isChanged, t.replaced("t.")))
}

// restoreUserColumns writes the values that saveUserColumns has saved into the new rows.
func (m *merge) restoreUserColumns(t *target) error {
	if len(t.userColumns) == 0 {
		return nil
	}
	set := make([]string, len(t.userColumns))
	for i, f := range t.userColumns {
		set[i] = fmt.Sprintf("%s = f.f%d", Ident(f), i)
	}
	return m.sql.change(t, fmt.Sprintf("UPDATE %s AS t SET %s FROM %s AS s, %s AS f WHERE f.o = s.o AND %s%s",
		t.place(), strings.Join(set, ", "), m.in.Temp(status), m.in.Temp(foreignCells), on("s", t.Key), t.replaced("t.")))
}

// insertFamily appends the new and changed records and their child rows.
func (m *merge) insertFamily(t *target, n counts) error {
	if n.written() == 0 {
		return nil
	}
	if err := m.sql.step("insert"); err != nil {
		return err
	}
	i := t.chosen(n)
	if err := m.sql.Insert(m.sql.ctx, i); err != nil {
		return err
	}
	if n.changed > 0 {
		if err := m.restoreUserColumns(t); err != nil {
			return err
		}
	}
	return m.insertChildren(t, i)
}

// insertChildren appends the child rows of the records that the insertion i selects.
func (m *merge) insertChildren(t *target, i Insertion) error {
	if err := m.sql.step("children"); err != nil {
		return err
	}
	for _, c := range m.tables.children(t) {
		if c.staged == nil || c.staged.Rows == 0 {
			continue
		}
		i.Table, i.Staged = c.Table, c.staged
		if err := m.sql.Insert(m.sql.ctx, i); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}
