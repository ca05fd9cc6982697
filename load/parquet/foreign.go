package parquet

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/penstock-data/penstock/load"
)

// condition is that of a table's files, as against the manifest.
type condition struct {
	dropped bool            // its folder is gone
	lost    map[string]bool // names of files that are gone
	changed map[string]bool // and of others that are not what they were
	foreign []string        // files that are somebody else's
}

// condition looks at the files of a table.
func (m *manifest) condition(t *table) (condition, error) {
	c := condition{lost: map[string]bool{}, changed: map[string]bool{}}
	files := m.files(t)
	if len(files) == 0 {
		return c, nil
	}
	dir := files[0].dir
	live := map[string]int64{}
	for _, f := range files {
		c.lost[f.Name] = true
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		live[name] = info.Size()
		return err
	})
	if gone(err) {
		_, err := os.Lstat(dir)
		c.dropped = gone(err)
		return c, nil
	}
	for _, f := range files {
		if size, ok := live[f.Name]; ok {
			delete(c.lost, f.Name)
			delete(live, f.Name)
			if size != f.Size {
				c.changed[f.Name] = true
			}
		}
	}
	for name := range live {
		if filepath.Ext(name) == suffix {
			c.foreign = append(c.foreign, name)
		}
	}
	return c, err
}

// diff is what a person is told about it.
func (c condition) diff() []string {
	var out []string
	for name := range c.lost {
		out = append(out, fmt.Sprintf("the file %s is gone", name))
	}
	for name := range c.changed {
		out = append(out, fmt.Sprintf("the file %s is not what it was", name))
	}
	for _, name := range c.foreign {
		out = append(out, fmt.Sprintf("the file %s is not penstock's", name))
	}
	slices.Sort(out)
	return out
}

// sound refuses tables that somebody has changed. One whose folder was removed
// is loaded anew. // Invariant 16
func (x *tx) sound(ctx context.Context) error {
	for _, t := range slices.Clone(x.next.Tables) {
		c, err := x.next.condition(t)
		if err != nil {
			return err
		}
		if c.dropped {
			err = x.drop(ctx, t)
		} else if diff := c.diff(); diff != nil {
			err = &load.ForeignChange{Table: t.Name, Diff: diff}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drop takes away a table that is gone. What hung from its rows goes with them;
// records that have lost what hung from them are written again.
func (x *tx) drop(ctx context.Context, t *table) error {
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
		if _, err := os.Lstat(s.root().path()); gone(err) {
			return nil, nil // it has gone as well
		}
		return x.forgetIn(ctx, root, s.with(t.Name, nil), nil)
	})
}
