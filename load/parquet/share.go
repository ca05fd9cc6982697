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

var _ load.Sharer = (*Lake)(nil)

// Share implements [load.Sharer].
func (l *Lake) Share(source string) load.Destination {
	return ofSource{SourcePart: load.SourcePart{Destination: l, Source: source, ScanOf: l.scanOf}, lake: l}
}

type ofSource struct {
	load.SourcePart
	lake *Lake
}

// Tables implements [load.Destination].
func (p ofSource) Tables(ctx context.Context, name string) ([]schemas.Table, error) {
	return p.lake.tablesOf(ctx, p.Source, name)
}

// Scan implements [load.Destination].
func (l *Lake) Scan(ctx context.Context, name string, columns []string, visit func(arrow.RecordBatch) error) error {
	return l.scanOf(ctx, "", name, columns, visit)
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

// manifestFor returns the manifest of the stream k. It returns an error if k has a source but the stream is not shared,
// or if k has no source but the stream is shared.
func (l *Lake) manifestFor(ctx context.Context, f *folder, k state.Key) (*manifest, error) {
	m, err := f.manifestOf(ctx, k)
	if err != nil || m != nil {
		return m, err
	}
	if k.Source != "" {
		alone := k
		alone.Source = ""
		if m, err := l.folder(alone).manifest(ctx); err != nil || m == nil {
			return nil, err
		}
		return nil, load.CheckSharing(false, k.Source)
	}
	names, err := l.storage.streams(ctx, "")
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, folderIn(f.name, "")) }) {
		return nil, load.CheckSharing(true, "")
	}
	return nil, err
}

// scan reads a table. If the last argument is true and sources share the stream, scan adds the source column, which the
// manifest's table does not have.
func (m *manifest) scan(ctx context.Context, t *table, columns []string, visit func(arrow.RecordBatch) error, tell bool) error {
	read := func(columns []string, visit func(arrow.RecordBatch) error) error {
		if t.Name == load.State.Name && m.Moves > 0 {
			return m.scanState(columns, visit)
		}
		return t.scan(ctx, m.files(t), columns, visit)
	}
	if m.Source == "" || !tell || t.Name == load.Changes.Name { // the table of changes has no source column
		return read(columns, visit)
	}
	if columns == nil {
		columns = append([]string{schemas.ColSource}, load.Names(t.schema)...)
	}
	at := slices.Index(columns, schemas.ColSource)
	if at < 0 {
		return read(columns, visit)
	}
	return read(slices.Delete(slices.Clone(columns), at, at+1), func(b arrow.RecordBatch) error {
		stamped := load.WithSource(t.as(), b, m.Source)
		defer stamped.Release()
		fields, arrays := stamped.Schema().Fields(), slices.Clone(stamped.Columns())
		copy(fields, fields[1:at+1])
		copy(arrays, arrays[1:at+1])
		fields[at], arrays[at] = stamped.Schema().Field(0), stamped.Column(0)
		out := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, b.NumRows())
		defer out.Release()
		return visit(out)
	})
}

func (l *Lake) internalPath(ctx context.Context, name string) (string, error) {
	folders, err := l.folders(ctx)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return l.storage.pattern(name, slices.ContainsFunc(folders, (*folder).shared)), nil
}

func (l *Lake) tablesOf(ctx context.Context, source, name string) ([]schemas.Table, error) {
	all, err := l.each(ctx, source, (*folder).recentManifest)
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
			if p, err := load.Fit(out[i], one); err == nil { // if no table can have the columns of both, Tables returns the table that was found first
				out[i] = p.Table
			}
		}
	}
	slices.SortFunc(out, func(a, b schemas.Table) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
