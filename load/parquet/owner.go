package parquet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// StreamState implements [load.Destination].
func (l *Lake) StreamState(ctx context.Context, k state.Key, table string) (s load.StreamState, err error) {
	m, err := l.folder(k).manifest(ctx)
	if err != nil {
		return s, fmt.Errorf("check table %s: %w", table, err)
	}
	if m == nil {
		return s, nil
	}
	owner := m.owner()
	s.Owner = &owner
	for _, t := range m.Tables {
		if t.Name != table && !strings.HasPrefix(t.Name, table+"__") {
			continue
		}
		if !m.store.costly() { // in a bucket it takes long to list all files, and users rarely drop tables there by hand
			c, err := m.condition(ctx, t)
			if err != nil {
				return s, fmt.Errorf("check table %s: %w", t.Name, err)
			}
			if c.dropped {
				s.Gone = append(s.Gone, t.Name)
			}
		}
		if t.Name == table {
			s.Made = t.Made
			s.Empty = !slices.ContainsFunc(m.segmentsOf(table), func(g *segment) bool { return g.root().Rows > 0 })
		}
	}
	slices.Sort(s.Gone)
	return s, nil
}

// claim checks that the stream owns the tables, and records a new owner. // Invariant 13
func (x *builder) claim() error {
	var have *load.Owner
	if x.base != nil {
		o := x.base.owner()
		have = &o
	}
	owner, record, err := x.spec.Claim.Owned(x.key, x.from, have)
	if err != nil || !record {
		return err
	}
	x.next.Origin = owner.Origin
	return x.record([]load.Change{owner.Change(x.spec.Claim.Table, have)})
}
