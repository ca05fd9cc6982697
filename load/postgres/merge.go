package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// merge is one call of Apply.
type merge struct {
	*tx
	ctx     context.Context
	out     *load.Outcome
	tables  map[string]*target // tables that are written to or swept, and their child tables
	dropped map[string]bool    // tables that penstock made and that were dropped by hand
}

// target is a table of the destination, after it was changed to fit the staged rows.
type target struct {
	schemas.Table
	staged    *load.Staged      // nil if no rows were staged
	subset    *ordinals         // ordinals of the staged rows that must be compared; nil: all
	toCompare int64             // number of rows in subset
	made      bool              // created in this call of Apply
	types     map[string]string // types of the columns, as Postgres names them
	foreign   map[string]string // types of columns that penstock did not make
}

// has reports whether the table has one of penstock's own columns.
func (t *target) has(column string) bool { return t.Columns.HasField(column) }

// rowsStaged returns the number of rows staged for t.
func (t *target) rowsStaged() int64 {
	if t.staged == nil {
		return 0
	}
	return t.staged.Rows
}

// ended returns the name of the column that is null only in current rows.
func (t *target) ended() string {
	if t.Mode == schemas.History {
		return ident(schemas.ColValidTo)
	}
	return ident(schemas.ColDeletedAt)
}

// advanceTime makes the commit's time later than the times of all rows of the staged tables. Usually the stream's row
// in _penstock_state has the time of the last commit, and no row of the tables is later. Only if the row in
// _penstock_state is lost, the tables are read.
func (m *merge) advanceTime(staged []*load.Staged) error {
	if m.position.sequence > 0 || m.timed {
		return nil
	}
	m.timed = true
	for _, p := range staged {
		t := m.tables[p.Name]
		if load.IsInternal(p.Name) || load.Child(t.Columns) || t.made {
			continue
		}
		last := int64(0)
		err := m.s.numbers(m.ctx, "SELECT coalesce((pg_catalog.date_part('epoch', pg_catalog.max(t."+ident(schemas.ColSyncedAt)+")) * 1000000)::bigint, 0) FROM "+
			m.db.place(t.Name)+" AS t WHERE true"+m.ownRowsSQL(t), &last)
		if err != nil {
			return fmt.Errorf("read times of %s: %w", p.Name, err)
		}
		m.commitTime = load.CommitTime(m.commitTime, time.UnixMicro(last))
	}
	return nil
}

// rows merges the staged rows. Each root table is merged together with its child tables.
func (m *merge) rows(pending []*load.Staged) error {
	for _, p := range pending {
		t := m.tables[p.Name]
		if load.Child(t.Columns) || p.Rows == 0 {
			continue
		}
		var err error
		switch {
		case load.IsInternal(t.Name):
			err = m.writeOwn(t)
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

// keyed merges rows by their key.
func (m *merge) keyed(t *target) error {
	if err := m.trackOrder(t); err != nil {
		return err
	}
	if done, err := m.copyDirectly(t); done || err != nil {
		return err
	}
	if err := m.db.step("stage"); err != nil {
		return err
	}
	if err := m.castCarried(t); err != nil {
		return err
	}
	if err := m.skipUnchanged(t); err != nil {
		return err
	}
	if t.toCompare == 0 {
		m.fresh[t.Name] = false
		return nil
	}
	if err := m.compare(t); err != nil {
		return err
	}
	n, err := m.count(t)
	if err != nil {
		return err
	}
	m.fresh[t.Name] = n.fresh == t.staged.Rows
	if n.fresh+n.changed == 0 {
		return nil
	}
	if err := m.before(t); err != nil {
		return err
	}
	if err := m.writeRows(t, n); err != nil {
		return err
	}
	return m.after(t)
}

// copyDirectly copies the rows into the table without comparing them, if the table probably has none of them. If the
// primary key accepts all rows, they are new. Otherwise copyDirectly undoes the copy. It reports whether the rows
// were copied.
func (m *merge) copyDirectly(t *target) (bool, error) {
	likely, known := m.fresh[t.Name]
	if !known {
		m.db.mu.Lock()
		likely = m.pass.fresh[t.Name]
		m.db.mu.Unlock()
	}
	if m.of.Log || t.Mode == schemas.Append || !likely && !m.empty(t) {
		return false, nil
	}
	if err := m.db.step("copy"); err != nil {
		return false, err
	}
	if err := m.s.run(m.ctx, "SAVEPOINT penstock_copy"); err != nil {
		return false, err
	}
	flaws := len(m.rejects)
	err := m.insertFamily(t, nil)
	if code(err) == codeUnique {
		m.fresh[t.Name], m.rejects = false, m.rejects[:flaws]
		return false, m.s.run(m.ctx, "ROLLBACK TO SAVEPOINT penstock_copy")
	}
	if err != nil {
		return false, err
	}
	m.fresh[t.Name] = true
	m.out.Written += t.staged.Rows
	m.out.Inserted += t.staged.Rows
	return true, m.s.run(m.ctx, "RELEASE SAVEPOINT penstock_copy")
}

// empty reports whether the table has no rows. If the query fails, it returns false.
func (m *merge) empty(t *target) bool {
	if t.made {
		return true
	}
	some := int64(1)
	err := m.s.numbers(m.ctx, "SELECT EXISTS (SELECT FROM "+m.db.place(t.Name)+" AS t WHERE true"+m.ownRowsSQL(t)+")::int", &some)
	return err == nil && some == 0
}

// insertFamily inserts staged records and their child rows. The parameter subset has the ordinals of the records. If
// subset is nil, all staged records are inserted.
func (m *merge) insertFamily(t *target, subset *ordinals) error {
	if err := m.insert(t, subset); err != nil {
		return err
	}
	return m.insertChildren(t, subset)
}

// insert copies staged rows into their table. The parameter subset has the ordinals of the rows; nil means all.
func (m *merge) insert(t *target, subset *ordinals) error {
	var columns []string
	var sources []source
	for _, f := range t.Columns.Fields() {
		from := f.Name
		switch {
		case t.Mode == schemas.History && f.Name == schemas.ColValidTo:
			continue
		case t.Mode == schemas.History && f.Name == schemas.ColValidFrom:
			from = schemas.ColSyncedAt
		}
		columns = append(columns, f.Name)
		sources = append(sources, source{from: from, to: schemas.TypeOf(f)})
	}
	n, err := m.copy(t, "COPY "+m.db.place(t.Name)+" ("+idents(columns)+")", sources, subset, true)
	m.written[t.Name] += n
	return err
}

// copy sends columns of staged rows to the server.
func (m *merge) copy(t *target, sql string, sources []source, subset *ordinals, final bool) (int64, error) {
	c := m.copier(t, sources, subset, final)
	if t.staged.Batches == nil && t.staged.Rows > 0 {
		return 0, errors.New("its batches were released")
	}
	n, err := m.s.copyIn(m.ctx, sql, c)
	if err != nil && c.err != nil && !errors.Is(c.err, io.EOF) {
		err = c.err
	}
	return n, err
}

// copier returns an encoder for columns of staged rows. If final is true, values that the columns cannot store are
// recorded as rejects.
func (m *merge) copier(t *target, sources []source, subset *ordinals, final bool) *copier {
	c := &copier{staged: t.staged, columns: sources, subset: subset, jsonb: func(column string) bool { return t.types[column] == "jsonb" }}
	if final {
		c.report = func(b arrow.RecordBatch, column string, row int, raw, reason string) {
			m.rejectValue(t, b, column, row, raw, reason)
		}
	}
	return c
}
