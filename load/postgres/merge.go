package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// merge is one Apply.
type merge struct {
	*tx
	ctx     context.Context
	out     *load.Outcome
	tables  map[string]*target // those written to, swept, and their children
	dropped map[string]bool    // tables that penstock has made and somebody has dropped
}

// target is a table of the destination, made to fit what was staged for it.
type target struct {
	schemas.Table
	staged  *load.Staged      // nil where nothing was
	only    *ordinals         // those of it that have to be compared; nil for all
	handed  int64             // how many these are
	made    bool              // by this Apply
	types   map[string]string // of its columns, in the database's words
	foreign map[string]string // of columns that are another's
}

// has reports whether the table keeps a column of bookkeeping.
func (t *target) has(column string) bool { return t.Columns.HasField(column) }

// rowsStaged is how many rows are staged for t.
func (t *target) rowsStaged() int64 {
	if t.staged == nil {
		return 0
	}
	return t.staged.Rows
}

// ended is the column that says that a row does not stand any more.
func (t *target) ended() string {
	if t.Mode == schemas.History {
		return ident(schemas.ColValidTo)
	}
	return ident(schemas.ColDeletedAt)
}

// fit makes the tables so that everything staged finds room.
func (m *merge) fit(pending []*load.Staged, swept string) error {
	if err := m.db.step("ddl"); err != nil {
		return err
	}
	names := make([]string, 0, len(pending)+1)
	for _, p := range pending {
		names = append(names, p.Name)
	}
	if swept != "" {
		names = append(names, swept)
	}
	c, err := m.db.readCatalog(m.ctx, m.s, names)
	if err != nil {
		return err
	}
	m.tables, m.dropped = map[string]*target{}, map[string]bool{}
	for _, t := range c.tables() {
		m.tables[t.Name] = c.target(t)
	}
	for name := range c.made {
		m.dropped[name] = c.live[name] == nil
	}
	if m.tables[swept] != nil {
		if _, err := c.table(swept); err != nil {
			return err
		}
	}
	var plans []load.Plan
	for _, p := range rootsFirst(pending) {
		done, err := m.fitOne(c, p)
		if err != nil {
			return fmt.Errorf("table %s: %w", p.Name, err)
		}
		plans = append(plans, done...)
	}
	for _, p := range plans {
		if err := m.current(c, p); err != nil {
			return fmt.Errorf("view of %s: %w", p.Table.Name, err)
		}
	}
	for _, p := range pending {
		if err := m.reunite(m.tables[p.Name]); err != nil {
			return err
		}
	}
	return nil
}

// rootsFirst puts tables before those that hang from them.
func rootsFirst(pending []*load.Staged) []*load.Staged {
	return slices.SortedStableFunc(slices.Values(pending), func(a, b *load.Staged) int {
		return strings.Count(a.Name, "__") - strings.Count(b.Name, "__")
	})
}

// target is a table as the database has it.
func (c *catalog) target(t schemas.Table) *target {
	out := &target{Table: t, types: map[string]string{}, foreign: map[string]string{}}
	o := c.live[t.Name]
	if o == nil {
		return out
	}
	for name, typ := range o.types {
		if t.Columns.HasField(name) {
			out.types[name] = typ
		} else {
			out.foreign[name] = typ
		}
	}
	return out
}

// fitOne makes a table fit what was staged for it, and those that hang from it
// if their mode turns with it. It returns the plans that were carried out.
func (m *merge) fitOne(c *catalog, p *load.Staged) ([]load.Plan, error) {
	if found, ok := c.adopt(p.Table); ok {
		if err := m.record(found.Changes()); err != nil {
			return nil, err
		}
		c.made[p.Name] = found.Table
	}
	if err := m.vacate(c, p.Name); err != nil {
		return nil, err
	}
	have, err := c.table(p.Name)
	if err != nil {
		return nil, err
	}
	plan, err := load.Fit(have, p.Table)
	if err != nil {
		return nil, err
	}
	if err := m.unorder(c.target(have), plan); err != nil {
		return nil, err
	}
	plan.Create = c.live[p.Name] == nil
	if plan.Create {
		plan.Add = plan.Table.Columns.Fields() // all of them, where somebody has dropped it
	}
	plans, err := m.perform(c, plan)
	if err != nil {
		return nil, err
	}
	m.tables[p.Name].staged, m.tables[p.Name].handed = p, p.Rows
	if !plan.Turns() || load.Child(plan.Table.Columns) || plan.Create {
		return plans, nil
	}
	for _, hanging := range m.children(m.tables[p.Name]) {
		turn, err := load.Turn(hanging.Table, plan.Table.Mode)
		if err != nil {
			return nil, err
		}
		more, err := m.perform(c, turn)
		if err != nil {
			return nil, fmt.Errorf("children %s: %w", hanging.Name, err)
		}
		plans = append(plans, more...)
	}
	return plans, nil
}

// perform carries out a plan, if there is anything to do.
func (m *merge) perform(c *catalog, plan load.Plan) ([]load.Plan, error) {
	if err := c.vacant(plan); err != nil {
		return nil, err
	}
	t := c.target(plan.Table)
	t.made = plan.Create
	for _, f := range plan.Table.Columns.Fields() {
		if _, there := t.types[f.Name]; !there {
			t.types[f.Name] = m.db.sqlType(schemas.TypeOf(f))
		}
	}
	for _, w := range plan.Widen {
		t.types[w.Column.Name] = m.db.sqlType(schemas.TypeOf(w.Column))
	}
	m.tables[plan.Table.Name] = t
	if plan.Empty() {
		return nil, nil
	}
	if err := m.db.step("alter"); err != nil {
		return nil, err
	}
	if err := m.carryOut(c, plan); err != nil {
		return nil, err
	}
	c.learn(plan, t.types)
	for _, w := range plan.Widen {
		if !w.Exact() {
			if err := m.forget(plan.Table.Name, ident(w.Column.Name)+" IS NOT NULL"); err != nil {
				return nil, err
			}
		}
	}
	return []load.Plan{plan}, nil
}

// learn notes what a table has become.
func (c *catalog) learn(p load.Plan, types map[string]string) {
	name := p.Table.Name
	c.made[name] = p.Table
	o := c.live[name]
	if o == nil {
		o = &object{kind: "r", types: map[string]string{}}
		c.live[name] = o
	}
	for _, f := range p.Table.Columns.Fields() {
		o.types[f.Name] = types[f.Name]
	}
	if unique(p.Table) {
		o.unique = append(o.unique, load.KeyName(p.Table.Key))
	}
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
		case load.Own(t.Name):
			err = m.own(t)
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
	if err := m.follow(t); err != nil {
		return err
	}
	if done, err := m.straight(t); done || err != nil {
		return err
	}
	if err := m.db.step("stage"); err != nil {
		return err
	}
	if err := m.recarry(t); err != nil {
		return err
	}
	if err := m.recognise(t); err != nil {
		return err
	}
	if t.handed == 0 {
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
	if err := m.give(t, n); err != nil {
		return err
	}
	return m.after(t)
}

// straight copies rows into a table that most likely has none of them, and lets
// its primary key find out: where all are new, there is nothing to compare.
// It reports whether that was so.
func (m *merge) straight(t *target) (bool, error) {
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
	flaws := len(m.flaws)
	err := m.insertFamily(t, nil)
	if code(err) == codeUnique {
		m.fresh[t.Name], m.flaws = false, m.flaws[:flaws]
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

// empty reports whether the table has no rows; on any doubt that it has.
func (m *merge) empty(t *target) bool {
	if t.made {
		return true
	}
	some := int64(1)
	err := m.s.numbers(m.ctx, "SELECT EXISTS (SELECT FROM "+m.db.place(t.Name)+")::int", &some)
	return err == nil && some == 0
}

// insertFamily adds records, all or only some, and what hangs from them.
func (m *merge) insertFamily(t *target, only *ordinals) error {
	if err := m.insert(t, only); err != nil {
		return err
	}
	return m.insertChildren(t, only)
}

// insert copies staged rows into their table.
func (m *merge) insert(t *target, only *ordinals) error {
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
	n, err := m.copy(t, "COPY "+m.db.place(t.Name)+" ("+idents(columns)+")", sources, only, true)
	m.written[t.Name] += n
	return err
}

// copy streams columns of staged rows.
func (m *merge) copy(t *target, sql string, sources []source, only *ordinals, final bool) (int64, error) {
	c := &copier{staged: t.staged, columns: sources, only: only, jsonb: func(column string) bool { return t.types[column] == "jsonb" }}
	if final {
		c.flawed = func(b arrow.RecordBatch, column string, row int, raw, reason string) {
			m.flaw(t, b, column, row, raw, reason)
		}
	}
	if t.staged.Batches == nil && t.staged.Rows > 0 {
		return 0, errors.New("its batches were given up")
	}
	n, err := m.s.copyIn(m.ctx, sql, c)
	if err != nil && c.err != nil && !errors.Is(c.err, io.EOF) {
		err = c.err
	}
	return n, err
}
