// Package postgres loads tables into a schema of a Postgres database. Package sqlmerge merges the rows.
//
// A commit is one transaction. The rows, the changes of tables, the rows of penstock's own tables and the cursor become
// visible together. At its beginning, the transaction locks the stream's row in _penstock_state. At its end, it updates
// this row. So if two processes commit to the same stream, only one succeeds. If the answer to a COMMIT is lost,
// penstock waits for the same lock and then reads whether the commit succeeded.
//
// penstock first sends the keys and hashes of the arriving rows. It copies them into a temporary table, and the server
// compares them with the stored rows. Then penstock sends only the new and changed rows in full. It encodes them from
// Arrow columns, and uses COPY in binary format. A pass that finds no changes writes only to penstock's own tables.
//
// Other programs use the database too. So penstock alters tables in place, and never swaps or truncates them. If views
// block a change, penstock drops them and creates the same views again. If a view cannot be created again, the stream
// stops and nothing is changed.
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

	// Servers shares connections with other destinations. If it is nil, the destination has connections of its own.
	Servers *Servers
	// Connections is how many connections to the server this process has at most for the URL, if the URL has no
	// pool_max_conns. 0 means 32.
	Connections int
	// Together says to how many destinations on this server one pass writes; default 1. The limit of connections is at
	// least Together + 1.
	Together int

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
	// IdleTimeout limits the time in which a transaction makes no progress; default 15 s. After that, the server ends
	// the transaction. If the server does not do so, another process that waits for a lock of the transaction ends the
	// transaction.
	IdleTimeout time.Duration

	// Step is called before each named step of a commit, if it is not nil. If Step returns an error, the commit step
	// fails. Tests use it to interrupt commits at every step.
	Step func(name string) error

	// LoggedWarnings has the warnings about rights that were already logged. If several destinations share this map,
	// each warning is logged once. The sources of a multi-source pipeline share it. Each source has a schema of its
	// own, and would otherwise log the same warnings.
	LoggedWarnings *sync.Map

	Log *slog.Logger // for problems that penstock has handled itself; nil: no log
}

const (
	defaultLockTimeout = 10 * time.Second
	defaultWait        = time.Minute
	// defaultSilence must be shorter than the lease of a stream. So if a worker stalls, the server ends its session
	// before another worker gets the lease.
	defaultSilence = 15 * time.Second
)

// Columns is the default limit of a stream's columns. A row of Postgres has at most 8,160 bytes. Long values are stored
// outside the row, but each of them takes 18 bytes in the row.
const Columns = 400

// ErrNotReadOnly is returned by Query for a statement that may do more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES, TABLE, SHOW or EXPLAIN is allowed")

// ErrUnsafe is returned if another role owns one of penstock's own tables, or has attached functions to such a table.
// Such functions would run with the rights of penstock's role.
var ErrUnsafe = errors.New("penstock's own tables are not safe to use")
