package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/load/parquet/positions"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// formatVersion is the newest format of a manifest. A manifest with deleted rows has format 2. All others have format 1,
// so earlier versions of penstock can read them.
const formatVersion = 2

// manifest lists the tables and files of one generation of a stream.
type manifest struct {
	Format   int         `json:"format"`
	Pipeline string      `json:"pipeline"`
	Stream   string      `json:"stream"`
	Source   string      `json:"source,omitempty"`
	Origin   load.Origin `json:"origin,omitzero"`
	Sequence int64       `json:"sequence"`
	Parent   int64       `json:"parent"`
	Cursor   string      `json:"cursor"`
	Run      string      `json:"run"`
	At       time.Time   `json:"at"`
	Changed  time.Time   `json:"changed"` // time of the last row of [load.Changes]
	Counter  int64       `json:"counter"`

	Tables   []*table     `json:"tables"`
	Segments []*segment   `json:"segments"`
	Kept     []generation `json:"kept"` // earlier generations that are kept for readers

	// Moves counts the commits that have changed only the cursor since the generation was made. A local
	// folder stores such a cursor in a [position]. A generation made by [Lake.Trim] continues the count of the generation
	// before it.
	Moves   int64     `json:"moves,omitempty"`
	MovedAt time.Time `json:"moved_at,omitzero"`

	// StateAt is set if Lake.Trim made the generation. It is the time of the last commit of rows or of a cursor, which
	// the table [load.State] shows.
	StateAt time.Time `json:"state_at,omitzero"`

	// Beside counts the generations that keep the cursor and the rows of the stream. Other sources have made them to
	// widen columns of shared tables (see [tx.agree]), or they were made to remove old rows of internal tables (see
	// [Lake.Trim]).
	Beside int64 `json:"beside,omitempty"`

	// Line has the IDs of the latest commits. The last one is the commit that stored this manifest. Manifests in local
	// folders have no Line.
	Line []string `json:"line,omitempty"`

	store streamStore
	dir   string
	name  string // name of the manifest's file, if it cannot be derived from the number
}

type generation struct {
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
	Name     string    `json:"name,omitempty"`
}

type table struct {
	Name      string         `json:"name"`
	Folder    string         `json:"folder"`
	Key       []string       `json:"key,omitempty"`
	Mode      schemas.Mode   `json:"mode"`
	Place     string         `json:"place,omitempty"`
	About     string         `json:"about,omitempty"`
	Columns   []columnEntry  `json:"columns"`
	Partition partition.Spec `json:"partition,omitzero"`
	Made      string         `json:"made,omitempty"`
	Empty     *file          `json:"empty,omitempty"`    // a file without rows, if the table has no rows
	Numbered  int            `json:"numbered,omitempty"` // the highest field ID so far; byName: the IDs are derived from the columns' names; 0: the columns have no IDs

	schema *arrow.Schema
	owner  string // the source whose name is in the files; "": the files have no source column
}

type columnEntry struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	Means  string `json:"means,omitempty"`

	// ID and Element are the field IDs of the column and of a list's elements. Only catalogs use them.
	ID      int `json:"id,omitempty"`
	Element int `json:"element,omitempty"`
}

// segment holds rows of a root table that were written together, and all their child rows. A row is identified by the
// segment's ID and by the row's index in the root table's file. If a row is removed, the indexes of later rows change,
// and the segment gets a new ID.
type segment struct {
	ID    int64            `json:"id"`
	Table string           `json:"table"`
	Part  string           `json:"part,omitempty"`
	Files map[string]*file `json:"files"`
}

// file is one Parquet file. It never changes.
type file struct {
	Name string  `json:"name"` // including the partition's folder
	Rows int64   `json:"rows"`
	Size int64   `json:"size"`
	Sum  string  `json:"xxh3"`
	Dead int64   `json:"dead,omitempty"` // rows that have a tombstone or have ended; not known in files of child tables
	Min  *string `json:"min,omitempty"`
	Max  *string `json:"max,omitempty"`
	Run  string  `json:"run,omitempty"`

	// Sorted reports that the rows are in ascending order of the first key column, an int64 or a text.
	Sorted bool `json:"sorted,omitempty"`

	// Oldest is the least time of a row that [Lake.Trim] removes when it is old enough, in microseconds since 1970; nil:
	// the file has no such row.
	Oldest *int64 `json:"oldest,omitempty"`

	// Deleted has the positions of rows that are no longer in the table, although the file still has them. All other
	// fields, and the indexes of rows, count only the other rows. Only a lake with a catalog has such rows. Its readers
	// find the positions in the file Deletes.
	Deleted positions.List `json:"deleted,omitempty"`
	Deletes *file          `json:"deletes,omitempty"` // nil: the file has no deleted rows, or the commit has not written the positions yet

	store  streamStore
	dir    string
	ranges []encode.Range       // set if this process wrote the file for a catalog
	texts  map[int]encode.Range // ranges that are not in the footer, by column; see [encode.Writer.Texts]
}

func (f *file) path() string { return filepath.Join(f.dir, f.Name) }

func (s *segment) root() *file { return s.Files[s.Table] }

// The method with() returns a copy of s in which f is the file of the named table. If f is nil, the copy has no file of
// that table.
func (s *segment) with(name string, f *file) *segment {
	out := *s
	out.Files = make(map[string]*file, len(s.Files)+1)
	for n, old := range s.Files {
		out.Files[n] = old
	}
	if out.Files[name] = f; f == nil {
		delete(out.Files, name)
	}
	return &out
}

func newTable(t schemas.Table, by partition.Spec) *table {
	out := &table{Name: t.Name, Folder: folderOf(t.Name), Partition: by}
	out.become(t)
	return out
}

func (t *table) become(to schemas.Table) {
	t.Key, t.Mode, t.Place, t.schema = to.Key, to.Mode.Or(schemas.Merge), load.SourcePointer(to.Columns), to.Columns
	before := t.Columns
	t.About, t.Columns = load.TableDescription(to.Columns), nil
	for _, f := range to.Columns.Fields() {
		t.Columns = append(t.Columns, columnEntry{Name: f.Name, Type: schemas.TypeName(schemas.TypeOf(f)), Source: schemas.Source(f), Means: schemas.DescriptionOf(f)})
	}
	if t.Numbered != 0 {
		t.number(before)
	}
}

func (t *table) as() schemas.Table {
	return schemas.Table{Name: t.Name, Key: t.Key, Mode: t.Mode, Columns: t.schema}
}

func (t *table) read() error {
	fields := make([]arrow.Field, len(t.Columns))
	for i, c := range t.Columns {
		typ, err := schemas.ParseTypeName(c.Type)
		if err != nil {
			return fmt.Errorf("column %q of %s: %w", c.Name, t.Name, err)
		}
		fields[i] = schemas.WithDescription(schemas.Field(c.Name, typ, c.Source), c.Means)
	}
	md := map[string]string{}
	if t.Place != "" {
		md[schemas.SourceKey] = t.Place
	}
	if t.About != "" {
		md[schemas.DescriptionKey] = t.About
	}
	of := arrow.MetadataFrom(md)
	t.schema = arrow.NewSchema(fields, &of)
	return nil
}

func (t *table) has(column string) bool { return t.schema.HasField(column) }

// The method ended() returns the name of the column that is null exactly in current rows; "" if all rows are current.
func (t *table) ended() string {
	switch {
	case t.Mode == schemas.History && t.has(schemas.ColValidTo):
		return schemas.ColValidTo
	case t.has(schemas.ColDeletedAt):
		return schemas.ColDeletedAt
	}
	return ""
}

func (t *table) column(name string) int {
	return slices.IndexFunc(t.Columns, func(c columnEntry) bool { return c.Name == name })
}

func (t *table) typeOf(name string) arrow.DataType {
	return schemas.TypeOf(t.schema.Field(t.column(name)))
}

func (m *manifest) key() state.Key {
	return state.Key{Pipeline: m.Pipeline, Source: m.Source, Stream: m.Stream}
}

func (m *manifest) table(name string) *table {
	for _, t := range m.Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (m *manifest) children(root string) []*table {
	var out []*table
	for _, t := range m.Tables {
		if load.IsChildOf(t.as(), root) {
			out = append(out, t)
		}
	}
	return out
}

func (m *manifest) segmentsOf(root string) []*segment {
	var out []*segment
	for _, s := range m.Segments {
		if s.Table == root {
			out = append(out, s)
		}
	}
	return out
}

func (m *manifest) files(t *table) []*file {
	var out []*file
	for _, s := range m.Segments {
		if f := s.Files[t.Name]; f != nil {
			out = append(out, f)
		}
	}
	if len(out) == 0 && t.Empty != nil {
		out = append(out, t.Empty)
	}
	return out
}

// named returns all files of a table, including its delete files.
func (m *manifest) named(t *table) []*file {
	out := m.files(t)
	for _, f := range out {
		if f.Deletes != nil {
			out = append(out, f.Deletes)
		}
	}
	return out
}

// locate records where the files of m are. The function dir returns the folder of a table's files.
func (m *manifest) locate(s streamStore, dir func(t *table) string) {
	m.store = s
	for _, t := range m.Tables {
		for _, f := range m.named(t) {
			f.store, f.dir = s, dir(t)
		}
	}
}

func (m *manifest) prepare() error {
	if m.Format > formatVersion {
		return fmt.Errorf("format %d is newer than this version of penstock supports: install a newer version", m.Format)
	}
	for _, t := range m.Tables {
		if err := t.read(); err != nil {
			return err
		}
		if t.Numbered == byName {
			t.owner = m.Source
		}
	}
	return nil
}

// newSegment returns a segment without files.
func (m *manifest) newSegment(table, part string) *segment {
	m.Counter++
	return &segment{ID: m.Counter, Table: table, Part: part, Files: map[string]*file{}}
}

// clone returns a copy of m. The caller may replace tables and segments in the copy, and change its tables, without an
// effect on m.
func (m *manifest) clone() *manifest {
	out := *m
	out.Tables = make([]*table, len(m.Tables))
	for i, t := range m.Tables {
		c := *t
		out.Tables[i] = &c
	}
	out.Segments = slices.Clone(m.Segments)
	out.Kept = slices.Clone(m.Kept)
	return &out
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func sequenceOf(m *manifest) int64 {
	if m == nil {
		return 0
	}
	return m.Sequence
}

func ownGenerations(m *manifest) int64 {
	if m == nil {
		return 0
	}
	return m.Sequence - m.Beside
}

func committed(m *manifest) time.Time {
	switch {
	case m == nil:
		return time.Time{}
	case m.MovedAt.After(m.At):
		return m.MovedAt
	}
	return m.At
}

func movesOf(m *manifest) int64 {
	if m == nil {
		return 0
	}
	return m.Moves
}

func cursorOf(m *manifest) state.Cursor {
	if m == nil {
		return ""
	}
	return state.Cursor(m.Cursor)
}

func (m *manifest) rootOf(t *table) string {
	best := t.Name
	for _, r := range m.Tables {
		if !load.Child(r.schema) && load.IsChildOf(t.as(), r.Name) {
			best = r.Name
		}
	}
	return best
}

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

func cursorFor(m *manifest, k state.Key) state.Cursor {
	if m == nil || m.key() != k {
		return ""
	}
	return cursorOf(m)
}
