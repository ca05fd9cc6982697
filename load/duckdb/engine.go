//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

// engine is an in-memory instance of DuckDB. The file is attached to it under the name db while it is needed.
type engine struct {
	connector *duckdb.Connector
	write     *session // transactions; owns the temporary tables
	read      *session // reads during a transaction
	stage     *session // views of staged rows
	stages    int      // number of the last view
	temp      string
	broken    bool // a fatal error has invalidated the engine

	mu    sync.Mutex
	known map[string]*object // of the attached file, as committed; nil: not read yet
}

func newEngine(ctx context.Context, o Options) (e *engine, err error) {
	e = &engine{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start duckdb: %w", errors.Join(err, e.close()))
		}
	}()
	if e.temp, err = os.MkdirTemp(o.TempDir, "penstock-duckdb-"); err != nil {
		return e, err
	}
	if e.connector, err = newConnector(); err != nil {
		return e, err
	}
	for _, s := range []**session{&e.write, &e.read, &e.stage} {
		if *s, err = e.connect(ctx); err != nil {
			return e, err
		}
	}
	for _, q := range settings(o, e.temp) {
		if err = e.write.exec(ctx, q); err != nil {
			return e, err
		}
	}
	return e, nil
}

// engineDescriptors is the greatest number of file descriptors that an engine needs to start and open its files.
const engineDescriptors = 8

// newConnector starts an in-memory engine. It first checks that the process can open enough files, because otherwise
// the library would end the process (std::terminate).
func newConnector() (*duckdb.Connector, error) {
	if err := reserve(engineDescriptors); err != nil {
		return nil, err
	}
	return duckdb.NewConnector("", nil)
}

// reserve opens n files and closes them again.
func reserve(n int) error {
	for range n {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
	}
	return nil
}

// settings returns the statements that restrict the engine. The engine may then open only the destination's files, may
// load no extensions, and has limits for memory and threads. These settings cannot be changed later.
func settings(o Options, temp string) []string {
	paths := []string{literal(filepath.Join(temp, freshName)), literal(filepath.Join(temp, freshName+".wal"))}
	for _, suffix := range []string{"", ".wal", ".wal.checkpoint", ".wal.recovery"} {
		paths = append(paths, literal(o.Path+suffix))
	}
	q := []string{
		"SET temp_directory = " + literal(temp),
		"SET memory_limit = " + literal(o.MemoryLimit),
		"SET allowed_paths = [" + strings.Join(paths, ", ") + "]",
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET TimeZone = 'UTC'",
		// Small commits stay in the log when the file is detached; checkpoint decides whether to checkpoint.
		"PRAGMA disable_checkpoint_on_shutdown",
	}
	if _, err := os.Stat(o.Path); err != nil {
		// During a first load in many commits, each checkpoint would merge the row groups that the last commits left
		// separate, and rewrite most of the data. So this merging is switched off.
		q = append(q, "SET max_vacuum_tasks = 0")
	}
	q = append(q, fmt.Sprintf("SET threads = %d", o.Threads))
	return append(q, "SET enable_external_access = false", "SET lock_configuration = true")
}

func (e *engine) connect(ctx context.Context) (*session, error) {
	c, err := e.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	a, err := duckdb.NewArrowFromConn(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &session{conn: c.(*duckdb.Conn), arrow: a, engine: e}, nil
}

func (e *engine) close() error {
	var errs []error
	for _, s := range []*session{e.write, e.read, e.stage} {
		if s != nil {
			errs = append(errs, s.conn.Close())
		}
	}
	if e.connector != nil {
		errs = append(errs, e.connector.Close())
	}
	if e.temp != "" {
		errs = append(errs, os.RemoveAll(e.temp))
	}
	return errors.Join(errs...)
}

// session is one connection to the engine, used by one goroutine at a time.
type session struct {
	conn   *duckdb.Conn
	arrow  *duckdb.Arrow
	engine *engine
}

func (s *session) exec(ctx context.Context, query string) error {
	_, err := s.affect(ctx, query)
	return err
}

// affect runs a statement and returns the number of rows it changed.
func (s *session) affect(ctx context.Context, query string) (int64, error) {
	r, err := s.conn.ExecContext(ctx, query, nil)
	if err != nil {
		return 0, s.classify(err)
	}
	return r.RowsAffected()
}

// query calls the function row with each row of the result. The function must not keep its argument.
func (s *session) query(ctx context.Context, query string, row func([]driver.Value) error) (err error) {
	rows, err := s.conn.QueryContext(ctx, query, nil)
	if err != nil {
		return s.classify(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return s.classify(err)
		}
		if err := row(values); err != nil {
			return err
		}
	}
}

// numbers reads a result of one row of integers.
func (s *session) numbers(ctx context.Context, query string, into ...*int64) error {
	return s.query(ctx, query, func(v []driver.Value) error {
		for i := range into {
			switch n := v[i].(type) {
			case int64:
				*into[i] = n
			case nil: // sum over no rows
				*into[i] = 0
			case *big.Int: // the engine's type of sums
				*into[i] = n.Int64()
			default:
				return fmt.Errorf("column %d is a %T, want an integer", i, v[i])
			}
		}
		return nil
	})
}

// classify marks the engine as broken if the error is fatal, and marks errors of a full disk so that callers can
// recognize them.
func (s *session) classify(err error) error {
	e, ok := errors.AsType[*duckdb.Error](err)
	if !ok {
		return err
	}
	fatal := e.Type == duckdb.ErrorTypeFatal || e.Type == duckdb.ErrorTypeInternal
	if fatal || strings.Contains(e.Msg, "has been invalidated") {
		s.engine.broken = true
	}
	if strings.Contains(e.Msg, "No space left on device") || strings.Contains(e.Msg, "Disk quota exceeded") {
		return fmt.Errorf("the disk is full: %w: %w", syscall.ENOSPC, err)
	}
	return err
}
