// Package duckdb lands tables in a DuckDB file.
//
// The file is attached to an in-memory engine only while something is committed
// or looked up, so that others can open it in between. Rows arrive as Arrow
// batches, which the engine reads in place; a commit deletes the rows that
// changed and appends them anew, and moves the cursor in the same transaction.
// Beside each table that keeps rows which do not stand any more there is a view
// of those that do, <table>_current. [DB.Publish] gives readers a copy of their
// own.
//
// Target tables have neither keys nor indexes: list columns, deletes followed
// by inserts and the replay of the log break under them, and an index must fit
// in memory. That keys are unique is this package's doing.
//
// It needs cgo and the build tag duckdb_arrow. Without them [Open] says so.
package duckdb

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"
)

// Options says which file a [DB] writes, and how much of the machine it may use.
// Everything but Path may be left out.
type Options struct {
	Path        string        // a symbolic link stands for the file that it leads to
	Mode        fs.FileMode   // of the file, its log and published copies; 0: as the umask says, never writable by others
	MemoryLimit string        // of the engine, as DuckDB writes sizes; "160MB"
	Threads     int           // of the engine; 0: all cores but one, which is left to reading
	TempDir     string        // where a private directory for spilling is made; the system's
	WaitLock    time.Duration // how long to wait for a file that another process has open; 0: 30 s, negative: not at all

	// StorageVersion of a file that is created. The default, "v1.4.0", costs a
	// quarter less CPU to write than "v1.0.0", which older engines can read too.
	StorageVersion string

	// Step, where it is given, is called before each named step of a commit; an
	// error makes the step fail. Tests use it to break commits at every step.
	Step func(name string) error

	Log *slog.Logger // for what a person should know though it was dealt with; nil: nowhere
}

const (
	defaultMemoryLimit    = "160MB"
	defaultStorageVersion = "v1.4.0"
	defaultWaitLock       = 30 * time.Second
)

// RowGroup is how many rows the file keeps together. A commit of so many, or of a
// page more, fills one such group, which is compressed while it is inserted. One
// of fewer waits for the commit, one of a fraction more leaves a scrap, and
// either is worked over once more by the next checkpoint. It is two thirds of
// what the engine would take: there is memory to gather the next group while one
// is written, and lists in pages of 1000, 500, 200 or 100 leave scraps of 80 rows.
const RowGroup = 81_920

// ErrNotBuilt is returned by [Open] in a binary that was built without DuckDB.
var ErrNotBuilt = errors.New("built without duckdb: it needs cgo and the build tag duckdb_arrow")

// ErrNotReadOnly is returned by Query for a statement that is more than a
// question.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN can be asked; another program of DuckDB runs all else, while no sync does")
