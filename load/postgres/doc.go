// Package postgres loads tables into a schema of a Postgres database.
//
// A commit is one transaction: rows, tables, own records and cursor become visible together. The transaction first
// locks the stream's row in _penstock_state and updates it last, so that only one of two processes commits. If the
// answer to a COMMIT is lost, its outcome is looked up under the same lock. Keys and hashes of the arriving rows are
// copied into a temporary table and compared with the stored ones. Only new and changed rows are sent, by COPY in the
// binary format, encoded from Arrow columns. A pass that finds no changes writes only to penstock's own tables.
//
// The database also belongs to others: tables are altered in place and never swapped or truncated, views that block a
// change are recreated as they were, and if one cannot be recreated, the stream stops with nothing changed.
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

	// Schema is the schema of the tables, by default "public". The first commit creates it if it is missing, if the
	// role may.
	Schema string

	// JSON is the type of new JSON columns: "jsonb" (the default), or "json", which keeps the source's spelling.
	// Documents that jsonb would reject or change in value are stored as a JSON string of their text, and recorded as
	// rejects.
	JSON string

	LockTimeout time.Duration // how long one statement waits for a lock on a table or row; default 10 s
	Wait        time.Duration // how long to retry while the server does not answer or is blocked; default 1 min
	Silence     time.Duration // the server, or a waiting process, ends a transaction whose process is silent for this long; default 15 s

	// Step, if not nil, is called before each named step of a commit. An error makes the step fail. Tests use it to
	// break commits at every step.
	Step func(name string) error

	// Warned holds the warnings about rights that were already logged. Destinations that share it, such as the
	// schemas of many sources, log each warning once.
	Warned *sync.Map

	Log *slog.Logger // for problems that were handled but should be known; nil: no log
}

const (
	defaultLockTimeout = 10 * time.Second
	defaultWait        = time.Minute
	defaultSilence     = 15 * time.Second // shorter than it takes for the lease of its stream to go to another worker
)

// ErrNotReadOnly is returned by Query for a statement that does more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES, TABLE, SHOW or EXPLAIN is allowed")

// ErrUnsafe is returned if another role owns one of penstock's own tables, or has attached something to it that would
// act with the rights of penstock's role.
var ErrUnsafe = errors.New("penstock's own tables are not safe to use")

// ErrPooled is returned by [Open] if a connection pooler assigns each transaction to another session. That is not
// supported.
var ErrPooled = errors.New("the connection goes through a pooler in transaction mode; connect to the database directly, or to a pool in session mode")
