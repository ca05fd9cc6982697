package parquet

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/load/parquet/partition"
)

// Catalog shows the tables of a lake to other engines: it says which files make up a table. It also records the
// commits of the lake's streams. A lake with a catalog has no folders of generations. The methods may be called
// concurrently.
type Catalog interface {
	// Streams returns the names of the streams that have commits.
	Streams(ctx context.Context) ([]string, error)

	// Sources returns the names of the sources that have commits to the shared tables of a stream. It returns none if
	// the tables belong to one source.
	Sources(ctx context.Context, stream string) ([]string, error)

	// Head returns the last commit of a stream. If sources share the stream's tables, it returns the last commit of the
	// given source. It returns nil if there is none.
	Head(ctx context.Context, stream, source string) (*Head, error)

	// Commit makes c the last commit of its stream. The tables' files, their columns and the properties in c change in
	// one step for all readers. If the last commit is not c.Parent, Commit returns state.ErrMoved (wrapped). If another
	// program has written to one of the tables, it returns a [*load.ForeignChange].
	//
	// If sources share the tables, c becomes the last commit of c.Source only, and does not conflict with concurrent
	// commits of other sources. Then Commit may also return a [*Disagreement] or [ErrConcurrentSource]. After these four
	// errors nothing has changed. After any other error the outcome is unknown. // Invariants 1, 2, 13
	Commit(ctx context.Context, c Commit) error

	// Foreign describes how other programs have changed the table t of a stream since the source's last commit. It returns
	// nothing if the rows and columns are still those of penstock. A commit with t.Restore undoes these changes.
	Foreign(ctx context.Context, stream, source string, t TableFiles) (diff []string, err error)

	// Named returns the names of files that must be kept. These are the files that the catalog has written for the
	// stream and that readers may still use. They include the data files of snapshots that other programs have tagged.
	// The keys of the map are the folders of the tables.
	Named(ctx context.Context, stream string) (map[string]Names, error)

	// Identifier returns the namespace of a table, and the table's name in it. The parameter is the table's [CatalogName].
	// The files of the table are in a folder of that name, which is in a folder of the namespace's name.
	Identifier(table string) (namespace, name string)

	// Locate returns where the metadata of a table is, for other engines. The parameter is the table's [CatalogName]. Locate
	// returns "" if there is no such table.
	Locate(ctx context.Context, table string) (string, error)

	Close() error
}

// Names lists the files in a table's folder that readers may still use. The name of a file begins with the number of a
// commit. A file whose number is above Upto may be in use even if the field Files does not list it.
type Names struct {
	Files []string
	Upto  int64
}

// Files gives a [Catalog] access to the lake's files. Their names are relative to the root of the lake.
// The methods may be called concurrently.
type Files interface {
	// Write stores a file durably. A name must not be used twice.
	Write(ctx context.Context, name string, text []byte) error
	// Read reads a file. If there is none, the error wraps fs.ErrNotExist.
	Read(ctx context.Context, name string) ([]byte, error)
	// Location returns the address under which other engines find a file. Name is the inverse: it returns the name of
	// the file at an address, or false if the address is not in the lake.
	Location(name string) string
	Name(location string) (name string, ok bool)
}

// Head is the last commit of a stream: the ID and Manifest of its [Commit].
type Head struct {
	ID       string
	Manifest string
}

// Commit describes one change of the tables of a stream.
type Commit struct {
	Stream     string
	Source     string            // the source that commits; "" if the tables are not shared
	ID         string            // ID of this commit; unique
	Parent     string            // ID of the previous commit; "" for the first
	Sequence   int64             // number of this commit, from 1; the names of the files that it writes begin with this number
	Manifest   string            // name of the file that lists the stream's tables and files
	Properties map[string]string // properties that people can read, such as the cursor and the run
	Tables     []TableFiles      // all tables of the stream; the last one is the head table, which has the cursor: see [HeadTable]
	Dropped    []string          // tables that the stream no longer has
	Kept       []int64           // sequence numbers of earlier commits whose tables can still be read, ascending

	// OtherSources has commits of other sources. They are needed because this commit widens columns of shared tables,
	// and are made in the same step as this commit. LastCommits has the ID of the last commit of each of the other
	// sources. If one of these sources has a later commit, the commit fails with [ErrConcurrentSource].
	OtherSources []Commit
	LastCommits  map[string]string
}

// Disagreement is the error for a commit with column types that do not fit the present columns of a shared table.
// Some files must be rewritten before the columns can hold the rows of all sources.
type Disagreement struct {
	Table   string        // name of the table in penstock
	Columns *arrow.Schema // the conflicting columns, with the types that they have in the table
}

// Error implements error.
func (d *Disagreement) Error() string {
	return "table " + d.Table + ": other sources have other types in the columns " + strings.Join(load.Names(d.Columns), ", ")
}

// ErrConcurrentSource is returned by [Catalog].Commit if another source has a later commit than the one in
// [Commit].LastCommits.
var ErrConcurrentSource = errors.New("another source committed at the same time")

// TableFiles describes a table, and what a commit changes in it.
type TableFiles struct {
	Name            string        // name in the catalog: see [CatalogName]
	Table           string        // name in penstock
	Folder          string        // where its files are
	Columns         *arrow.Schema // each with its field ID: see [FieldNumber]
	PreviousColumns *arrow.Schema // the previous columns; nil: the table is new

	PartitionBy partition.Spec // zero: not partitioned
	Key         []string       // the key columns, which are never null; nil: none, or the table is internal
	Versions    bool           // several rows may have the same key

	// Reset reports that earlier snapshots of the table cannot be kept, because files of several sources were replaced
	// or removed. The types in Columns are then the types for all sources.
	Reset bool

	// Restore makes the commit undo what other programs have changed in the table. If the table is not shared, Added then
	// lists all files of the table.
	Restore bool

	Added, Removed []DataFile

	// AddedDeletes and RemovedDeletes are files with the positions of deleted rows, in Iceberg's layout of position delete
	// files. Each has all positions in one data file.
	AddedDeletes, RemovedDeletes []DataFile
}

// Changed reports whether the commit adds or removes files.
func (t *TableFiles) Changed() bool {
	return len(t.Added)+len(t.Removed)+len(t.AddedDeletes)+len(t.RemovedDeletes) > 0
}

// DataFile is a file that holds rows of a table.
type DataFile struct {
	Name       string
	Source     string // the source of the rows, if the table is partitioned by source
	Rows, Size int64
	Ranges     []encode.Range
	Sorted     bool // the rows are in ascending order of the first key column

	// PartitionBy is the partitioning of this file. In a shared table, the files of other sources may have another
	// partitioning.
	PartitionBy partition.Spec // zero: not partitioned
	Part        string         // partition, see [partition.Spec.Value]; "": not partitioned
}

// numberKey is the metadata key for a field's ID, which the encoder writes into the file.
const numberKey = "PARQUET:field_id"

// FieldNumber returns the field ID of a column, or of the elements of a list. It returns 0 if there is none. An ID
// always means the same column, even if the column's name changes.
func FieldNumber(f arrow.Field) int {
	text, _ := f.Metadata.GetValue(numberKey)
	n, _ := strconv.Atoi(text)
	return n
}
