package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// ErrNewer is returned where a file of the state folder was written by a later
// version of the program, which may mean other things by it. Nothing was changed.
var ErrNewer = errors.New("written by a newer version of this program")

// sqliteFile is one SQLite database of the state folder. One process at a time
// writes it, through one connection and with the right of a lock beside it, unless
// it is shared: then they take turns. Processes that only read may do so meanwhile,
// and never wait for the writer nor hold it up. What a transaction has committed
// survives a power cut, the file itself is its owner's alone.
type sqliteFile struct {
	path  string
	write *sql.DB // one connection, whose transactions begin as writers; nil for a reader
	read  *sql.DB
	lock  *Lock

	made   fs.FileInfo // the file that was opened
	looked time.Time   // when it was last seen to be the one at path
}

// sqliteReaders is how many may read at once in one process.
const sqliteReaders = 4

// sqlitePragmas hold for every connection. A commit has been synced when it
// returns, on macOS down to the platter. // Invariant 3
var sqlitePragmas = url.Values{
	"_busy_timeout": {"10000"},
	"_pragma":       {"journal_mode(WAL)", "synchronous(FULL)", "fullfsync(1)", "checkpoint_fullfsync(1)", "journal_size_limit(67108864)"},
	"_dqs":          {"0"},
	"_error_rc":     {"1"},
}

// openSQLite opens the file at path for writing, and makes it, together with its
// folder, where it is missing. migrations are the steps from nothing to the
// schema of today, each some SQL: they are only ever added to, and those which
// the file has not seen are taken now. The file counts them.
//
// It returns [ErrLocked], wrapped, if another process still has the file after
// wait, [ErrExposed] if others may reach it, and [ErrNewer] if it has seen more
// steps than there are.
func openSQLite(ctx context.Context, path string, wait time.Duration, migrations []string) (*sqliteFile, error) {
	if err := makeSQLite(path); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	lock, err := Acquire(ctx, path+".lock", wait)
	if err != nil {
		return nil, err
	}
	f := &sqliteFile{path: path, lock: lock}
	if f.made, err = os.Stat(path); err == nil && f.made.Size() == 0 {
		err = layOut(ctx, path)
	}
	if err == nil {
		f.write, err = connect(path, 1, url.Values{"_txlock": {"immediate"}})
	}
	if err == nil {
		f.read, err = connect(path, sqliteReaders, url.Values{"_query_only": {"1"}})
	}
	if err == nil {
		err = f.migrate(ctx, migrations)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return f, nil
}

// shareSQLite opens the file at path as [openSQLite] does, for a process which leaves
// it to others between its transactions: they write in turn.
func shareSQLite(ctx context.Context, path string, wait time.Duration, migrations []string) (*sqliteFile, error) {
	f, err := openSQLite(ctx, path, wait, migrations)
	if err != nil {
		return nil, err
	}
	lock := f.lock
	f.lock = nil
	if err := lock.Release(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readSQLite opens the file at path for reading, whoever writes it meanwhile.
// It returns [fs.ErrNotExist], wrapped, where there is none, and else what
// [openSQLite] does, except that it waits for nobody. A file which has not seen
// all of the steps is refused, too: its writer has to open it once.
func readSQLite(ctx context.Context, path string, migrations []string) (*sqliteFile, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	if err := errors.Join(inspectFolder(filepath.Dir(path)), inspectSQLite(path)); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// As a writer that never writes: the account of the journal is written by
	// readers, too.
	db, err := connect(path, sqliteReaders, url.Values{"_query_only": {"1"}})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := &sqliteFile{path: path, read: db}
	seen, err := f.version(ctx)
	switch {
	case err != nil:
	case seen > len(migrations):
		err = ErrNewer
	case seen < len(migrations):
		err = errors.New("written by an older version of this program, which has to be stopped first")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return f, nil
}

// makeSQLite makes an empty file that only its owner can read, durably, unless
// there is one; SQLite gives what it lays beside it the same rights.
func makeSQLite(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := inspectFolder(dir); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return inspectSQLite(path)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), syncFolder(dir), syncFolder(filepath.Dir(dir)))
}

// layOut makes a database of an empty file, which gives room back as it is asked to
// ever after. Only then: to say so of a database that is there, SQLite waits for
// its turn to write, and whoever only reads would stand behind all writers.
func layOut(ctx context.Context, path string) error {
	db, err := connect(path, 1, url.Values{"_auto_vacuum": {"INCREMENTAL"}})
	if err != nil {
		return err
	}
	return errors.Join(db.PingContext(ctx), db.Close())
}

// inspectSQLite returns [ErrExposed], wrapped, if the file or one that belongs
// to it is not its owner's alone, or no file at all.
func inspectSQLite(path string) error {
	for _, ending := range []string{"", "-wal", "-shm"} {
		if _, err := inspect(path + ending); err != nil {
			return err
		}
	}
	return nil
}

// connect returns a pool of at most n connections to a file that is there.
func connect(path string, n int, more url.Values) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"mode": {"rw"}}
	for _, vs := range []url.Values{sqlitePragmas, more} {
		for k, v := range vs {
			q[k] = v
		}
	}
	if runtime.GOOS == "windows" {
		path = "/" + filepath.ToSlash(path)
	}
	c, err := sqlite.NewConnector("file://" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// version returns how many steps of migration the file has seen.
func (f *sqliteFile) version(ctx context.Context) (n int, err error) {
	if err := f.read.QueryRowContext(ctx, "PRAGMA user_version").Scan(&n); err != nil {
		return 0, fmt.Errorf("read version: %w", err)
	}
	return n, nil
}

// migrate takes the steps that the file has not seen, one transaction each.
func (f *sqliteFile) migrate(ctx context.Context, steps []string) error {
	seen, err := f.version(ctx)
	if err != nil {
		return err
	}
	if seen > len(steps) {
		return ErrNewer
	}
	for i, step := range steps[seen:] {
		err := f.change(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA user_version = %d", strings.TrimSpace(step), seen+i+1))
			return err
		})
		if err != nil {
			return fmt.Errorf("take step %d of its schema: %w", seen+i+1, err)
		}
	}
	return nil
}

// sqliteLook is how often it is looked whether a file is still at its path.
const sqliteLook = time.Second

// there returns an error where the file was removed or replaced: what is written
// to it now nobody would find again. Callers take turns.
func (f *sqliteFile) there() error {
	if since := time.Since(f.looked); since >= 0 && since < sqliteLook {
		return nil
	}
	now, err := os.Stat(f.path)
	switch {
	case err != nil:
		return err
	case !os.SameFile(f.made, now):
		return fmt.Errorf("%s was replaced while it was open; restart this program", f.path)
	}
	f.looked = time.Now()
	return nil
}

// empty returns how many bytes of the file hold nothing.
func (f *sqliteFile) empty(ctx context.Context) (n int64, err error) {
	err = f.read.QueryRowContext(ctx, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read free pages: %w", err)
	}
	return n, nil
}

// change runs do in a transaction. When it returns nil what do has changed
// survives a power cut, else nothing of it has happened. // Invariant 3
func (f *sqliteFile) change(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := f.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, rollback(tx))
	}
	return tx.Commit()
}

// rollback undoes a transaction, unless a cancelled context has done so.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// Close gives the file and its lock up.
func (f *sqliteFile) Close() error {
	var errs []error
	for _, db := range []*sql.DB{f.read, f.write} { // the writer last: it tidies up
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Release())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", f.path, err)
	}
	return nil
}
