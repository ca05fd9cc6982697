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

// owner is whose the stream's tables are.
func (m *manifest) owner() load.Owner {
	return load.Owner{Pipeline: m.Pipeline, Stream: m.Stream, Origin: m.Origin}
}

// rootTable is the stream's; the stream's name where it has none yet.
func (m *manifest) rootTable() string {
	for _, t := range m.Tables {
		if !load.IsInternal(t.Name) && !load.Child(t.schema) {
			return t.Name
		}
	}
	return m.Stream
}

// Standing implements [load.Destination].
func (l *Lake) Standing(ctx context.Context, k state.Key, table string) (s load.StreamState, err error) {
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
		if !m.shelf.dear() { // to look at all files of a bucket takes long, and nobody drops tables there by hand
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
			s.Empty = !slices.ContainsFunc(m.of(table), func(g *segment) bool { return g.root().Rows > 0 })
		}
	}
	slices.Sort(s.Gone)
	return s, nil
}

// head is the manifest that the transaction follows: also another pipeline's where
// its stream is adopted.
func (x *tx) head(ctx context.Context) (*manifest, error) {
	m, err := x.lake.of(ctx, x.folder, x.key)
	if _, another := errors.AsType[*load.OwnerError](err); another && x.of.Claim.Adopt {
		return x.folder.manifest(ctx)
	}
	return m, err
}

// cursorFor is the cursor of the stream k there: none where the manifest is another
// pipeline's.
func cursorFor(m *manifest, k state.Key) state.Cursor {
	if m == nil || m.key() != k {
		return ""
	}
	return cursorOf(m)
}

// claim makes sure that the tables are the stream's to write. // Invariant 13
func (x *tx) claim() error {
	var have *load.Owner
	if x.base != nil {
		o := x.base.owner()
		have = &o
	}
	owner, record, err := x.of.Claim.Owned(x.key, x.from, have)
	if err != nil || !record {
		return err
	}
	x.next.Origin = owner.Origin
	return x.record([]load.Change{owner.Change(x.of.Claim.Table, have)})
}
