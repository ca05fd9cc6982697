// Package postgres lands tables in a schema of a Postgres database.
//
// A commit is one transaction: rows, tables, ledger and cursor become visible
// together. The row of the stream in _penstock_state is locked first and moved
// last, so that of two processes only one commits, and a COMMIT whose answer was
// lost is looked up under the same lock. Keys and hashes of the rows that arrive
// are copied into a temporary table and compared with those that are there; only
// rows that are new or changed are sent, by COPY in the binary format, encoded
// from Arrow columns. A reading that finds nothing changed writes to no table but
// the ledger.
//
// The database is somebody else's as well: tables are altered in place and never
// swapped or truncated, views in the way are put back as they were, and whatever
// cannot be put back stops the stream with nothing changed.
package postgres

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Options says which database and schema a [DB] writes to. Everything but URL
// may be left out.
type Options struct {
	// URL as libpq reads it, postgres://user:password@host/database?sslmode=…, or
	// keywords and values. It may bear a password: it is never logged.
	URL string

	// Schema the tables stand in: "public". One that is missing is made by the
	// first commit, if the role may.
	Schema string

	// JSON is the type of JSON columns that are made: "jsonb", or "json", which
	// keeps the spelling of the source. Documents that jsonb would refuse or
	// change in value stand there as a JSON string of their text, and among the
	// rejects.
	JSON string

	LockTimeout time.Duration // how long one statement waits for another's lock on a table or row; 10 s
	Wait        time.Duration // how long to try again where the server does not answer or is in the way; 1 min
	Silence     time.Duration // a transaction whose process gives no sign of life for so long is ended, by the server or by who waits for it; 15 s

	// Step, where it is given, is called before each named step of a commit; an
	// error makes the step fail. Tests use it to break commits at every step.
	Step func(name string) error

	// Warned holds the warnings about rights that were logged. Destinations that share it,
	// the schemas of many sources say, log each warning once.
	Warned *sync.Map

	Log *slog.Logger // for what a person should know though it was dealt with; nil: nowhere
}

const (
	defaultLockTimeout = 10 * time.Second
	defaultWait        = time.Minute
	defaultSilence     = 15 * time.Second // before the lease of its stream goes to another
)

// ErrNotReadOnly is returned by Query for a statement that is more than a
// question.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES, TABLE, SHOW or EXPLAIN can be asked")

// ErrUnsafe is returned where a table of penstock's own is another's, or where others
// have attached to it what would act with the rights of penstock's role.
var ErrUnsafe = errors.New("penstock's own tables are not safe to use")

// ErrPooled is returned by [Open] where a pooler hands each transaction to
// another session. That is not supported.
var ErrPooled = errors.New("a pooler in transaction mode stands before the database; connect to the database itself, or to a pool in session mode")
