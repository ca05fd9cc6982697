// Package duckdb loads tables into a DuckDB file.
//
// The file is attached to an in-memory engine only during commits and reads, so that other processes can open the file
// at other times. Rows arrive as Arrow batches, which the engine reads without copying. A commit is one transaction
// with the rows and the cursor. Package sqlmerge does the merge. [DB.Publish] makes a copy of the file for readers.
//
// The tables have neither primary keys nor indexes. Three things fail in a table with a primary key or an index: list
// columns, inserts after deletes, and the replay of the log. An index must also fit in memory. The merge itself ensures
// that keys are unique.
//
// The package needs cgo and the build tag duckdb_arrow. Without them, [Open] returns [ErrNotBuilt].
package duckdb

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"
)

// Options sets the file that a [DB] writes, and limits the engine's resources. Only Path is required.
type Options struct {
	Path        string        // symbolic links are followed
	Mode        fs.FileMode   // mode of the file, its log and published copies; 0: from the umask, but never writable by others
	MemoryLimit string        // limit of the engine, in DuckDB's notation; default "160MB"
	Threads     int           // number of the engine's threads; 0: all cores but one, which is left for reading the source
	TempDir     string        // where to create a private folder for data that does not fit in memory; default: the system's folder for temporary files
	TempLimit   string        // greatest size of that folder, in DuckDB's notation; default "10GB". Without a limit, one query could fill the disk
	WaitLock    time.Duration // how long to wait for a file that another process has open; 0: 30 s, negative: do not wait

	// ReadOnly opens the file only for reading. Many processes can read a file at the same time. A write returns an error.
	ReadOnly bool

	// StorageVersion is the format of a file that is created. The default "v1.4.0" takes a quarter less CPU to write than
	// "v1.0.0". Older engines can read only "v1.0.0".
	StorageVersion string

	// BlockSize is the size of the blocks of a file that is created, in bytes: a power of 2 from 16,384 to 262,144. The
	// default is 262,144. Each table with rows takes at least one block, so a file with many small tables is smaller with
	// small blocks. But in blocks of less than 65,536 bytes, the engine does not compress integers, decimals and times. It
	// also builds a dictionary of texts for each block. So, compared with the default, loading 10 million rows takes twice
	// the CPU with blocks of 16,384 bytes, and a quarter more CPU with blocks of 65,536 bytes. BenchmarkBlockSize measures
	// this.
	BlockSize int

	// Step, if not nil, is called before each named step of a commit. An error makes the step fail. Tests use it to
	// break commits at every step.
	Step func(name string) error

	Log *slog.Logger // for problems that penstock has handled but that an operator should know; nil: no log
}

// Columns is the default limit of a stream's columns. During a commit of more than 2,048 rows, the engine keeps 256 KiB
// in memory for each column of the table. With more than 500 columns, this would exceed the default memory limit.
const Columns = 500

const (
	defaultMemoryLimit    = "160MB"
	defaultTempLimit      = "10GB"
	defaultStorageVersion = "v1.4.0"
	defaultBlockSize      = 256 << 10
	defaultWaitLock       = 30 * time.Second
)

// RowGroup is the number of rows per row group of the file. A commit of this many rows fills one row group, which is
// compressed while it is inserted. The rows of a smaller commit are compressed only when the commit ends. A slightly
// larger commit leaves a few rows for a second row group. In both cases the next checkpoint rewrites the rows. RowGroup
// is two thirds of the engine's default, so that there is memory to collect the next row group while one is written. A
// commit contains whole pages. With pages of 1000, 500, 200 or 100 records, the smallest commit of at least RowGroup
// rows has 82,000 rows, which are only 80 more than RowGroup.
//
// Half of RowGroup was also measured, with commits of half as many rows. A million rows of 25 columns then take 14 %
// less CPU and 12 % less memory. But four million rows of 10 columns take 21 % more CPU and an 18 % larger file.
const RowGroup = 81_920

// ErrNotBuilt is returned by [Open] in a binary that was built without DuckDB.
var ErrNotBuilt = errors.New("this binary was built without DuckDB, which needs cgo and the build tag duckdb_arrow")

// ErrNotReadOnly is returned by Query for a statement that does more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN is allowed; for anything else, use another DuckDB program while no sync is running")
