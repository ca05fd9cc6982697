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
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// formatVersion is the manifest's. A newer one is not touched.
const formatVersion = 1

// manifest says what belongs to a generation of a stream. It is written once,
// before the generation is made current.
type manifest struct {
	Format   int         `json:"format"`
	Pipeline string      `json:"pipeline"`
	Stream   string      `json:"stream"`
	Source   string      `json:"source,omitempty"` // whose rows these are, where sources share the stream's tables
	Origin   load.Origin `json:"origin,omitzero"`  // of the rows, where they do not
	Sequence int64       `json:"sequence"`         // the generation's number: so many commits were made
	Parent   int64       `json:"parent"`           // the one it followed
	Cursor   string      `json:"cursor"`
	Run      string      `json:"run"`
	At       time.Time   `json:"at"`
	Changed  time.Time   `json:"changed"` // time of the last row of [load.Changes]
	Counter  int64       `json:"counter"` // of segments, so far

	Tables   []*table     `json:"tables"`
	Segments []*segment   `json:"segments"`
	Kept     []generation `json:"kept"` // generations before it that may still be there

	// What commits have done since the generation was made that left everything but
	// the cursor as it was. In a folder of the file system they write a [position]
	// instead of a manifest.
	Moves   int64     `json:"moves,omitempty"` // so many there were
	MovedAt time.Time `json:"moved_at,omitzero"`

	// Beside is how many of the generations other sources have made that share the
	// tables, as they gave them wider columns: see [tx.agree].
	Beside int64 `json:"beside,omitempty"`

	// Line are the ids of the last commits, this one's last. Only the manifests of
	// a bucket have them.
	Line []string `json:"line,omitempty"`

	shelf streamStore
	dir   string // the generation's
	name  string // of its file, where that does not follow from the number
}

// generation is an earlier one, and when it was committed.
type generation struct {
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
	Name     string    `json:"name,omitempty"` // of its manifest, where that does not follow from the number
}

// table is a table of a stream.
type table struct {
	Name      string        `json:"name"`
	Folder    string        `json:"folder"`
	Key       []string      `json:"key,omitempty"`
	Mode      schemas.Mode  `json:"mode"`
	Place     string        `json:"place,omitempty"`
	About     string        `json:"about,omitempty"`
	Columns   []columnEntry `json:"columns"`
	Partition string        `json:"partition,omitempty"` // as [Options].PartitionBy
	Made      string        `json:"made,omitempty"`      // the run that has made it
	Empty     *file         `json:"empty,omitempty"`     // the file without rows of a table that has none
	Numbered  int           `json:"numbered,omitempty"`  // the highest number of a column so far, or byName; 0: they have none

	schema *arrow.Schema // of Columns, with their metadata
	owner  string        // the source that its files name as theirs; "": they name none
}

type columnEntry struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	Means  string `json:"means,omitempty"`

	// The numbers of the column, and of its elements where it is a list, in a
	// catalog.
	ID      int `json:"id,omitempty"`
	Element int `json:"element,omitempty"`
}

// segment is rows of a root table that were written together, and all that
// hangs from them. A row is found by its segment and its place in the
// segment's file of the root table, and keeps both while no row before it is
// removed.
type segment struct {
	ID    int64            `json:"id"`
	Table string           `json:"table"`          // the root table
	Part  string           `json:"part,omitempty"` // the folder of its partition
	Files map[string]*file `json:"files"`          // by table
}

// file is one Parquet file. It never changes.
type file struct {
	Name string  `json:"name"` // with the partition's folder
	Rows int64   `json:"rows"`
	Size int64   `json:"size"`
	Sum  string  `json:"xxh3"`
	Dead int64   `json:"dead,omitempty"` // rows that bear a tombstone or have ended
	Min  *string `json:"min,omitempty"`  // of the first column of the key
	Max  *string `json:"max,omitempty"`
	Run  string  `json:"run,omitempty"` // the greatest there is

	shelf  streamStore
	dir    string  // the table's folder it lies in
	ranges []Range // of a file that this process has written for a catalog
}

func (f *file) path() string { return filepath.Join(f.dir, f.Name) }

// root is the segment's file of its root table.
func (s *segment) root() *file { return s.Files[s.Table] }

// with is the segment with another file for a table; nil takes it away.
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

// newTable is a table for the manifest.
func newTable(t schemas.Table, partition string) *table {
	out := &table{Name: t.Name, Folder: folderOf(t.Name), Partition: partition}
	out.become(t)
	return out
}

// newTable is a table for the next manifest of the transaction's stream.
func (x *tx) newTable(t schemas.Table, partition string) *table {
	out := newTable(t, partition)
	out.Made = x.of.Run
	if x.lake.o.Catalog == nil {
		return out
	}
	if x.key.Source != "" {
		out.Numbered = byName
		out.owner = x.key.Source
	}
	out.number(nil)
	out.Folder = x.lake.nameOf(t.Name)
	return out
}

// become takes over what a plan has made of the table.
func (t *table) become(to schemas.Table) {
	t.Key, t.Mode, t.Place, t.schema = to.Key, to.Mode.Or(schemas.Merge), load.Place(to.Columns), to.Columns
	before := t.Columns
	t.About, t.Columns = load.About(to.Columns), nil
	for _, f := range to.Columns.Fields() {
		t.Columns = append(t.Columns, columnEntry{Name: f.Name, Type: schemas.TypeName(schemas.TypeOf(f)), Source: schemas.Source(f), Means: schemas.Described(f)})
	}
	if t.Numbered != 0 {
		t.number(before)
	}
}

// as is the table as the rest of penstock knows it.
func (t *table) as() schemas.Table {
	return schemas.Table{Name: t.Name, Key: t.Key, Mode: t.Mode, Columns: t.schema}
}

// read makes the schema from the columns.
func (t *table) read() error {
	fields := make([]arrow.Field, len(t.Columns))
	for i, c := range t.Columns {
		typ, err := schemas.ParseTypeName(c.Type)
		if err != nil {
			return fmt.Errorf("column %q of %s: %w", c.Name, t.Name, err)
		}
		fields[i] = schemas.Describe(schemas.Field(c.Name, typ, c.Source), c.Means)
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

// ended is the column that is null in rows that stand; "" where all do.
func (t *table) ended() string {
	switch {
	case t.Mode == schemas.History && t.has(schemas.ColValidTo):
		return schemas.ColValidTo
	case t.has(schemas.ColDeletedAt):
		return schemas.ColDeletedAt
	}
	return ""
}

// column is the place of a column among the table's; it must be there.
func (t *table) column(name string) int {
	return slices.IndexFunc(t.Columns, func(c columnEntry) bool { return c.Name == name })
}

// typeOf is the lattice's type of a column.
func (t *table) typeOf(name string) arrow.DataType {
	return schemas.TypeOf(t.schema.Field(t.column(name)))
}

// key is the stream that the generation is of.
func (m *manifest) key() state.Key {
	return state.Key{Pipeline: m.Pipeline, Source: m.Source, Stream: m.Stream}
}

// table is the table of that name, or nil.
func (m *manifest) table(name string) *table {
	for _, t := range m.Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// children are the tables whose rows hang from those of the root table.
func (m *manifest) children(root string) []*table {
	var out []*table
	for _, t := range m.Tables {
		if load.Hangs(t.as(), root) {
			out = append(out, t)
		}
	}
	return out
}

// of are the segments of a root table, in the order in which they were made.
func (m *manifest) of(root string) []*segment {
	var out []*segment
	for _, s := range m.Segments {
		if s.Table == root {
			out = append(out, s)
		}
	}
	return out
}

// files are the files of a table.
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

// locate tells the manifest and all files which folder of which store they lie
// in.
func (m *manifest) locate(s streamStore, dir string) {
	m.shelf, m.dir = s, dir
	for _, t := range m.Tables {
		for _, f := range m.files(t) {
			f.shelf, f.dir = s, filepath.Join(dir, t.Folder)
		}
	}
}

// prepare makes a manifest that was read ready for use.
func (m *manifest) prepare() error {
	if m.Format > formatVersion {
		return fmt.Errorf("format %d is newer than this penstock knows", m.Format)
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

// clone is a copy to be worked on: tables and segments can be replaced, and the
// tables themselves changed.
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
