package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// ErrNewer is returned if a file of the state folder was written by a newer version of the program, which may use a
// different format. Nothing was changed.
var ErrNewer = errors.New("written by a newer version of this program")

// sqliteFile is an SQLite database in the state folder. Only its owner can access the file. One process at a time has
// the file open for writing, through one connection. This process holds a lock on another file beside it. A file from
// [shareSQLite] is an exception: several processes can have it open at the same time, and their transactions take
// turns. Readers and writers never wait for each other. Committed transactions are durable.
type sqliteFile struct {
	path  string
	write *sql.DB // one connection, whose transactions lock the file when they begin; nil for a reader
	read  *sql.DB
	lock  *Lock

	openedFile fs.FileInfo // the file that was opened
	looked     time.Time   // when the file at path was last compared with openedFile
}

const sqliteReaders = 4

// sqlitePragmas are set for every connection. With them, a commit is on the disk when it returns. On macOS, this needs
// fullfsync. Invariant 3
var sqlitePragmas = url.Values{
	"_busy_timeout": {"10000"},
	"_pragma":       {"journal_mode(WAL)", "synchronous(FULL)", "fullfsync(1)", "checkpoint_fullfsync(1)", "journal_size_limit(67108864)"},
	"_dqs":          {"0"},
	"_error_rc":     {"1"},
}

// openSQLite opens the file at path for writing. The migrations are the SQL steps from an empty file to the current
// schema. The file stores how many of them were run. So a new step is added at the end, and existing steps never
// change.
//
// openSQLite returns three errors, wrapped: [ErrLocked] if another process holds the file for longer than the given
// time, [ErrExposed] if other users can access the file, and [ErrNewer] if more steps were run on the file than there
// are migrations.
func openSQLite(ctx context.Context, path string, wait time.Duration, migrations []string) (*sqliteFile, error) {
	if err := makeSQLite(path); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	lock, err := Acquire(ctx, path+".lock", wait)
	if err != nil {
		return nil, err
	}
	f := &sqliteFile{path: path, lock: lock}
	if f.openedFile, err = os.Stat(path); err == nil && f.openedFile.Size() == 0 {
		err = initSQLite(ctx, path)
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

// shareSQLite is like [openSQLite], but holds the lock only while opening. So several processes can have the file
// open and write in turns.
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

// readSQLite opens the file at path for reading. Another process may be writing it. If there is no file, readSQLite
// returns [fs.ErrNotExist], wrapped. Otherwise it returns the same errors as [openSQLite]. It does not run migrations.
// If some of the migrations were not run on the file, readSQLite returns an error.
func readSQLite(ctx context.Context, path string, migrations []string) (*sqliteFile, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	if err := errors.Join(inspectFolder(filepath.Dir(path)), inspectSQLite(path)); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// A read-only connection does not work, because a reader also writes to the index of the WAL. So open the file for
	// writing, and forbid changes with _query_only.
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
		err = errors.New("written by an older version of this program; stop that version, and start this version")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return f, nil
}

// makeSQLite creates an empty file that only its owner can read, and makes it durable. SQLite gives the WAL and the
// WAL's index the same mode.
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

// initSQLite switches on the incremental vacuum of a new database. It must not be called for an existing database.
// SQLite would take the write lock there, so the caller would wait for all writers.
func initSQLite(ctx context.Context, path string) error {
	db, err := connect(path, 1, url.Values{"_auto_vacuum": {"INCREMENTAL"}})
	if err != nil {
		return err
	}
	return errors.Join(db.PingContext(ctx), db.Close())
}

// inspectSQLite returns [ErrExposed], wrapped, if others can access the database, its WAL or the WAL's index. It
// returns the same error if one of them is not a regular file.
func inspectSQLite(path string) error {
	for _, ending := range []string{"", "-wal", "-shm"} {
		if _, err := inspect(path + ending); err != nil {
			return err
		}
	}
	return nil
}

// ConnectSQLite returns connections to an existing SQLite file, with the same settings as for the files of the state.
// The parameter `extra` contains more settings, under the names that the driver modernc.org/sqlite uses. Its pragmas
// are added to the default pragmas. Its other settings replace the default settings of the same names.
func ConnectSQLite(path string, extra url.Values) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	q := maps.Clone(sqlitePragmas)
	q.Set("mode", "rw")
	for k, v := range extra {
		q[k] = v
	}
	q["_pragma"] = slices.Concat(sqlitePragmas["_pragma"], extra["_pragma"])
	if runtime.GOOS == "windows" {
		path = "/" + filepath.ToSlash(path)
	}
	c, err := sqlite.NewConnector("file://" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

func connect(path string, n int, extra url.Values) (*sql.DB, error) {
	db, err := ConnectSQLite(path, extra)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

func (f *sqliteFile) version(ctx context.Context) (n int, err error) {
	if err := f.read.QueryRowContext(ctx, "PRAGMA user_version").Scan(&n); err != nil {
		return 0, fmt.Errorf("read version: %w", err)
	}
	return n, nil
}

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
			return fmt.Errorf("run migration %d: %w", seen+i+1, err)
		}
	}
	return nil
}

const sqliteLook = time.Second

// checkFile returns an error if another program has removed or replaced the file, because later writes would be lost.
// It must not be called by two goroutines at the same time.
func (f *sqliteFile) checkFile() error {
	if since := time.Since(f.looked); since >= 0 && since < sqliteLook {
		return nil
	}
	now, err := os.Stat(f.path)
	switch {
	case err != nil:
		return err
	case !os.SameFile(f.openedFile, now):
		return fmt.Errorf("%s was replaced while it was open; restart this program", f.path)
	}
	f.looked = time.Now()
	return nil
}

func (f *sqliteFile) empty(ctx context.Context) (n int64, err error) {
	err = f.read.QueryRowContext(ctx, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read free pages: %w", err)
	}
	return n, nil
}

// change calls the function update in a transaction. When change returns nil, the changes are durable. If update
// returns an error, nothing has changed. Invariant 3
func (f *sqliteFile) change(ctx context.Context, update func(*sql.Tx) error) error {
	tx, err := f.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := update(tx); err != nil {
		return errors.Join(err, rollback(tx))
	}
	return tx.Commit()
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// Close closes the connections and releases the lock.
func (f *sqliteFile) Close() error {
	var errs []error
	for _, db := range []*sql.DB{f.read, f.write} { // close the writer last, because it then removes the WAL
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
