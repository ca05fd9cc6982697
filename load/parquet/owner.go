package parquet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

func (m *manifest) owner() load.Owner {
	return load.Owner{Pipeline: m.Pipeline, Stream: m.Stream, Origin: m.Origin}
}

func (m *manifest) rootTable() string {
	for _, t := range m.Tables {
		if !load.IsInternal(t.Name) && !load.Child(t.schema) {
			return t.Name
		}
	}
	return m.Stream
}

// StreamState implements [load.Destination].
func (l *Lake) StreamState(ctx context.Context, k state.Key, table string) (s load.StreamState, err error) {
	m, err := l.folder(k).manifest(ctx)
	if err != nil {
		return s, fmt.Errorf("look at table %s: %w", table, err)
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
		if !m.store.costly() { // in a bucket it takes long to list all files, and users hardly drop tables there by hand
			c, err := m.condition(ctx, t)
			if err != nil {
				return s, fmt.Errorf("look at table %s: %w", t.Name, err)
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

func (x *tx) head(ctx context.Context) (*manifest, error) {
	m, err := x.lake.manifestFor(ctx, x.folder, x.key)
	if _, another := errors.AsType[*load.OwnerError](err); another && x.spec.Claim.Adopt {
		return x.folder.manifest(ctx)
	}
	return m, err
}

func cursorFor(m *manifest, k state.Key) state.Cursor {
	if m == nil || m.key() != k {
		return ""
	}
	return cursorOf(m)
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
