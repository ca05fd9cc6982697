package parquet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Where sources share a stream's tables, each has a folder of its own in the
// stream's, whose name is that of a partition as other engines read it, and
// generations of its own: they commit side by side. No file tells whose its rows
// are.
const sourcePrefix = schemas.ColSource + "="

var _ load.Sharer = (*Lake)(nil)

// Share implements [load.Sharer].
func (l *Lake) Share(source string) load.Destination {
	return ofSource{Part: load.Part{Destination: l, Source: source, ScanOf: l.scanOf}, lake: l}
}

// ofSource is a lake as one of the sources sees it that share it.
type ofSource struct {
	load.Part
	lake *Lake
}

// Tables implements [load.Destination].
func (p ofSource) Tables(ctx context.Context, name string) ([]schemas.Table, error) {
	return p.lake.tablesOf(ctx, p.Source, name)
}

// folderIn is the folder of a source in that of a stream.
func folderIn(stream, source string) string { return stream + "/" + sourcePrefix + source }

// shared reports whether the folder is that of one of the sources of a stream.
func (f *folder) shared() bool { return strings.Contains(f.name, "/"+sourcePrefix) }

// Scan implements [load.Destination].
func (l *Lake) Scan(ctx context.Context, name string, columns []string, each func(arrow.RecordBatch) error) error {
	return l.scanOf(ctx, "", name, columns, each)
}

// Forget implements [load.Sharer].
func (l *Lake) Forget(pipeline, source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, f := range l.streams {
		if f.shared() && f.pipeline == pipeline && strings.HasSuffix(name, "/"+sourcePrefix+source) && len(f.writer) == 0 {
			delete(l.streams, name)
		}
	}
}

// of is the manifest of the stream k, whose folder f is; nil where nothing was
// committed yet, and an error where what was committed there cannot stand beside
// it.
func (l *Lake) of(ctx context.Context, f *folder, k state.Key) (*manifest, error) {
	m, err := f.of(ctx, k)
	if err != nil || m != nil {
		return m, err
	}
	if k.Source != "" {
		alone := k
		alone.Source = ""
		if m, err := l.folder(alone).manifest(ctx); err != nil || m == nil {
			return nil, err
		}
		return nil, load.Sharing(false, k.Source)
	}
	names, err := l.storage.streams(ctx, "")
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, folderIn(f.name, "")) }) {
		return nil, load.Sharing(true, "")
	}
	return nil, err
}

// scan reads columns of a table of the manifest's, whose files do not tell the
// source; it does so where asked to.
func (m *manifest) scan(ctx context.Context, t *table, columns []string, each func(arrow.RecordBatch) error, tell bool) error {
	read := func(columns []string, each func(arrow.RecordBatch) error) error {
		if t.Name == load.State.Name && m.Moves > 0 {
			return m.scanState(columns, each)
		}
		return t.scan(ctx, m.files(t), columns, each)
	}
	if m.Source == "" || !tell || t.Name == load.Changes.Name { // which is everybody's
		return read(columns, each)
	}
	if columns == nil {
		columns = append([]string{schemas.ColSource}, load.Names(t.schema)...)
	}
	at := slices.Index(columns, schemas.ColSource)
	if at < 0 {
		return read(columns, each)
	}
	return read(slices.Delete(slices.Clone(columns), at, at+1), func(b arrow.RecordBatch) error {
		stamped := load.Stamp(t.as(), b, m.Source)
		defer stamped.Release()
		fields, arrays := stamped.Schema().Fields(), slices.Clone(stamped.Columns())
		copy(fields, fields[1:at+1])
		copy(arrays, arrays[1:at+1])
		fields[at], arrays[at] = stamped.Schema().Field(0), stamped.Column(0)
		out := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, b.NumRows())
		defer out.Release()
		return each(out)
	})
}

// ownPath is a pattern for the files of one of penstock's own tables, which lie
// with every stream, or with each source of it.
func (l *Lake) ownPath(ctx context.Context, name string) (string, error) {
	folders, err := l.folders(ctx)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return l.storage.pattern(name, slices.ContainsFunc(folders, (*folder).shared)), nil
}

// tablesOf are the tables of that name, and those that hang from them, as a
// source has them, or all together where it has no name.
func (l *Lake) tablesOf(ctx context.Context, source, name string) ([]schemas.Table, error) {
	all, err := l.each(ctx, source, (*folder).lately)
	if err != nil {
		return nil, fmt.Errorf("read tables of %s: %w", name, err)
	}
	at := map[string]int{}
	var out []schemas.Table
	for _, m := range all {
		for _, t := range m.Tables {
			if t.Name != name && !strings.HasPrefix(t.Name, name+"__") {
				continue
			}
			one := t.as()
			if source == "" && m.Source != "" {
				one = load.ShareTable(one)
			}
			i, seen := at[t.Name]
			if !seen {
				at[t.Name] = len(out)
				out = append(out, one)
				continue
			}
			if p, err := load.Fit(out[i], one); err == nil { // else the first tells
				out[i] = p.Table
			}
		}
	}
	slices.SortFunc(out, func(a, b schemas.Table) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
