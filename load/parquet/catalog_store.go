package parquet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/schemas"
)

// catalogStore keeps a lake whose commits are recorded by a [Catalog]. For each commit of a stream, the catalog also
// records the name of its manifest.
//
// The tables are in the folders that other Iceberg writers use too, and that some catalogs demand. If several sources
// share a table, the data files of each source are in a folder of their own:
//
//	<namespace>/<table>/metadata/
//	<namespace>/<table>/data/
//	<namespace>/<table>/data/_penstock_source=<source>/
//	<namespace of internal tables>/<stream>/_manifests/
type catalogStore struct {
	*bucket
	catalog Catalog

	tidyMu sync.Mutex
	tidied map[string]time.Time
}

func newCatalogStore(ctx context.Context, o Options, d *objects.Disk, step func(string) error) (*catalogStore, error) {
	b, err := catalogFiles(o, d, step)
	if err != nil {
		return nil, err
	}
	c, err := o.Catalog(ctx, b)
	if err != nil {
		return nil, err
	}
	return &catalogStore{bucket: b, catalog: c, tidied: map[string]time.Time{}}, nil
}

func catalogFiles(o Options, d *objects.Disk, step func(string) error) (*bucket, error) {
	if o.Bucket != "" {
		return newBucket(o, step)
	}
	if o.Path == "" {
		return nil, errors.New("no path")
	}
	root, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(root, "%#?") {
		return nil, errors.New("the path contains %, # or ?, which other engines read in different ways: choose another path")
	}
	return &bucket{o: &objects.Local{Root: root, Disk: d}, url: "file://" + slashed(root), scratch: o.TempDir, step: step, log: o.Log}, nil
}

func slashed(path string) string {
	if path = filepath.ToSlash(path); !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}

// Write implements [Files].
func (b *bucket) Write(ctx context.Context, name string, text []byte) error {
	return b.o.Put(ctx, b.prefix+name, strings.NewReader(string(text)), int64(len(text)))
}

// Read implements [Files].
func (b *bucket) Read(ctx context.Context, name string) ([]byte, error) {
	text, _, err := b.o.Get(ctx, b.prefix+name, 0, 0)
	return text, err
}

// Location implements [Files].
func (b *bucket) Location(name string) string { return b.url + "/" + b.prefix + name }

// Name implements [Files].
func (b *bucket) Name(location string) (string, bool) {
	return strings.CutPrefix(location, b.url+"/"+b.prefix)
}

func (t *catalogStore) streams(ctx context.Context, source string) ([]string, error) {
	names, err := t.catalog.Streams(ctx)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(names)
	for i, name := range names {
		if source != "" {
			out[i] = folderIn(name, source)
			continue
		}
		sources, err := t.catalog.Sources(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, s := range sources {
			out = append(out, folderIn(name, s))
		}
	}
	return out, nil
}

func (t *catalogStore) store(name string) streamStore {
	stream, source, _ := strings.Cut(filepath.ToSlash(name), "/"+sourcePrefix)
	s := &tableStore{bucketStore: t.bucket.store(name).(*bucketStore), parent: t, stream: stream, source: source}
	s.dir = s.dataFolder
	return s
}

// path returns the location of a table. For an internal table, path returns a location for each stream, one per line.
func (t *catalogStore) path(ctx context.Context, l *Lake, name string) (string, error) {
	all, err := l.manifests(ctx)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	var places []string
	for _, m := range all {
		if m.table(name) == nil {
			continue
		}
		at, err := t.catalog.Locate(ctx, CatalogName(m.store.(*tableStore).stream, name))
		if err != nil {
			return "", fmt.Errorf("find %s: %w", name, err)
		}
		if at != "" && !slices.Contains(places, at) { // sources that share a table have one location
			places = append(places, at)
		}
	}
	if places == nil {
		return "", fmt.Errorf("find %s: %w: no table of that name has been loaded", name, fs.ErrNotExist)
	}
	return strings.Join(places, "\n"), nil
}

// Close implements io.Closer.
func (t *catalogStore) Close() error { return t.catalog.Close() }

type tableStore struct {
	*bucketStore
	parent         *catalogStore
	stream, source string
}

func (s *tableStore) head(ctx context.Context) (*manifest, error) {
	h, err := s.parent.catalog.Head(ctx, s.stream, s.source)
	if err != nil || h == nil {
		return nil, err
	}
	s.mu.Lock()
	seen := s.seen
	s.mu.Unlock()
	if seen == nil || seen.name != h.Manifest {
		if seen, err = s.readNamed(ctx, h.Manifest); err != nil {
			return nil, err
		}
	}
	s.learn(seen)
	return seen, nil
}

func (s *tableStore) recent(ctx context.Context) (*manifest, error) {
	s.mu.Lock()
	seen, asked := s.seen, s.seenAt
	s.mu.Unlock()
	if seen != nil && time.Since(asked) < recently {
		return seen, nil
	}
	return s.head(ctx)
}

func (s *tableStore) readNamed(ctx context.Context, name string) (*manifest, error) {
	text, err := s.bucket.Read(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.bucket.Location(name), err)
	}
	m := &manifest{name: name}
	if err = json.Unmarshal(text, m); err == nil {
		err = m.prepare()
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.bucket.Location(name), err)
	}
	m.locate(s, s.dir)
	return m, nil
}

func (m *manifest) id() string {
	if m == nil || len(m.Line) == 0 {
		return ""
	}
	return m.Line[len(m.Line)-1]
}

func (s *tableStore) draft(context.Context) (pendingGeneration, error) {
	return &tableGeneration{bucketGeneration: &bucketGeneration{store: s.bucketStore}, tables: s}, nil
}

// folder returns the folder for the table of that name.
func (s *tableStore) folder(name string) string {
	namespace, name := s.parent.catalog.Identifier(CatalogName(s.stream, name))
	return path.Join(locationName(folderOf(namespace)), locationName(folderOf(name)))
}

func (s *tableStore) dataFolder(t *table) string {
	return s.bucket.prefix + path.Join(t.Folder, "data", s.ownFolder())
}

func (s *tableStore) where() string { return s.bucket.Location(s.manifestFolder()) }

// ownFolder returns the name of the folder for the files of the source, or "" if the tables are not shared.
func (s *tableStore) ownFolder() string {
	if s.source == "" {
		return ""
	}
	return path.Base(s.key)
}

// manifestFolder returns the folder of the manifests. It is outside of the folders of tables, because some engines remove
// every file below a table that is in none of its snapshots, and so would remove the manifests. Invariant 1
//
// If the keys are for one table at a time, the manifests must be in the folder of a table, and are in that of the head
// table. Then the user must not remove orphan files there: see docs/destinations/iceberg.md.
func (s *tableStore) manifestFolder() string {
	head := s.folder(load.State.Name)
	if s.bucket.vended {
		return path.Join(head, manifestsFolder, s.ownFolder())
	}
	return path.Join(path.Dir(head), s.stream, manifestsFolder, s.ownFolder())
}

const manifestsFolder = "_manifests"

// dataFiles returns the data files and the delete files of a table, by their names.
func (m *manifest) dataFiles(prefix string, t *table) (data, deletes map[string]DataFile) {
	data, deletes = map[string]DataFile{}, map[string]DataFile{}
	if m == nil || t == nil {
		return data, deletes
	}
	for _, seg := range m.Segments {
		f := seg.Files[t.Name]
		if f == nil || f.Rows == 0 {
			continue
		}
		part := ""
		if seg.Table == t.Name {
			part = seg.Part
		}
		d := f.dataFile(prefix, t, part)
		data[d.Name] = d
		if f.Deletes != nil {
			d := f.Deletes.dataFile(prefix, t, part)
			deletes[d.Name] = d
		}
	}
	return data, deletes
}

func (f *file) dataFile(prefix string, t *table, part string) DataFile {
	d := DataFile{Name: strings.TrimPrefix(f.key(), prefix), Source: t.owner, Rows: f.stored(), Size: f.Size, Ranges: f.ranges, Sorted: f.Sorted}
	if part != "" {
		d.PartitionBy, d.Part = t.Partition, part
	}
	return d
}

// difference returns the files that only one of the two maps has, in the order of their names.
func difference(before, after map[string]DataFile) (added, removed []DataFile) {
	for _, name := range sorted(after) {
		if _, had := before[name]; !had {
			added = append(added, after[name])
		}
	}
	for _, name := range sorted(before) {
		if _, has := after[name]; !has {
			removed = append(removed, before[name])
		}
	}
	return added, removed
}

func (s *tableStore) tableFiles(base, m *manifest, t *table) TableFiles {
	out := TableFiles{
		Name: CatalogName(s.stream, t.Name), Table: t.Name, Columns: t.catalogSchema(), Folder: t.Folder, PartitionBy: t.Partition,
	}
	if len(t.Key) > 0 && !load.IsInternal(t.Name) {
		out.Key, out.Versions = t.Key, t.Mode != schemas.Merge && t.Mode != schemas.Replace
	}
	var before, deletes map[string]DataFile
	if base != nil {
		was := base.table(t.Name)
		before, deletes = base.dataFiles(s.bucket.prefix, was)
		if was != nil {
			out.PreviousColumns = was.catalogSchema()
		}
	}
	now, marked := m.dataFiles(s.bucket.prefix, t)
	out.Added, out.Removed = difference(before, now)
	out.AddedDeletes, out.RemovedDeletes = difference(deletes, marked)
	return out
}

func (s *tableStore) commitOf(base, m *manifest, restored string) Commit {
	c := Commit{
		Stream: s.stream, Source: s.source, ID: m.id(), Parent: base.id(), Sequence: m.Sequence, Manifest: m.name,
		Properties: map[string]string{
			"pipeline": m.Pipeline, "stream": m.Stream, "cursor": m.Cursor, "run": m.Run, "sequence": fmt.Sprint(m.Sequence),
		},
	}
	if s.source != "" {
		c.Properties["source"] = s.source
	}
	for _, g := range m.Kept {
		c.Kept = append(c.Kept, g.Sequence)
	}
	var head *table
	for _, t := range m.Tables {
		if t.Name == load.State.Name {
			head = t
			continue
		}
		c.Tables = append(c.Tables, s.change(base, m, t, restored))
	}
	s.addDropped(&c, base, m)
	c.Tables = append(c.Tables, s.change(base, m, cmp.Or(head, &table{}), restored))
	return c
}

func (s *tableStore) change(base, m *manifest, t *table, restored string) TableFiles {
	if t.Name == restored && s.source == "" {
		base = nil
	}
	out := s.tableFiles(base, m, t)
	out.Restore = t.Name == restored
	return out
}

// addDropped completes the commit c, so that it drops the tables that the generation `base` has and the generation m no
// longer has. If sources share such a table, the commit does not drop it, but removes the rows of this source.
func (s *tableStore) addDropped(c *Commit, base, m *manifest) {
	if base == nil {
		return
	}
	for _, t := range base.Tables {
		switch {
		case m.table(t.Name) != nil:
		case s.source == "":
			c.Dropped = append(c.Dropped, CatalogName(s.stream, t.Name))
		default:
			gone := s.tableFiles(base, m, t)
			gone.Reset = true
			c.Tables = append(c.Tables, gone)
		}
	}
}
