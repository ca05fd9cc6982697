// Package parquet lands tables in folders of Parquet files.
//
// Each stream has a folder with generations, which never change once they are
// there: root/<stream>/current is a symbolic link to the one that counts, and
// below it lie <table>/*.parquet for the stream's table, its children and what
// penstock's own tables hold of that stream. Replacing the link by rename(2)
// commits rows, schemas and cursor in one step; _manifest.json in each
// generation says what belongs to it. Files that a commit leaves alone are
// linked into the next generation as they are. A commit that leaves all of them
// alone makes no generation: its cursor is put beside the link, and the row of
// [load.State] in the files stays that of the generation.
//
// Readers need nothing of penstock's:
//
//	read_parquet('root/<stream>/current/<table>/*.parquet')
//
// has each row once. The names of files are never used again, so that a reader
// whose listing is overtaken by a commit finds a file gone, and never half of
// another generation; one that resolves current first sees one generation for
// as long as it is kept.
package parquet

import (
	"context"
	"io/fs"
	"log/slog"
	"time"
)

// Options says where a [Lake] is, and how it is kept. Everything but Path may
// be left out.
type Options struct {
	Path   string // the root folder; made by the first commit
	Bucket string // instead of Path: s3://name/prefix, gs://name/prefix or azblob://container/prefix
	Store  Store  // how it is reached
	// Catalog, where it is given, lists the tables in Path or Bucket for other
	// engines, in whose place generations are. There are then no links and no
	// patterns.
	Catalog func(context.Context, Files) (Catalog, error)

	// Mode of files in Path, and of its folders, which others may enter who may read or
	// write the files; 0: as the umask says, never writable by others.
	Mode fs.FileMode

	TempDir string // where the keys of large tables are noted during a pass; the system's
	Writers int    // files (or columns of one) that are encoded at once; 0: one a core

	// PartitionBy is a column of dates or timestamps, by whose days the tables
	// that have it are divided into folders <column>_day=2026-11-20; with
	// ":month" behind it, by months: <column>_month=2026-11. A table keeps the
	// division it was made with. Readers then take <table>/**/*.parquet.
	PartitionBy string

	// The last Keep generations stay, and older ones until they have been
	// outdated for KeepFor, so that readers can finish.
	Keep    int           // 0: 3
	KeepFor time.Duration // 0: 24 h; negative: not at all

	WaitLock time.Duration // how long to wait for a stream another process commits to; 0: 30 s, negative: not at all

	// Step, where it is given, is called before each named step of a commit; an
	// error makes the step fail. Tests use it to break commits at every step.
	Step func(name string) error

	Log *slog.Logger // for what a person should know though it was dealt with; nil: nowhere
}

const (
	defaultKeep     = 3
	defaultKeepFor  = 24 * time.Hour
	defaultWaitLock = 30 * time.Second
)
