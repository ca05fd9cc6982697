package parquet

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
)

// Catalog tells other engines which files make up the tables of a lake, and holds
// the commits of its streams: what folders of generations are elsewhere. Its
// methods may be called from any number of goroutines.
type Catalog interface {
	// Streams are the names of the streams that were committed to.
	Streams(ctx context.Context) ([]string, error)

	// Sources are those that share the tables of a stream, and have committed; none
	// where the tables are one source's.
	Sources(ctx context.Context, stream string) ([]string, error)

	// Head is the last commit of a stream, or of a source that shares its tables;
	// nil where there is none.
	Head(ctx context.Context, stream, source string) (*Head, error)

	// Commit makes c the last commit of its stream: the tables' files, their
	// columns and what c says of itself, in one step for all who read. It returns
	// state.ErrMoved, wrapped, where another than c.Parent is the last, and a
	// [*load.ForeignChange] where somebody else has written to one of the tables.
	// Where sources share the tables, c is the last commit of its source, and those
	// of others at the same time are no hindrance; a [*Disagreement] or [ErrBeside]
	// is returned before anything is done. After any other error nobody knows
	// whether it was made. // Invariants 1, 2, 13
	Commit(ctx context.Context, c Commit) error

	// Named are the names of the files that the catalog itself has written for the
	// stream and that somebody may still ask for, by the folder of their table.
	Named(ctx context.Context, stream string) (map[string]Names, error)

	// Locate says where the metadata of a table lies, as other engines are told; ""
	// where there is no such table.
	Locate(ctx context.Context, table string) (string, error)

	Close() error
}

// Names are those of the files of a table's folder that somebody may still ask for.
// There may be others whose names begin with a number beyond Upto.
type Names struct {
	Files []string
	Upto  int64
}

// Files is where a lake keeps its files, by names below its root. Its methods may
// be called from any number of goroutines.
type Files interface {
	// Write stores a file durably. No name is used twice.
	Write(ctx context.Context, name string, text []byte) error
	// Read reads a file; one that is not there is fs.ErrNotExist, wrapped.
	Read(ctx context.Context, name string) ([]byte, error)
	// Location is where other engines find a file, and Name the inverse.
	Location(name string) string
	Name(location string) (name string, ok bool)
}

// Head is the last commit of a stream, as its [Commit] said.
type Head struct {
	ID       string
	Manifest string
}

// Commit is what becomes of the tables of a stream.
type Commit struct {
	Stream   string
	Source   string            // whose commit it is, where sources share the tables; "": they do not
	ID       string            // of this commit, which no other has
	Parent   string            // of the one it follows; "" for the first
	Sequence int64             // the number of commits, with this one. It begins the names of the files that are written for it
	Manifest string            // the file that tells what the stream holds
	Says     map[string]string // for people: the cursor, the run and the like
	Tables   []TableFiles      // all that the stream has, the one that heads it last
	Dropped  []string          // tables it has no more
	Kept     []int64           // numbers of earlier commits whose tables can still be read, in their order

	// Beside are commits of other sources that are made in the same step, as their
	// columns become wider with c's. Among then are the last commits of all sources
	// but c's, as they were found: of another there is [ErrBeside].
	Beside []Commit
	Among  map[string]string
}

// Disagreement says that a commit's columns of a table and those that it has by
// now are of types which cannot be one column, and that none of either can stand
// as it is.
type Disagreement struct {
	Table   string        // as penstock calls it
	Columns *arrow.Schema // those in question, as the table has them
}

// Error implements error.
func (d *Disagreement) Error() string {
	return "table " + d.Table + ": other sources have columns of other types: " + strings.Join(load.Names(d.Columns), ", ")
}

// ErrBeside is returned by [Catalog].Commit where sources have committed since they
// were looked at.
var ErrBeside = errors.New("another source has committed")

// TableFiles is a table, and what a commit changes about it.
type TableFiles struct {
	Name    string        // in the catalog
	Table   string        // as penstock calls it
	Folder  string        // where its files lie
	Columns *arrow.Schema // each with its number: see [FieldNumber]
	Was     *arrow.Schema // the columns before; nil: it is new

	PartitionBy string // the column by whose dates it is divided; "": it is not
	Months      bool   // by months, not by days

	// Anew says that how the table was before cannot be read any more, and that
	// Columns are those of all sources.
	Anew bool

	Added, Removed []DataFile
}

// DataFile is a file of a table's rows.
type DataFile struct {
	Name       string
	Source     string // whose rows they are, where the table is divided by sources
	Rows, Size int64
	Ranges     []Range
	Part       *int32 // days or months since 1970, where the table is divided; nil: the rows have no date
}

// numberKey is where a field has its number, as the encoder writes it into files.
const numberKey = "PARQUET:field_id"

// FieldNumber is the number of a column, or of the elements of a list: it means
// the same column for good, whatever that is called; 0 where there is none.
func FieldNumber(f arrow.Field) int {
	text, _ := f.Metadata.GetValue(numberKey)
	n, _ := strconv.Atoi(text)
	return n
}
