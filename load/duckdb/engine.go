//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/penstock-data/penstock/load/sqlmerge"
)

// engine is an in-memory instance of DuckDB. The file is attached to it under the name db while it is needed.
type engine struct {
	connector *duckdb.Connector
	write     *session   // runs transactions, and owns the temporary tables
	read      *session   // runs reads during a transaction
	reader    sync.Mutex // locked while the session for reads is in use
	stage     *session   // creates views of the rows that a transaction loads
	stages    int        // how many times rows were staged; the number is part of the name of the next stage
	thread    *thread    // runs the statements of the session write
	temp      string
	broken    bool // a fatal error has invalidated the engine

	mu    sync.Mutex
	known map[string]*sqlmerge.Object // objects of the attached file, as committed; nil: not read yet
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
	e.thread = newThread()
	e.write.thread = e.thread
	for _, q := range settings(o, e.temp) {
		if err = e.write.Exec(ctx, q); err != nil {
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
		"SET max_temp_directory_size = " + literal(o.TempLimit),
		"SET memory_limit = " + literal(o.MemoryLimit),
		"SET allowed_paths = [" + strings.Join(paths, ", ") + "]",
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET TimeZone = 'UTC'",
		// Small commits stay in the log when the file is detached. checkpoint() decides when the log is merged.
		"PRAGMA disable_checkpoint_on_shutdown",
	}
	if _, err := os.Stat(o.Path); err != nil {
		// In a new file, a first load makes many commits, and each commit adds row groups. Each checkpoint would merge
		// the small row groups, and rewrite most of the data for this. So this merging is switched off.
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
	e.thread.end()
	if e.connector != nil {
		errs = append(errs, e.connector.Close())
	}
	if e.temp != "" {
		errs = append(errs, os.RemoveAll(e.temp))
	}
	return errors.Join(errs...)
}
