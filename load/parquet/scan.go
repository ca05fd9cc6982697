package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
)

func (l *Lake) scanOf(ctx context.Context, source, name string, columns []string, visit func(arrow.RecordBatch) error) error {
	all, err := l.manifestsOf(ctx, source)
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
		if err == nil {
			err = m.scan(ctx, t, columns, visit, source == "")
		}
		if err != nil {
			return fmt.Errorf("scan %s: %w", name, err)
		}
	}
	return nil
}

func (t *table) scan(ctx context.Context, files []*file, columns []string, visit func(arrow.RecordBatch) error) error {
	schema, err := load.Select(t.schema, columns)
	if err != nil {
		return err
	}
	for _, f := range files {
		err := f.read(ctx, t, columns, func(_ int64, b []arrow.Array, rows int) error {
			out := array.NewRecordBatch(schema, b, int64(rows))
			defer out.Release()
			return visit(out)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Path returns where a table's files are:
//   - in a folder, for most tables, the folder of the current generation, with links resolved
//   - in a folder, for internal tables and tables that sources share, a file pattern that goes through the links; these
//     tables have several folders
//   - in a bucket, the names of the files, one per line
//   - with a catalog, the location of the table's metadata
func (l *Lake) Path(ctx context.Context, name string) (string, error) {
	if t, ok := l.storage.(*catalogStore); ok {
		return t.path(ctx, l, name)
	}
	if load.IsInternal(name) {
		pattern, err := l.internalPath(ctx, name)
		if err != nil || pattern != "" {
			return pattern, err
		}
	}
	all, err := l.manifests(ctx)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	var places []string
	for _, m := range all {
		switch t := m.table(name); {
		case t != nil && m.Source != "" && !m.store.costly():
			return filepath.Join(filepath.Dir(filepath.Dir(m.dir)), sourcePrefix+"*", current, t.Folder, "*"+suffix), nil
		case t != nil:
			places = append(places, m.store.path(m, t))
		}
	}
	if places != nil {
		return strings.Join(places, "\n"), nil
	}
	return "", fmt.Errorf("find %s: %w: no table of that name has been loaded", name, fs.ErrNotExist)
}

// Files returns the files of every table, by the name of the table. All files of a stream belong to one generation.
// They exist as long as this generation is kept. If the lake has a catalog, Files returns an error, because some rows of
// its files are deleted: see [Lake.Fetch].
func (l *Lake) Files(ctx context.Context) (map[string][]string, error) {
	if l.o.Catalog != nil {
		return nil, errors.New("list files: a lake with a catalog has files with deleted rows: use Fetch, which also returns its delete files")
	}
	all, err := l.manifests(ctx)
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	out := map[string][]string{}
	for _, m := range all {
		for _, t := range m.Tables {
			for _, f := range m.files(t) {
				if s, ok := m.store.(*dirStore); ok {
					if err := unlinked(s.dir.path, f.path()); err != nil {
						return nil, fmt.Errorf("list files: %w", err)
					}
				}
				out[t.Name] = append(out[t.Name], f.path())
			}
		}
	}
	return out, nil
}
