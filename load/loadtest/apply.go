package loadtest

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Apply implements [load.Tx].
func (x *tx) Apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	var out load.Outcome
	if x.done {
		return out, errors.New("apply: the transaction is over")
	}
	if err := x.begin(ctx); err != nil {
		return out, err
	}
	m := &merge{tx: x, out: &out, written: map[int64]string{}}
	writes := x.writes
	x.writes = nil
	for _, step := range []func() error{
		func() error { return m.fit(writes, s.Table) },
		func() error { return m.roots(writes) },
		func() error { return m.children(writes) },
		func() error { return m.sweep(s) },
		ctx.Err,
	} {
		if err := step(); err != nil {
			return out, err
		}
	}
	return out, nil
}

type merge struct {
	*tx
	out     *load.Outcome
	written map[int64]string
}

func (m *merge) fit(writes []write, swept string) error {
	if err := m.m.at("ddl"); err != nil {
		return err
	}
	if t := m.tables[swept]; t != nil {
		if err := t.asMade(); err != nil {
			return err
		}
	}
	for _, w := range writes {
		if err := m.fitOne(w); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) fitOne(w write) error {
	var have schemas.Table
	if t := m.tables[w.table.Name]; t != nil {
		have = t.Table
		if err := t.asMade(); err != nil {
			return err
		}
	}
	p, err := load.Fit(have, w.table)
	if err != nil {
		return err
	}
	m.carryOut(p)
	if p.ChangesMode() && !load.Child(p.Table.Columns) {
		for _, c := range m.descendants(p.Table.Name) {
			p, err := load.PlanModeChange(c.Table, p.Table.Mode)
			if err != nil {
				return err
			}
			m.carryOut(p)
		}
	}
	for i := range w.rows {
		w.rows[i] = shape(w.rows[i], w.table.Columns, p.Table.Columns)
		m.synced(w.rows[i])
	}
	return nil
}

func (m *merge) synced(r Row) {
	if _, ok := r[schemas.ColSyncedAt]; ok {
		r[schemas.ColSyncedAt] = instant(m.when)
	}
}

// asMade returns an error if the table is no longer as penstock made it, because it was changed by hand. Invariant 16
func (t *table) asMade() error {
	if len(t.changedByHand) == 0 {
		return nil
	}
	made, live := map[string]string{}, map[string]string{}
	for _, f := range t.Columns.Fields() {
		made[f.Name] = schemas.TypeName(schemas.TypeOf(f))
	}
	maps.Copy(live, made)
	for name, to := range t.changedByHand {
		if delete(live, name); to != nil {
			live[name] = schemas.TypeName(to)
		}
	}
	return load.Compare(t.Name, made, live)
}

func (m *merge) carryOut(p load.Plan) {
	if p.Empty() {
		return
	}
	t := m.tables[p.Table.Name]
	if t == nil {
		t = &table{}
		m.tables[p.Table.Name] = t
	}
	t.Table = p.Table
	t.changed()
	for _, w := range p.Widen {
		for i, r := range t.rows {
			if text, ok := r[w.Column.Name]; ok {
				t.rows[i] = r.with(w.Column.Name, recast(text, w.From, schemas.TypeOf(w.Column)))
				if !w.Exact() {
					m.forget(p.Table.Name, r[schemas.ColHash])
				}
			}
		}
	}
	if p.ChangesMode() {
		t.turn()
	}
	m.record(p.Changes())
}

func (t *table) turn() {
	var kept []Row
	for _, r := range t.rows {
		gone, dead := r[schemas.ColDeletedAt]
		switch {
		case t.Mode == schemas.Replace && dead:
			continue
		case t.Mode == schemas.History:
			r = r.with(schemas.ColValidFrom, r[schemas.ColSyncedAt])
			if dead {
				r = r.with(schemas.ColValidTo, gone)
			}
		}
		kept = append(kept, r)
	}
	t.rows = kept
}

func (x *tx) record(changes []load.Change) {
	log := x.own(load.Changes)
	for _, c := range changes {
		log.rows = append(log.rows, Row{
			"at": instant(x.stamp), "run": x.pass.Run, "table": c.Table, "column": c.Column, "source": c.Source,
			"action": c.Action, "from_type": c.From, "to_type": c.To, "reason": c.Reason,
		})
	}
}

// forget clears the hash of all records that have the given hash, so that the next pass writes them again. If the
// records have no key, the hash also links them to their child rows. So in this case, forget also clears the hash in
// the child rows.
func (x *tx) forget(name, hash string) {
	root, _, _ := strings.Cut(name, "__")
	for n, t := range x.tables {
		keyless := x.tables[root] != nil && len(x.tables[root].Key) == 0
		if n != root && !(keyless && strings.HasPrefix(n, root+"__")) {
			continue
		}
		for i, r := range t.rows {
			if h, ok := r[schemas.ColHash]; ok && h == hash && (t.Mode != schemas.History || t.isCurrent(r)) {
				t.rows[i] = r.with(schemas.ColHash, "")
			}
		}
		t.changed()
	}
}

func shape(r Row, from, to *arrow.Schema) Row {
	out := Row{}
	for _, f := range from.Fields() {
		i := to.FieldIndices(f.Name)
		if text, ok := r[f.Name]; ok && len(i) == 1 {
			a, b := schemas.TypeOf(f), schemas.TypeOf(to.Field(i[0]))
			if schemas.SameType(a, b) {
				out[f.Name] = text
			} else {
				out[f.Name] = recast(text, a, b)
			}
		}
	}
	return out
}

func (x *tx) own(t schemas.Table) *table {
	have := x.tables[t.Name]
	if have == nil {
		have = &table{Table: t}
		x.tables[t.Name] = have
	}
	return have
}
