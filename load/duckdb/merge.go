//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// merge is one Apply.
type merge struct {
	*tx
	ctx    context.Context
	out    *load.Outcome
	tables map[string]*target // those written to, swept, and their children
}

// target is a table of the destination, made to fit what was staged for it.
type target struct {
	schemas.Table
	staged  *staged // nil where nothing was
	empty   bool
	foreign []string // columns that are another's
}

// child reports whether rows of the table hang from those of another.
func child(t schemas.Table) bool { return t.Columns != nil && t.Columns.HasField(schemas.ColParent) }

// link is the column of a child table that holds its record's key.
func (t *target) link() string {
	if t.Columns.HasField(schemas.ColRoot) {
		return schemas.ColRoot
	}
	return schemas.ColParent
}

func (t *target) names() []string {
	out := make([]string, t.Columns.NumFields())
	for i, f := range t.Columns.Fields() {
		out[i] = f.Name
	}
	return out
}

// has reports whether the table keeps a column of bookkeeping.
func (t *target) has(column string) bool { return t.Columns.HasField(column) }

// fit makes the tables so that everything staged finds room. It must come
// before any row of theirs is touched: the engine cannot alter a table that a
// transaction has changed.
func (m *merge) fit(pending []*staged, swept string) error {
	if err := m.db.step("ddl"); err != nil {
		return err
	}
	if err := m.ownTables(m.ctx); err != nil {
		return err
	}
	names := make([]string, 0, len(pending)+1)
	for _, p := range pending {
		names = append(names, p.Name)
	}
	if swept != "" {
		names = append(names, swept)
	}
	c, err := readCatalog(m.ctx, m.s, names, m.ddl)
	if err != nil {
		return err
	}
	m.tables = map[string]*target{}
	for _, t := range c.tables() {
		m.tables[t.Name] = &target{Table: t}
	}
	if m.tables[swept] != nil {
		if _, err := c.table(swept); err != nil {
			return err
		}
	}
	for _, p := range pending {
		if err := m.fitOne(c, p); err != nil {
			return err
		}
	}
	for _, p := range pending {
		if err := m.reunite(c, m.tables[p.Name]); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) fitOne(c *catalog, p *staged) error {
	if found, ok := c.adopt(p.Table); ok {
		if err := record(m.ctx, m.s, found.Changes(), m.of.Run); err != nil {
			return err
		}
		c.made[p.Name] = found.Table
	}
	have, err := c.table(p.Name)
	if err != nil {
		return err
	}
	plan, err := load.Fit(have, p.Table)
	if err != nil {
		return err
	}
	plan.Create = c.live[p.Name] == nil
	if err := c.vacant(plan); err != nil {
		return err
	}
	if !plan.Empty() {
		if err := carryOut(m.ctx, m.s, plan, m.of.Run); err != nil {
			return fmt.Errorf("change table %s: %w", p.Name, err)
		}
		m.ddl = true
	}
	m.tables[p.Name] = &target{Table: plan.Table, staged: p, empty: plan.Create, foreign: c.foreign(plan.Table)}
	for _, w := range plan.Widen {
		if !w.Exact() {
			if err := m.forget(p.Name, ident(w.Column.Name)+" IS NOT NULL"); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget clears the hashes of the records with a row for which the condition
// holds, in their own table or in that of children, so that they are written
// again.
func (m *merge) forget(table, where string) error {
	root, _, _ := strings.Cut(table, "__")
	t := m.tables[root]
	if t == nil || !t.has(schemas.ColHash) {
		return nil
	}
	if root != table && where != "true" {
		where = fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s)", schemas.ColHash, schemas.ColHash, place(table), where)
	}
	err := m.s.exec(m.ctx, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %s", place(root), schemas.ColHash, where))
	if err != nil {
		return fmt.Errorf("clear hashes of %s: %w", root, err)
	}
	if len(t.Key) > 0 {
		return nil
	}
	for _, c := range m.children(t) { // they are found by the hash alone
		err := m.s.exec(m.ctx, fmt.Sprintf("UPDATE %s SET %s = '' WHERE %[2]s NOT IN (SELECT %[2]s FROM %[3]s)",
			place(c.Name), schemas.ColHash, place(root)))
		if err != nil {
			return fmt.Errorf("clear hashes of %s: %w", c.Name, err)
		}
	}
	return nil
}

// rows merges what was staged, each root table together with its children.
func (m *merge) rows(pending []*staged) error {
	for _, p := range pending {
		t := m.tables[p.Name]
		if child(t.Table) || p.rows == 0 {
			continue
		}
		var err error
		switch {
		case len(t.Key) > 0:
			err = m.keyed(t)
		case load.Own(t.Name):
			err = m.insert(t, "")
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
	columns := append([]string{}, t.Key...)
	columns = append(columns, schemas.ColOrdinal)
	if t.has(schemas.ColHash) {
		columns = append(columns, schemas.ColHash)
	}
	if err := m.recarry(t); err != nil {
		return err
	}
	err := t.staged.scan(m.ctx, m.s.engine, t.Columns, columns, func(from string) error {
		return m.s.exec(m.ctx, "CREATE OR REPLACE TEMP TABLE penstock_status AS "+m.statusSQL(t, from))
	})
	if err != nil {
		return err
	}
	n, err := m.count(t)
	if err != nil {
		return err
	}
	if err := m.carry(t, n.unchanged); err != nil {
		return err
	}
	if n.changed > 0 {
		if err := m.remove(t); err != nil {
			return err
		}
	}
	return m.insertFamily(t, n)
}

// remove deletes the rows that changed, and what hangs from them.
func (m *merge) remove(t *target) error {
	if err := m.db.step("delete"); err != nil {
		return err
	}
	if err := m.save(t); err != nil {
		return err
	}
	err := m.s.exec(m.ctx, fmt.Sprintf("DELETE FROM %s AS t USING %s AS s WHERE s.st = %s AND %s",
		place(t.Name), status, isChanged, on("s", t.Key)))
	if err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.empty {
			continue
		}
		key, link := linkOf(t, c)
		err := m.s.exec(m.ctx, fmt.Sprintf("DELETE FROM %s AS t USING (SELECT %s AS l FROM %s WHERE st = %s) AS s WHERE s.l = %s",
			place(c.Name), key, status, isChanged, link))
		if err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// foreignCells is the temporary table of what others have put beside the rows
// that are about to be replaced; o is the ordinal of the new row.
const foreignCells = "temp.main.penstock_foreign"

// save keeps what others have added to the rows that changed. // Invariant 16
func (m *merge) save(t *target) error {
	if len(t.foreign) == 0 {
		return nil
	}
	columns := make([]string, len(t.foreign))
	for i, f := range t.foreign {
		columns[i] = fmt.Sprintf("t.%s AS f%d", ident(f), i)
	}
	return m.s.exec(m.ctx, fmt.Sprintf("CREATE OR REPLACE TEMP TABLE penstock_foreign AS SELECT s.o, %s FROM %s AS t JOIN %s AS s ON %s WHERE s.st = %s",
		strings.Join(columns, ", "), place(t.Name), status, on("s", t.Key), isChanged))
}

// restore puts it beside the new rows.
func (m *merge) restore(t *target) error {
	if len(t.foreign) == 0 {
		return nil
	}
	set, key := make([]string, len(t.foreign)), make([]string, len(t.Key))
	for i, f := range t.foreign {
		set[i] = fmt.Sprintf("%s = f.f%d", ident(f), i)
	}
	for i, k := range t.Key {
		key[i] = fmt.Sprintf("s.k%d = t.%s", i, ident(k))
	}
	return m.s.exec(m.ctx, fmt.Sprintf("UPDATE %s AS t SET %s FROM %s AS s, %s AS f WHERE f.o = s.o AND %s",
		place(t.Name), strings.Join(set, ", "), status, foreignCells, strings.Join(key, " AND ")))
}

// insertFamily appends the records that are new or changed.
func (m *merge) insertFamily(t *target, n counts) error {
	if n.fresh+n.changed == 0 {
		return nil
	}
	standing := ""
	if n.fresh+n.changed < n.handed {
		standing = fmt.Sprintf(" WHERE %s IN (SELECT o FROM %s WHERE st < %s)", schemas.ColOrdinal, status, isUnchanged)
	}
	if err := m.db.step("insert"); err != nil {
		return err
	}
	if err := m.insert(t, standing); err != nil {
		return err
	}
	if n.changed > 0 {
		if err := m.restore(t); err != nil {
			return err
		}
	}
	if err := m.db.step("children"); err != nil {
		return err
	}
	for _, c := range m.children(t) {
		if c.staged == nil || c.staged.rows == 0 {
			continue
		}
		if err := m.insert(c, standing); err != nil {
			return fmt.Errorf("children %s: %w", c.Name, err)
		}
	}
	return nil
}

// insert appends staged rows, all or those that the condition is for.
func (m *merge) insert(t *target, where string) error {
	names := t.names()
	scanned := names
	if where != "" {
		scanned = append(scanned[:len(scanned):len(scanned)], schemas.ColOrdinal)
	}
	return t.staged.scan(m.ctx, m.s.engine, t.Columns, scanned, func(from string) error {
		columns := idents(names)
		return m.s.exec(m.ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s%s",
			place(t.Name), columns, columns, from, where))
	})
}
