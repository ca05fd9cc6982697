// Package postgres loads tables into a schema of a Postgres database.
//
// A commit is one transaction: rows, tables, penstock's own records and the cursor become visible together. The
// transaction first locks the stream's row in _penstock_state, and updates this row last, so that only one of two
// processes can commit. If the answer to a COMMIT is lost, its outcome is looked up under the same lock. The keys and
// hashes of arriving rows are copied into a temporary table and compared with the stored ones. Whole rows are sent
// only if they are new or changed, by COPY in the binary format, encoded from Arrow columns. A pass that finds no
// changes writes only to penstock's own tables.
//
// Other programs use the database too. So tables are altered in place, and never swapped or truncated. Views that
// block a change are dropped and created again as they were. If this is impossible for a view, the stream stops and
// nothing is changed.
package postgres

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Options sets the database and schema that a [DB] writes to. Only URL is required.
type Options struct {
	// URL is a libpq connection string, postgres://user:password@host/database?sslmode=…, or keywords and values. It
	// may contain a password, so it is never logged.
	URL string

	// Schema is the schema of the tables, by default "public". If it is missing, the first commit creates it, for which
	// the role needs CREATE on the database.
	Schema string

	// JSON is the type of new JSON columns: "jsonb" (the default), or "json", which keeps the source's spelling.
	// Documents that jsonb would reject or change in value are stored as a JSON string of their text, and recorded as
	// rejects.
	JSON string

	LockTimeout time.Duration // how long one statement waits for a lock on a table or row; default 10 s
	Wait        time.Duration // how long to retry while the server does not answer or is blocked; default 1 min
	IdleTimeout time.Duration // after how long without progress the server, or another process that waits for the locks, ends a transaction; default 15 s

	// Step, if not nil, is called before each named step of a commit. An error makes the step fail. Tests use it to
	// break commits at every step.
	Step func(name string) error

	// LoggedWarnings holds the warnings about rights that were already logged. If several destinations have the same
	// LoggedWarnings, such as those for the schemas of many sources, each warning is logged once.
	LoggedWarnings *sync.Map

	Log *slog.Logger // for problems that were handled but should be known; nil: no log
}

const (
	defaultLockTimeout = 10 * time.Second
	defaultWait        = time.Minute
	defaultSilence     = 15 * time.Second // less than it takes until another worker gets the stream's lease
)

// ErrNotReadOnly is returned by Query for a statement that does more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES, TABLE, SHOW or EXPLAIN is allowed")

// ErrUnsafe is returned if another role owns one of penstock's own tables, or has attached something to it that would
// act with the rights of penstock's role.
var ErrUnsafe = errors.New("penstock's own tables are not safe to use")

// ErrPooled is returned by [Open] if a connection pooler assigns each transaction to another session. That is not
// supported.
var ErrPooled = errors.New("the connection goes through a pooler in transaction mode; connect to the database directly, or to a pool in session mode")
