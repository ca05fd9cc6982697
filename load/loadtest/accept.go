package loadtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Alter changes a column by hand, as a user would with SQL. If newType is nil, Alter drops the column; otherwise it
// changes the column to newType. Tests of changes by hand use it.
func (m *Memory) Alter(table, column string, newType arrow.DataType) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables[table].copy()
	t.changedByHand = maps.Clone(t.changedByHand)
	if t.changedByHand == nil {
		t.changedByHand = map[string]arrow.DataType{}
	}
	t.changedByHand[column] = newType
	for i, r := range t.rows {
		if newType == nil {
			t.rows[i] = maps.Clone(r)
			delete(t.rows[i], column)
		}
	}
	m.tables[table] = t
}

// Accept implements [load.Destination].
func (m *Memory) Accept(ctx context.Context, name string) ([]load.Change, error) {
	if err := m.acquire(ctx); err != nil {
		return nil, err
	}
	defer func() { <-m.busy }()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables[name]
	if t == nil || len(t.changedByHand) == 0 {
		return nil, nil
	}
	var changes []load.Change
	for _, column := range slices.Sorted(maps.Keys(t.changedByHand)) {
		f, _ := t.Columns.FieldsByName(column)
		c, err := load.Accepted(t.Table, f[0], t.changedByHand[column])
		if err != nil {
			return nil, fmt.Errorf("accept %s: %w", name, err)
		}
		changes = append(changes, c)
	}
	x := &tx{m: m, tables: map[string]*table{}, stamp: m.later(load.Pass{}.Time())}
	for n, t := range m.tables {
		x.tables[n] = t.copy()
	}
	for i := range changes {
		changes[i].At = x.stamp
		x.tables[name].accept(changes[i])
	}
	x.forgetAll(name)
	x.record(changes)
	m.tables, m.stamp = x.tables, x.stamp
	return changes, nil
}

func (t *table) accept(c load.Change) {
	fields := t.Columns.Fields()
	i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == c.Column })
	if c.Action == load.ActionForget {
		fields = slices.Delete(fields, i, i+1)
	} else {
		fields[i] = schemas.Field(c.Column, t.changedByHand[c.Column], c.Source)
	}
	md := t.Columns.Metadata()
	t.Columns = arrow.NewSchema(fields, &md)
	t.changedByHand = maps.Clone(t.changedByHand)
	delete(t.changedByHand, c.Column)
}

func (x *tx) forgetAll(name string) {
	root, _, _ := strings.Cut(name, "__")
	hashes := map[string]bool{}
	for _, r := range x.tables[root].rows {
		hashes[r[schemas.ColHash]] = true
	}
	for hash := range hashes {
		x.forget(root, hash)
	}
}
