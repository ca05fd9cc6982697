package parquet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/penstock-data/penstock/load"
)

// condition lists the differences between a table's files and the manifest.
type condition struct {
	dropped bool
	lost    map[string]bool
	changed map[string]int64 // present sizes of files whose size has changed
	foreign []string         // Parquet files that are not in the manifest
}

func (m *manifest) condition(ctx context.Context, t *table) (condition, error) {
	c := condition{lost: map[string]bool{}, changed: map[string]int64{}}
	files := m.named(t)
	if len(files) == 0 {
		return c, nil
	}
	live, err := m.store.live(ctx, m, t)
	if err != nil {
		return c, err
	}
	c.dropped = live == nil
	for _, f := range files {
		size, ok := live[f.Name]
		switch {
		case !ok:
			c.lost[f.Name] = true
		case size != f.Size:
			c.changed[f.Name] = size
		}
		delete(live, f.Name)
	}
	for name := range live {
		if filepath.Ext(name) == suffix {
			c.foreign = append(c.foreign, name)
		}
	}
	return c, nil
}

func (c condition) diff() []string {
	var out []string
	for name := range c.lost {
		out = append(out, fmt.Sprintf("the file %s is missing", name))
	}
	for name := range c.changed {
		out = append(out, fmt.Sprintf("the file %s was changed", name))
	}
	for _, name := range c.foreign {
		out = append(out, fmt.Sprintf("the file %s was not written by penstock", name))
	}
	slices.Sort(out)
	return out
}

// checkForeign returns an error for a table that another program has changed. If a table's folder was removed, the
// table is loaded again. Invariant 16
func (x *builder) checkForeign(ctx context.Context) error {
	all := map[*table]condition{}
	for _, t := range x.next.Tables {
		c, err := x.next.condition(ctx, t)
		if err != nil {
			return err
		}
		all[t] = c
	}
	for _, t := range slices.Clone(x.next.Tables) {
		c := all[t]
		if c.dropped {
			if err := x.drop(ctx, t, all); err != nil {
				return err
			}
		} else if diff := c.diff(); diff != nil {
			return &load.ForeignChange{Table: t.Name, Diff: diff}
		}
	}
	return nil
}

// drop removes a table whose folder is missing. The rows of a child table were part of records. So if a segment had
// rows of the child table, the next pass writes all records of this segment again.
func (x *builder) drop(ctx context.Context, t *table, all map[*table]condition) error {
	x.next.Tables = slices.DeleteFunc(x.next.Tables, func(o *table) bool { return o == t })
	if !load.Child(t.schema) {
		x.next.Segments = slices.DeleteFunc(x.next.Segments, func(s *segment) bool { return s.Table == t.Name })
		return nil
	}
	root := x.next.table(x.next.rootOf(t))
	if root == nil {
		return nil
	}
	return x.each(ctx, t, func(ctx context.Context, s *segment) (*segment, error) {
		if all[root].lost[s.root().Name] {
			return nil, nil
		}
		return x.forgetIn(ctx, root, s.with(t.Name, nil), nil)
	})
}
