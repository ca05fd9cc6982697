package parquet

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
)

// Scan implements [load.Destination].
func (l *Lake) Scan(ctx context.Context, name string, columns []string, each func(arrow.RecordBatch) error) error {
	all, err := l.manifests(ctx)
	if err != nil {
		return fmt.Errorf("scan %s: %w", name, err)
	}
	for _, m := range all {
		t := m.table(name)
		if t == nil {
			continue
		}
		c, err := m.condition(ctx, t)
		if diff := c.diff(); err == nil && diff != nil {
			err = &load.ForeignChange{Table: name, Diff: diff}
		}
		switch {
		case err != nil:
		case name == load.State.Name && m.Moves > 0:
			err = m.scanState(columns, each)
		default:
			err = t.scan(ctx, m.files(t), columns, each)
		}
		if err != nil {
			return fmt.Errorf("scan %s: %w", name, err)
		}
	}
	return nil
}

func (t *table) scan(ctx context.Context, files []*file, columns []string, each func(arrow.RecordBatch) error) error {
	schema, err := load.Select(t.schema, columns)
	if err != nil {
		return err
	}
	for _, f := range files {
		err := f.read(ctx, t, columns, func(_ int64, b []arrow.Array, rows int) error {
			out := array.NewRecordBatch(schema, b, int64(rows))
			defer out.Release()
			return each(out)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Path is where a table's files are: the folder of the generation that counts
// now, with no link in it. For penstock's own tables, which lie with every
// stream, it is a pattern that finds their files, through the links.
func (l *Lake) Path(ctx context.Context, name string) (string, error) {
	if load.Own(name) {
		return l.storage.pattern(name), nil
	}
	all, err := l.manifests(ctx)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	for _, m := range all {
		if t := m.table(name); t != nil {
			return filepath.Join(m.dir, t.Folder), nil
		}
	}
	return "", fmt.Errorf("find %s: %w: nothing was loaded into a table of that name", name, fs.ErrNotExist)
}

// Files are the files of every table as they stand, by the table's name, from
// one generation of each stream. They stay in place for as long as generations
// are kept, whatever is committed meanwhile.
func (l *Lake) Files(ctx context.Context) (map[string][]string, error) {
	all, err := l.manifests(ctx)
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	out := map[string][]string{}
	for _, m := range all {
		for _, t := range m.Tables {
			for _, f := range m.files(t) {
				out[t.Name] = append(out[t.Name], f.path())
			}
		}
	}
	return out, nil
}
