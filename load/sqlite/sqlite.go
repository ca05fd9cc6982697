// Package sqlite loads tables into an SQLite file.
//
// Other programs can read the file during a commit, because it has a write-ahead log. A commit is one transaction with
// the rows and the cursor. Package sqlmerge does the merge.
//
// SQLite has few types. Decimals are stored as text with all their digits. Times are text in UTC, always with six
// fractional digits, so that they sort as text. The declared type of a column distinguishes such values from other
// text, as in DECIMAL TEXT(16,2); SQLite stores text in each column whose declared type contains TEXT. SQLite has no
// comments, so descriptions are only in _penstock_schema.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/retry"
)

// Options sets the file that a [DB] writes. Only Path is required.
type Options struct {
	Path     string
	Mode     fs.FileMode   // mode of a new file and its log; 0: only the owner can read and write it
	WaitLock time.Duration // how long to wait while another process writes; 0: 30 s, negative: do not wait

	// Step, if not nil, is called before each named step of a commit. An error makes the step fail. Tests use it to
	// break commits at every step.
	Step func(name string) error
}

const (
	defaultMode     = 0o600
	defaultWaitLock = 30 * time.Second
)

// DB is a destination in an SQLite file. Its methods are safe for concurrent use.
type DB struct {
	*sqlmerge.Store
	b *backend
}

var (
	_ load.Destination = (*DB)(nil)
	_ load.Querier     = (*DB)(nil)
	_ load.Sharer      = (*DB)(nil)
)

// Open prepares a destination in the file o.Path. It does not open the file. If the file does not exist, the first
// commit creates it. Close the destination after use.
func Open(o Options) (*DB, error) {
	if o.Path == "" {
		return nil, errors.New("open sqlite: no path")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	o.Path = path
	if o.Mode == 0 {
		o.Mode = defaultMode
	}
	if o.WaitLock == 0 {
		o.WaitLock = defaultWaitLock
	}
	b := &backend{o: o, writer: make(chan struct{}, 1)}
	if b.read, err = connect(path, readTimeout, true); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	b.store = sqlmerge.New(b)
	return &DB{Store: b.store, b: b}, nil
}

// Close closes the file. Committed data stays.
func (d *DB) Close() error {
	if err := errors.Join(load.Step(d.b.o.Step, "close"), d.b.close()); err != nil {
		return fmt.Errorf("close %s: %w", d.b.o.Path, err)
	}
	return nil
}

// backend implements [sqlmerge.Backend].
type backend struct {
	dialect
	o     Options
	store *sqlmerge.Store
	read  *sql.DB

	writer chan struct{} // holds one token while a transaction writes, and guards the fields below
	pool   *sql.DB
	conn   *sql.Conn // the connection that writes; it owns the temporary tables
	closed bool

	mu      sync.Mutex
	known   map[string]*sqlmerge.Object // objects of the file, as committed
	version int64                       // version of the schema that known describes
}

// connect returns a pool of connections to an existing file. When a commit returns, it is durable. // Invariant 3
func connect(path string, timeout string, readOnly bool) (*sql.DB, error) {
	more := url.Values{
		"_busy_timeout": {timeout},
		"_pragma":       {"legacy_alter_table(1)"}, // renaming a table does not check the views of users
	}
	if readOnly {
		more.Set("_query_only", "1")
	}
	return state.ConnectSQLite(path, more)
}

// Exists implements [sqlmerge.Backend]. If it cannot find out whether the file exists, it returns true, so that SQLite
// reports the error.
func (b *backend) Exists() bool {
	_, err := os.Stat(b.o.Path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Retry implements [sqlmerge.Backend]. It calls f once, because Write already waits for other processes.
func (*backend) Retry(_ context.Context, f func() error) error { return f() }

// Step implements [sqlmerge.Backend].
func (b *backend) Step(name string) error { return load.Step(b.o.Step, name) }

// Read implements [sqlmerge.Backend].
func (b *backend) Read(ctx context.Context, f func(sqlmerge.Reader) error) error {
	if !b.Exists() {
		return nil
	}
	// While another connection creates the log of a new file, SQLite returns an error immediately and does not wait.
	tries := retry.Policy{First: 5 * time.Millisecond, Total: b.o.WaitLock}.Begin()
	conn, err := b.read.Conn(ctx)
	for locked(err) && tries.Again(ctx) {
		conn, err = b.read.Conn(ctx)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", b.o.Path, classify(err))
	}
	return errors.Join(f(&session{b: b, conn: conn}), conn.Close())
}

// Write implements [sqlmerge.Backend]. If another process writes, Write waits up to Options.WaitLock. If that process
// is still writing after this time, Write returns [state.ErrLocked] (wrapped).
func (b *backend) Write(ctx context.Context) (sqlmerge.Session, error) {
	select {
	case b.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	deadline := time.Now().Add(b.o.WaitLock)
	for {
		err := b.begin(ctx)
		if err == nil {
			return &session{b: b, conn: b.conn}, nil
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if locked(err) && time.Now().Before(deadline) {
			continue // each attempt waits for busyTimeout
		} else if locked(err) {
			err = fmt.Errorf("open %s: %w", b.o.Path, state.ErrLocked)
		}
		<-b.writer
		return nil, err
	}
}

// busyTimeout is how long SQLite waits for a lock, in milliseconds. While SQLite waits, it does not notice that the
// context has ended. So Write repeats short attempts.
const busyTimeout = "100"

// readTimeout is how long a reader waits for a lock, in milliseconds. A reader waits only while SQLite recovers the
// log.
const readTimeout = "10000"

func (b *backend) begin(ctx context.Context) error {
	if b.closed {
		return errors.New("destination is closed")
	}
	if b.conn == nil {
		if err := b.create(); err != nil {
			return err // it has the path
		}
		pool, err := connect(b.o.Path, busyTimeout, false)
		if err != nil {
			return fmt.Errorf("open %s: %w", b.o.Path, err)
		}
		conn, err := pool.Conn(ctx)
		if err != nil {
			return errors.Join(fmt.Errorf("open %s: %w", b.o.Path, classify(err)), pool.Close())
		}
		b.pool, b.conn = pool, conn
	}
	_, err := b.conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	return classify(err)
}

// create creates an empty file unless there is one. SQLite gives the file's log the same mode.
func (b *backend) create() error {
	f, err := os.OpenFile(b.o.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, b.o.Mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(b.o.Mode), f.Close())
}

// disconnect closes the connection that writes, and with it the temporary tables. The caller holds the writer's token.
func (b *backend) disconnect() error {
	if b.conn == nil {
		return nil
	}
	err := errors.Join(b.conn.Close(), b.pool.Close())
	b.conn, b.pool = nil, nil
	b.store.LoseCarried()
	return err
}

func (b *backend) close() error {
	b.writer <- struct{}{}
	defer func() { <-b.writer }()
	b.closed = true
	return errors.Join(b.read.Close(), b.disconnect())
}

// locked reports whether the error means that another connection has the file locked.
func locked(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// classify marks errors of a full disk, and of a file that is not a database, so that callers can recognize them.
func classify(err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	switch {
	case !ok:
		return err
	// SQLite returns SQLITE_IOERR_SHMSIZE if the disk has no room for the -shm file beside the database.
	case e.Code()&0xff == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE:
		return fmt.Errorf("the disk is full: %w: %w", syscall.ENOSPC, err)
	case e.Code()&0xff == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", load.ErrNotDatabase, err)
	}
	return err
}
