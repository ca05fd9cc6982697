package postgres

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// writeRows writes the new and changed records. How it does that depends on the table's mode.
func (m *merge) writeRows(t *target, n counts) error {
	written, err := m.selectOrdinals(t, "st < "+isUnchanged, n.fresh+n.changed)
	if err != nil {
		return err
	}
	switch {
	case t.Mode == schemas.History:
		return m.writeHistory(t, n, written)
	case t.Mode == schemas.Append:
		if err := m.deleteOwnVersions(t, n, " AND t."+ident(schemas.ColRun)+` COLLATE "C" >= `+literal(m.of.Run)); err != nil {
			return err
		}
		return m.insertFamily(t, written)
	}
	return m.writeMerge(t, n, written)
}

// writeMerge replaces changed rows and inserts new ones.
func (m *merge) writeMerge(t *target, n counts, written *ordinals) error {
	if n.changed == 0 {
		return m.insertFamily(t, written)
	}
	if err := m.db.step("delete"); err != nil {
		return err
	}
	if err := m.deleteChildren(t, "st = "+isChanged, ""); err != nil {
		return err
	}
	if err := m.update(t, n); err != nil {
		return err
	}
	if n.fresh > 0 {
		fresh, err := m.selectOrdinals(t, "st = "+isNew, n.fresh)
		if err != nil {
			return err
		}
		if err := m.db.step("insert"); err != nil {
			return err
		}
		if err := m.insert(t, fresh); err != nil {
			return err
		}
	}
	return m.insertChildren(t, written)
}

// deleteChildren deletes child rows. records is a condition on the status table that selects their records. rows is
// an additional condition on the child rows.
func (m *merge) deleteChildren(t *target, records, rows string) error {
	for _, c := range m.children(t) {
		if c.made {
			continue
		}
		key, link := m.linkOf(t, c)
		err := m.s.run(m.ctx, fmt.Sprintf("DELETE FROM %s AS t USING (SELECT %s AS l FROM %s WHERE %s) AS s WHERE s.l = %s%s",
			m.db.place(c.Name), key, status, records, link, rows+m.ownRowsSQL(c)))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// update replaces the stored rows of the changed records.
func (m *merge) update(t *target, n counts) error {
	changed, err := m.selectOrdinals(t, "st = "+isChanged, n.changed)
	if err != nil {
		return err
	}
	if err := m.db.step("copy"); err != nil {
		return err
	}
	if err := m.stageRows(t, changed); err != nil {
		return err
	}
	if err := m.db.step("merge"); err != nil {
		return err
	}
	hash, deleted := ident(schemas.ColHash), ident(schemas.ColDeletedAt)
	done, err := m.upsert(t, " WHERE t."+hash+" IS DISTINCT FROM excluded."+hash+" OR t."+deleted+" IS NOT NULL")
	m.written[t.Name] += done
	return checkCount(done, n.changed, err)
}

// stageRows copies whole rows into a temporary table.
func (m *merge) stageRows(t *target, subset *ordinals) error {
	sources := wholeRows(t)
	var defs []string
	for _, s := range sources {
		defs = append(defs, ident(s.from)+" "+m.typeOf(t, s))
	}
	if err := m.s.run(m.ctx, temporary(stagedIn, "("+strings.Join(defs, ", ")+") ON COMMIT DROP")); err != nil {
		return err
	}
	_, err := m.copy(t, "COPY "+stagedIn, sources, subset, true)
	return err
}

// wholeRows returns the columns that are sent for whole rows of t. The last one is the ordinal.
func wholeRows(t *target) []source {
	var sources []source
	for _, f := range t.Columns.Fields() {
		sources = append(sources, source{from: f.Name, to: schemas.TypeOf(f)})
	}
	return append(sources, source{schemas.ColOrdinal, schemas.Int64})
}

// typeOf returns the Postgres type of a column of wholeRows.
func (m *merge) typeOf(t *target, s source) string {
	if typ := t.types[s.from]; typ != "" {
		return typ
	}
	return m.db.sqlType(s.to)
}

// upsert writes the rows in stagedIn to t. If several rows have the same key, it writes the last one. The parameter
// condition is "" or a WHERE clause that selects which existing rows are replaced.
func (m *merge) upsert(t *target, condition string) (int64, error) {
	return m.s.affect(m.ctx, m.upsertSQL(t, stagedIn, condition))
}

func (m *merge) upsertSQL(t *target, from, where string) string {
	names := load.Names(t.Columns)
	set := make([]string, 0, len(names))
	for _, name := range names {
		set = append(set, ident(name)+" = excluded."+ident(name))
	}
	return fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT DISTINCT ON (%s) %s FROM %s ORDER BY %s, %s DESC ON CONFLICT (%s) DO UPDATE SET %s%s",
		m.db.place(t.Name), idents(names), idents(t.Key), idents(names), from, idents(t.Key), ident(schemas.ColOrdinal), idents(load.FullKey(t.Table)), strings.Join(set, ", "), where)
}

// fewRows is the greatest number of rows that are written without a temporary table. Creating and dropping a
// temporary table costs far more than writing a few rows, and leaves dead rows in the server's catalog.
const fewRows = 16

// upsertFew does the work of stageRows and upsert for a few rows, without a temporary table.
func (m *merge) upsertFew(t *target) error {
	sources := wholeRows(t)
	c := m.copier(t, sources, nil, true)
	var rows []string
	var values [][]byte
	for _, b := range t.staged.Batches {
		if err := c.open(b); err != nil {
			return err
		}
		for row := range c.ordinals {
			cells := make([]string, len(sources))
			for i, e := range c.encoders {
				v := e.append(nil, row)
				cells[i] = fmt.Sprintf("$%d::%s", len(values)+1, m.typeOf(t, sources[i]))
				if values = append(values, v[4:]); int32(binary.BigEndian.Uint32(v)) < 0 {
					values[len(values)-1] = nil
				}
			}
			rows = append(rows, "("+strings.Join(cells, ", ")+")")
		}
	}
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.from
	}
	return m.s.execParams(m.ctx, m.upsertSQL(t, "(VALUES "+strings.Join(rows, ", ")+") AS s ("+idents(names)+")", ""), values)
}

// deleteOwnVersions deletes versions that this pass has written, and their child rows, if the pass has now read the
// same records with other content.
func (m *merge) deleteOwnVersions(t *target, n counts, rows string) error {
	if n.replaced == 0 {
		return nil
	}
	if err := m.db.step("delete"); err != nil {
		return err
	}
	if err := m.deleteChildren(t, "mine AND st = "+isChanged, rows); err != nil {
		return err
	}
	done, err := m.s.affect(m.ctx, "DELETE FROM "+m.db.place(t.Name)+" AS t USING "+status+" AS s WHERE t.ctid = s.tid AND s.mine AND s.st = "+isChanged)
	return checkCount(done, n.replaced, err)
}

// checkCount checks that a statement has changed the expected number of rows.
func checkCount(done, want int64, err error) error {
	if err == nil && done != want {
		return retryable{fmt.Errorf("expected to change %d rows, changed %d: another session changed the table meanwhile", want, done)}
	}
	return err
}

// writeHistory ends the versions that have a successor, and inserts the successors.
func (m *merge) writeHistory(t *target, n counts, written *ordinals) error {
	if err := m.deleteOwnVersions(t, n, " AND t."+t.ended()+" IS NULL"); err != nil {
		return err
	}
	if n.superseded > 0 {
		if err := m.db.step("end"); err != nil {
			return err
		}
		over := "s.live AND NOT s.mine AND s.st = " + isChanged
		done, err := m.s.affect(m.ctx, "UPDATE "+m.db.place(t.Name)+" AS t SET "+m.synced()+", "+t.ended()+" = s.f FROM "+status+" AS s WHERE t.ctid = s.tid AND "+over)
		if err := checkCount(done, n.superseded, err); err != nil {
			return err
		}
		if err := m.endChildren(t, status+" AS s WHERE "+over, "s.f", false); err != nil {
			return err
		}
	}
	if err := m.insertFamily(t, written); err != nil {
		return err
	}
	if n.shifted == 0 {
		return nil
	}
	return m.correctValidity(t)
}

// synced returns the assignment that sets a row's synced_at to the time of the commit.
func (m *merge) synced() string { return ident(schemas.ColSyncedAt) + " = " + timestamp(m.commitTime) }

// endChildren ends the validity of the current child rows of the given records. The SQL expression end is the time at
// which the validity ends. If a row's validity begins later than that time, the validity ends when it begins. If
// deleted is true, the child rows become tombstones.
func (m *merge) endChildren(t *target, records, end string, deleted bool) error {
	for _, c := range m.children(t) {
		key, link := m.linkOf(t, c)
		until := "greatest(s.f, t." + ident(schemas.ColValidFrom) + ")"
		set := m.synced() + ", " + ident(schemas.ColValidTo) + " = " + until
		if deleted {
			set += ", " + ident(schemas.ColDeletedAt) + " = " + until
		}
		err := m.s.run(m.ctx, fmt.Sprintf("UPDATE %s AS t SET %s FROM (SELECT %s AS l, %s AS f FROM %s) AS s WHERE s.l = %s AND t.%s IS NULL%s",
			m.db.place(c.Name), set, key, end, records, link, ident(schemas.ColValidTo), m.ownRowsSQL(c)))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// correctValidity corrects when the validity of new versions begins. They were written as valid from their synced_at.
// If a version replaces another version of the same pass, it begins when that other version began. No version begins
// before the previous version has ended.
func (m *merge) correctValidity(t *target) error {
	moved := "s.st < " + isUnchanged + " AND s.f <> s.y"
	from := ident(schemas.ColValidFrom)
	err := m.s.run(m.ctx, "UPDATE "+m.db.place(t.Name)+" AS t SET "+from+" = s.f FROM "+status+" AS s WHERE "+on("s", t.Key)+" AND t."+t.ended()+" IS NULL AND "+moved+m.ownRowsSQL(t))
	if err != nil {
		return err
	}
	for _, c := range m.children(t) {
		key, link := m.linkOf(t, c)
		err := m.s.run(m.ctx, fmt.Sprintf("UPDATE %s AS t SET %s = s.f FROM (SELECT %s AS l, s.f FROM %s AS s WHERE %s) AS s WHERE s.l = %s AND t.%s IS NULL%s",
			m.db.place(c.Name), from, key, status, moved, link, ident(schemas.ColValidTo), m.ownRowsSQL(c)))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// writeOwn writes rows of penstock's own tables. In a table with a key, it replaces existing rows. Otherwise it
// appends.
func (m *merge) writeOwn(t *target) error {
	if err := m.db.step("ledger"); err != nil {
		return err
	}
	if len(t.Key) == 0 {
		return m.insert(t, nil)
	}
	if t.staged.Rows <= fewRows {
		return m.upsertFew(t)
	}
	if err := m.stageRows(t, nil); err != nil {
		return err
	}
	_, err := m.upsert(t, "")
	return err
}
