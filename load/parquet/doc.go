// Package parquet loads tables into folders of Parquet files.
//
// Each stream has a folder of generations, which never change. root/<stream>/current is a symbolic link to the current
// generation. A generation has a folder of files, <table>/*.parquet, for each table: the stream's table, its child
// tables, and penstock's internal tables. The file _manifest.json in a generation lists its tables and files.
//
// A commit writes a new generation and then replaces the link by rename(2). This publishes rows, schemas and cursor
// in one step. Files that did not change are hard-linked into the new generation. If a commit changes no file, it
// makes no generation, and stores the new cursor beside the link. The table of [load.State] then still shows the
// cursor that was stored with the generation.
//
// Readers do not need penstock. In DuckDB, the following returns each row once:
//
//	read_parquet('root/<stream>/current/<table>/*.parquet')
//
// File names are never used again. If a commit takes place while a reader lists and then reads files, the reader may
// miss a file and fail, but it never mixes two generations. A reader can also resolve the link first. Then it can read
// that generation for as long as it is kept.
package parquet

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/load/parquet/partition"
)

// Options configures a [Lake]. All fields except Path or Bucket are optional.
type Options struct {
	Path   string          // the root folder; the first commit creates it
	Bucket string          // instead of Path: s3://name/prefix, gs://name/prefix or azblob://container/prefix
	Store  objects.Options // how to reach the bucket
	// Catalog, if set, opens a catalog through which other engines find the tables in Path or Bucket.
	// The lake then has no folders of generations, no links, and no file patterns for readers.
	Catalog func(context.Context, Files) (Catalog, error)

	// Mode is the file mode of files in Path. Folders get the same mode. In addition, everyone who may read files may
	// enter the folders. If Mode is 0, the umask decides, but others never get the right to write.
	Mode fs.FileMode

	TempDir string // where keys of large tables are stored during a pass; "": the system's folder for temporary files
	Writers int    // how many files of one table are written at the same time; 0: one per core

	// PartitionBy names a column. The rows of each table that has this column are divided by its values into folders
	// such as <column>_day=2026-11-20. An existing table keeps its partitioning. Readers then use <table>/**/*.parquet.
	PartitionBy partition.Spec

	// Deletes says which files a commit to the catalog does not write again, although some of their rows have changed.
	Deletes DeleteRule

	// The last Keep generations are kept. An older generation is kept for the time KeepFor after it was replaced, so
	// that readers can finish.
	Keep    int           // 0: 3
	KeepFor time.Duration // 0: 24 h; negative: no time

	WaitLock time.Duration // how long to wait while another process commits to the stream; 0: 30 s, negative: do not wait

	// Step, if set, is called before each named step of a commit. If it returns an error, the step fails. Tests use it
	// to interrupt commits at every step.
	Step func(name string) error

	Log *slog.Logger // for problems that were handled but that an operator should know; nil: discarded
}

const (
	defaultKeep     = 3
	defaultKeepFor  = 24 * time.Hour
	defaultWaitLock = 30 * time.Second
)
