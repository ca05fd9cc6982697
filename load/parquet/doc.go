// Package parquet loads tables into folders of Parquet files.
//
// Each stream has a folder of generations, which are immutable. root/<stream>/current is a symbolic
// link to the current generation. In a generation, <table>/*.parquet holds the rows of the stream's
// table, of its child tables, and the stream's rows of penstock's internal tables. A commit replaces
// the link by rename(2), which publishes rows, schemas and cursor in one step. _manifest.json in each
// generation lists what belongs to it. Unchanged files are hard-linked into the next generation. A
// commit that changes no file makes no generation: it stores the new cursor beside the link, and the
// row of [load.State] in the files keeps the cursor of the generation.
//
// Readers do not need penstock:
//
//	read_parquet('root/<stream>/current/<table>/*.parquet')
//
// returns each row once. File names are never reused. So if a commit overtakes a reader between listing
// and reading, the reader finds a file missing, but never mixes two generations. A reader that resolves
// current first sees one generation for as long as that is kept.
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
	// Catalog, if set, opens a catalog that publishes the tables in Path or Bucket to other engines. It
	// replaces the folders of generations, so the lake has no links, and no patterns for readers.
	Catalog func(context.Context, Files) (Catalog, error)

	// Mode is the mode of files in Path. Folders get the same mode, and can be entered by those who may
	// read files. 0: as the umask allows, never writable by others.
	Mode fs.FileMode

	TempDir string // for the keys of large tables during a pass; "": the system's
	Writers int    // files (or columns of one file) encoded at the same time; 0: one per core

	// PartitionBy names a column of dates or timestamps. Tables that have it are partitioned by day
	// into folders <column>_day=2026-11-20; with the suffix ":month", by month into
	// <column>_month=2026-11. A table keeps the partitioning it was created with. Readers then use
	// <table>/**/*.parquet.
	PartitionBy string

	// The last Keep generations are kept. Older ones are kept for KeepFor after they were replaced, so
	// that readers can finish.
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
