// Package mysql loads tables into a database of a MySQL or MariaDB server. Package sqlmerge does the merge.
//
// # Transactions
//
// MySQL commits a transaction before each statement that creates or alters a table. So such statements run in a second
// session, before the transaction touches the table, and one statement makes all changes of a table. A row for each
// change is first committed to the table _penstock_pending, and is deleted in the transaction. After a crash, the
// remaining rows name the changes of transactions that did not commit. To penstock, these changes do not exist: an
// empty table and a new column are hidden, and a wider column has its old type. The next commit that needs these
// changes makes them again. So the rows, the recorded changes of tables and the cursor become durable in one step.
// Invariants 1, 2, 16
//
// If the transaction has used the rows of a table, no second session can alter this table. If the table must be
// altered, the transaction is rolled back and repeated. The repetition first makes all changes of tables that its rows
// need; see [sqlmerge.Store.BeginRepeatable].
//
// One process writes at a time. This process holds a lock of the server (GET_LOCK), which the server releases when the
// session ends. A commit replaces the stream's row in _penstock_state only if the row has not changed. So a process
// that has lost the lock cannot commit after another process. If the answer to a COMMIT is lost, penstock waits until
// the lost session has ended. Then the stream's row shows whether the commit took place.
//
// MySQL does not commit when a temporary table is created. Temporary tables have an index, because without one MySQL
// would compare long texts row by row.
//
// # Types
//
// Texts are LONGTEXT, because the sum of the lengths of VARCHAR columns is limited. Their collation compares bytes, and
// does not ignore spaces at the end. JSON and lists are LONGTEXT too, because the type JSON of MySQL changes numbers.
// Times are DATETIME(6) in UTC, because TIMESTAMP ends in 2038. The year 10000, which a time zone can produce, is
// stored as the last microsecond of 9999, and is recorded as a reject.
//
// Each table has an invisible column _penstock_id, which is its primary key. So rows are appended, in the order of
// arrival. Records are found by an index over the first characters of the key, because InnoDB indexes at most 3,072
// bytes.
//
// # Two servers
//
// The package uses only SQL that both MySQL 8.0.23 and MariaDB 10.6 know. Only the name of the collation differs. MySQL
// cannot read a temporary table twice in one statement. So the merge reads each temporary table once: see
// [sqlmerge.Traits].
package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/state"
)

// Options sets the database that a [DB] writes. Only URL is required.
type Options struct {
	// URL is mysql://user:password@host:port/database. It may have the options socket=PATH and tls=VALUE, where VALUE is
	// true, false, preferred (the default) or skip-verify. The URL may contain a password, so it is never logged.
	URL      string
	Database string        // instead of the database in the URL
	WaitLock time.Duration // how long to wait for another process that writes, or for a lock on a table; 0: 30 s, negative: do not wait

	// Step, if not nil, is called before each named step of a commit. An error makes the step fail. Tests use it to
	// break commits at every step.
	Step func(name string) error
}

// Columns is the default limit of a stream's columns. A row of InnoDB has at most 8,126 bytes. Each column may need 40
// of them, because InnoDB stores texts of up to 40 bytes in the row.
const Columns = 190

// DB is a destination in a database of a server. Its methods are safe for concurrent use.
type DB struct {
	*sqlmerge.Store
	b *backend
}

var (
	_ load.Destination = (*DB)(nil)
	_ load.Querier     = (*DB)(nil)
	_ load.Sharer      = (*DB)(nil)
)

// Open prepares a destination. It does not connect. If the database does not exist, the first commit creates it. Close
// the destination after use.
func Open(o Options) (*DB, error) {
	c, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("open mysql: %w", err)
	}
	o.WaitLock = cmp.Or(o.WaitLock, 30*time.Second)
	b := &backend{dialect: dialect{database: c.DBName}, o: o, config: c, writer: make(chan struct{}, 1)}
	if b.pool, err = connect(c, b.settings()); err != nil {
		return nil, fmt.Errorf("open mysql: %w", err)
	}
	b.store = sqlmerge.New(b)
	return &DB{Store: b.store, b: b}, nil
}

// Close ends the sessions. Committed data stays.
func (d *DB) Close() error {
	if err := errors.Join(load.Step(d.b.o.Step, "close"), d.b.close()); err != nil {
		return fmt.Errorf("close mysql: %w", err)
	}
	return nil
}

// Locate returns the name of a table in SQL.
func (d *DB) Locate(table string) string { return d.b.Place(table) }

// Share returns the destination restricted to one source; see [load.Sharer].
func (d *DB) Share(source string) load.Destination {
	part := d.Store.Share(source).(load.SourcePart)
	part.Destination = d
	return part
}

// backend implements [sqlmerge.Backend].
type backend struct {
	dialect
	o      Options
	config *mysql.Config
	store  *sqlmerge.Store
	pool   *sql.DB // for readers, and to create and alter tables

	writer chan struct{} // holds one token while a transaction writes, and guards the fields below
	conn   *sql.Conn     // the session that writes; it owns the temporary tables
	id     int64         // id of the session conn
	ddl    *sql.Conn     // the session that changes tables for the transaction; nil: none yet
	ddlID  int64         // id of the session ddl
	packet int           // greatest length of a statement
	closed bool

	collation string // collation of texts, which compares bytes
}

// Numbers of errors of the server.
const (
	errUnknownDatabase = 1049
	errDiskFull        = 1021
	errTableFull       = 1114
	errLockWait        = 1205
	errDeadlock        = 1213
	errRowTooLarge     = 1118
	errTooManyColumns  = 1117
	errNoTable         = 1146
	errKeyExists       = 1061
	errReadOnly        = 1792
)

// Exists implements [sqlmerge.Backend]. Only Read finds out whether the database exists.
func (b *backend) Exists() bool { return true }

// Retry implements [sqlmerge.Backend]. It calls f once, because Write already waits for other processes.
func (*backend) Retry(_ context.Context, f func() error) error { return f() }

// Step implements [sqlmerge.Backend].
func (b *backend) Step(name string) error { return load.Step(b.o.Step, name) }

// Read implements [sqlmerge.Backend].
func (b *backend) Read(ctx context.Context, f func(sqlmerge.Reader) error) error {
	conn, err := b.pool.Conn(ctx)
	if number(err) == errUnknownDatabase {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	return errors.Join(f(&session{b: b, conn: conn, touched: map[string]bool{}}), conn.Close())
}

// Write implements [sqlmerge.Backend]. If another process writes, Write waits up to Options.WaitLock. If that process
// still writes then, Write returns [state.ErrLocked] (wrapped).
func (b *backend) Write(ctx context.Context) (sqlmerge.Session, error) {
	select {
	case b.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s, err := b.begin(ctx)
	if err != nil && lost(err) && ctx.Err() == nil { // the server has ended the session, because it was idle
		s, err = b.begin(ctx)
	}
	if err != nil {
		<-b.writer
		return nil, classify(err)
	}
	return s, nil
}

func (b *backend) begin(ctx context.Context) (_ *session, err error) {
	if b.closed {
		return nil, errors.New("destination is closed")
	}
	defer func() {
		if err != nil && !errors.Is(err, state.ErrLocked) { // after a failed wait for the lock, the session and its temporary tables are still usable
			b.disconnect()
		}
	}()
	if b.conn == nil {
		if err := b.dial(ctx); err != nil {
			return nil, err
		}
	}
	if err := b.lock(ctx, b.conn, b.lockName("")); err != nil {
		return nil, err
	}
	if err := b.waitForChanges(ctx); err != nil {
		return nil, errors.Join(err, b.unlock(b.conn, ""))
	}
	_, err = b.conn.ExecContext(ctx, "START TRANSACTION")
	return &session{b: b, conn: b.conn, touched: map[string]bool{}}, err
}

// dial opens the session that writes, and creates the database if it does not exist.
func (b *backend) dial(ctx context.Context) error {
	conn, err := b.pool.Conn(ctx)
	if number(err) == errUnknownDatabase {
		if err := b.create(ctx); err != nil {
			return err
		}
		conn, err = b.pool.Conn(ctx)
	}
	if err != nil {
		return err
	}
	b.conn = conn
	if _, err := conn.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
		return err
	}
	return conn.QueryRowContext(ctx, "SELECT connection_id(), @@max_allowed_packet, @@collation_connection").Scan(&b.id, &b.packet, &b.collation)
}

func (b *backend) create(ctx context.Context) error {
	c := b.config.Clone()
	c.DBName = ""
	pool, err := connect(c, nil)
	if err != nil {
		return err
	}
	_, err = pool.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+quote(b.database)+" CHARACTER SET utf8mb4")
	return errors.Join(err, pool.Close())
}

// lock takes a lock of the server. It makes short attempts, because a server that waits for a lock does not notice that
// the context has ended.
func (b *backend) lock(ctx context.Context, conn *sql.Conn, name string) error {
	return b.poll(ctx, conn, "SELECT GET_LOCK("+name+", 1)", 0)
}

// waitForChanges waits until no session of an earlier transaction can change a table: see changer. Such a session may
// go on after its process has ended or given up. The caller holds the lock of the processes that write. // Invariant 13
func (b *backend) waitForChanges(ctx context.Context) error {
	return b.poll(ctx, b.conn, "SELECT IS_FREE_LOCK("+b.lockName(" ddl")+")", 100*time.Millisecond)
}

// poll repeats a query until it returns 1.
func (b *backend) poll(ctx context.Context, conn *sql.Conn, query string, pause time.Duration) error {
	for deadline := time.Now().Add(b.o.WaitLock); ; time.Sleep(pause) {
		var got sql.NullInt64
		if err := conn.QueryRowContext(ctx, query).Scan(&got); err != nil || got.Int64 == 1 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another process writes to database %s: %w", b.database, state.ErrLocked)
		}
	}
}

// changer returns the session that creates and alters tables. This session has its own lock, which it takes before its
// first change and keeps until the transaction ends. If the process stalls, the server may end the session that writes,
// and release the lock of that session. But the next process also waits for the lock of this session. So a late change
// of the stalled process cannot affect the tables of the next process. // Invariant 13
func (b *backend) changer(ctx context.Context) (*sql.Conn, error) {
	if b.ddl != nil {
		return b.ddl, nil
	}
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	b.ddl = conn
	if err = conn.QueryRowContext(ctx, "SELECT connection_id()").Scan(&b.ddlID); err == nil {
		err = b.lock(ctx, conn, b.lockName(" ddl"))
	}
	if err == nil && b.conn == nil {
		err = sql.ErrConnDone
	}
	if err == nil {
		_, err = b.conn.ExecContext(ctx, "DO 1") // fails if the session that writes has ended; the server has then released its lock
	}
	if err != nil {
		hangUp(&b.ddl)
	}
	return b.ddl, err
}

// lockName returns the name of a lock. It contains a hash of the database's name, because all databases of a server
// share the names of locks. The server allows at most 64 characters.
func (b *backend) lockName(kind string) string {
	return fmt.Sprintf("'penstock%s %.16x'", kind, sha256.Sum256([]byte(b.database)))
}

func (b *backend) unlock(conn *sql.Conn, kind string) error {
	_, err := conn.ExecContext(context.Background(), "DO RELEASE_LOCK("+b.lockName(kind)+")")
	return err
}

// end() lets the next transaction begin.
func (b *backend) end() {
	defer func() { <-b.writer }()
	if b.ddl != nil && b.unlock(b.ddl, " ddl") == nil {
		_ = b.ddl.Close() // returns it to the pool
		b.ddl = nil
	}
	hangUp(&b.ddl)
	if b.conn != nil && b.unlock(b.conn, "") != nil {
		b.disconnect()
	}
}

// disconnect ends the session that writes, and with it the temporary tables. The caller holds the writer's token. KILL
// is needed to end the session on the server: while the server runs a statement, it does not notice that the connection
// is closed.
func (b *backend) disconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if hangUp(&b.ddl) {
		_, _ = b.pool.ExecContext(ctx, fmt.Sprintf("KILL %d", b.ddlID))
	}
	if hangUp(&b.conn) {
		_, _ = b.pool.ExecContext(ctx, fmt.Sprintf("KILL %d", b.id))
		b.store.LoseCarried()
	}
}

// hangUp closes a connection, if there is one.
func hangUp(conn **sql.Conn) bool {
	if *conn == nil {
		return false
	}
	_ = (*conn).Raw(func(any) error { return driver.ErrBadConn }) // closes it instead of returning it to the pool
	_ = (*conn).Close()
	*conn = nil
	return true
}

// settle waits until the server has ended the lost session and its transaction.
func (b *backend) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	b.disconnect()
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := b.lock(ctx, conn, b.lockName("")); err != nil {
		return err
	}
	return b.unlock(conn, "")
}

// closeWait is how long close() waits for an open transaction. // Invariant 15
const closeWait = 5 * time.Second

func (b *backend) close() error {
	select {
	case b.writer <- struct{}{}:
	case <-time.After(closeWait):
		return errors.Join(errors.New("a transaction has not ended"), b.pool.Close())
	}
	defer func() { <-b.writer }()
	b.closed = true
	hangUp(&b.ddl)
	hangUp(&b.conn)
	return b.pool.Close()
}
