// Package postgres loads tables into a schema of a Postgres database. The merge is that of package sqlmerge.
//
// A commit is one transaction. The rows, the changes of tables, the rows of penstock's own tables and the cursor become
// visible together. The transaction begins by locking the stream's row in _penstock_state, and ends by updating this
// row. So only one of two processes can commit. If the answer to a COMMIT is lost, its outcome is looked up under the
// same lock.
//
// The keys and hashes of arriving rows are copied into a temporary table and compared with the stored ones. Whole
// rows are sent only if they are new or changed, by COPY in binary format, encoded from Arrow columns. A pass that
// finds no changes writes only to penstock's own tables.
//
// Other programs use the database too. So tables are altered in place, and never swapped or truncated. Views that
// block a change are dropped and created again as they were. If that is impossible for a view, the stream stops and
// nothing is changed.
package postgres

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Options sets the database and schema to which a [DB] writes. Only URL is required.
type Options struct {
	// URL is a connection string of libpq: postgres://user:password@host/database?sslmode=…, or keywords and values.
	// It may contain a password, so it is never logged.
	URL string

	// Schema is the schema of the tables, by default "public". If it does not exist, the first commit creates it. For
	// that, the role needs the right CREATE on the database.
	Schema string

	// JSON is the type of new JSON columns: "jsonb" (the default) or "json", which keeps the source's spelling. If
	// jsonb would reject a document or change its value, the text of the document is stored as a JSON string, and the
	// document is recorded as a reject.
	JSON string

	LockTimeout time.Duration // how long one statement waits for a lock on a table or row; default 10 s
	// Wait is how long to retry if the server does not answer, or if another session blocks a table or row; default
	// 1 min.
	Wait time.Duration
	// IdleTimeout limits the time without progress, by default to 15 s. After that, the transaction is ended by the
	// server, or by another process that waits for the transaction's locks.
	IdleTimeout time.Duration

	// Step is called before each named step of a commit, if it is not nil. If Step returns an error, the commit step
	// fails. Tests use it to interrupt commits at every step.
	Step func(name string) error

	// LoggedWarnings has the warnings about rights that were already logged. Destinations that share it, such as
	// those of the schemas of many sources, log each warning only once.
	LoggedWarnings *sync.Map

	Log *slog.Logger // for problems that were handled but that a person should know; nil: no log
}

const (
	defaultLockTimeout = 10 * time.Second
	defaultWait        = time.Minute
	// defaultSilence must be shorter than the lease of a stream. Then a stalled session has ended when another worker
	// gets the lease.
	defaultSilence = 15 * time.Second
)

// Columns is the default limit of a stream's columns. A row of Postgres has 8,160 bytes. Long values are stored
// elsewhere, but each takes 18 bytes in the row.
const Columns = 400

// ErrNotReadOnly is returned by Query for a statement that may do more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES, TABLE, SHOW or EXPLAIN is allowed")

// ErrUnsafe is returned if another role owns one of penstock's own tables, or has attached functions to such a table.
// Such functions would run with the rights of penstock's role.
var ErrUnsafe = errors.New("penstock's own tables are not safe to use")
