// Package parquet loads tables into folders of Parquet files.
//
// Each stream has a folder of generations, which are immutable. root/<stream>/current is a symbolic
// link to the current generation. A generation has one folder of files, <table>/*.parquet, for the
// stream's table, for each of its child tables, and for each of penstock's internal tables. A commit
// replaces the link by rename(2), which publishes rows, schemas and cursor in one step. The file
// _manifest.json in each generation lists what belongs to the generation. Unchanged files are
// hard-linked into the next generation. A commit that changes no file makes no generation, and stores
// the new cursor beside the link. The table of [load.State] then still shows the cursor that was stored
// with the generation.
//
// Readers do not need penstock:
//
//	read_parquet('root/<stream>/current/<table>/*.parquet')
//
// returns each row once. File names are never used again. So if a commit comes between a reader's
// listing and its reading, the reader may miss a file and fail, but never mixes two generations. A
// reader that first resolves the link can read that generation for as long as it is kept.
package parquet

import (
	"context"
	"io/fs"
	"log/slog"
	"time"
)

// Options configures a [Lake]. All fields except Path or Bucket are optional.
type Options struct {
	Path   string // the root folder; the first commit creates it
	Bucket string // instead of Path: s3://name/prefix, gs://name/prefix or azblob://container/prefix
	Store  Store  // how to reach the bucket
	// Catalog, if set, opens a catalog through which other engines find the tables in Path or Bucket.
	// The lake then has no folders of generations, no links, and no file patterns for readers.
	Catalog func(context.Context, Files) (Catalog, error)

	// Mode is the file mode of files in Path. Folders get the same mode, with the right to enter added
	// to each right to read. 0 means the mode that the umask allows, but never writable by others.
	Mode fs.FileMode

	TempDir string // for the keys of large tables during a pass; "": the system's
	Writers int    // files of one table that are written at the same time; 0: one per core

	// PartitionBy names a column of dates or timestamps. Tables that have it are partitioned by day
	// into folders <column>_day=2026-11-20; with the suffix ":month", by month into
	// <column>_month=2026-11. A table keeps the partitioning it was created with. Readers then use
	// <table>/**/*.parquet.
	PartitionBy string

	// The last Keep generations are kept. An older generation is kept for KeepFor after it was
	// replaced, so that readers can finish.
	Keep    int           // 0: 3
	KeepFor time.Duration // 0: 24 h; negative: no time

	WaitLock time.Duration // how long to wait while another process commits to the stream; 0: 30 s, negative: do not wait

	// Step, if set, is called before each named step of a commit. An error makes the step fail. Tests
	// use it to interrupt commits at every step.
	Step func(name string) error

	Log *slog.Logger // for problems that were handled but that an operator should know; nil: discarded
}

const (
	defaultKeep     = 3
	defaultKeepFor  = 24 * time.Hour
	defaultWaitLock = 30 * time.Second
)
