//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// DB is a destination in a DuckDB file. Its methods are safe for concurrent use. From its first Apply to its end, a
// transaction makes the first Apply of every other transaction wait.
type DB struct {
	o Options

	window window        // the engine, and the file's attachment to it
	writer chan struct{} // holds one token while a transaction is applied
	reader sync.Mutex    // guards the engine's reading session

	mu        sync.Mutex
	positions map[state.Key]position // as last read or committed
	claimed   map[state.Key]claimed  // as last committed
	passes    map[state.Key]*pass
	tables    int      // number of the last table of carried keys
	droppable []string // tables of carried keys that are no longer needed
}

var (
	_ load.Destination = (*DB)(nil)
	_ load.Querier     = (*DB)(nil)
)

// position is the row of one stream in _penstock_state.
type position struct {
	cursor   state.Cursor
	sequence int64 // 0: no row exists
	moved    int64 // time of the stream's last commit, in microseconds since 1970
}

// Open prepares a destination in the file o.Path. It does not open the file. If the file does not exist, the first
// commit creates it. Close the destination after use.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Path == "" {
		return nil, errors.New("open duckdb: no path")
	}
	path, err := resolvePath(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	o.Path = path
	if o.MemoryLimit == "" {
		o.MemoryLimit = defaultMemoryLimit
	}
	if o.StorageVersion == "" {
		o.StorageVersion = defaultStorageVersion
	}
	if o.Threads == 0 {
		// The engine's threads spin while only one of them has work, which is most of the time during a commit. So one
		// core is left for reading the source.
		o.Threads = max(1, runtime.NumCPU()-1)
	}
	if o.WaitLock == 0 {
		o.WaitLock = defaultWaitLock
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &DB{
		o:         o,
		writer:    make(chan struct{}, 1),
		positions: map[state.Key]position{},
		claimed:   map[state.Key]claimed{},
		passes:    map[state.Key]*pass{},
	}
	d.window.gate = make(chan struct{}, 1)
	if err := d.window.start(ctx, o); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	return d, nil
}

// Cursor implements [load.Destination].
func (d *DB) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	p, err := d.position(ctx, k)
	return p.cursor, err
}

// position reads a stream's position from the file.
func (d *DB) position(ctx context.Context, k state.Key) (p position, err error) {
	err = d.withReader(ctx, func(s *session) error {
		live, err := s.engine.objects(ctx, s, false)
		if err != nil {
			return fmt.Errorf("read the database's catalog: %w", err)
		}
		if err := sharing(live, k); err != nil {
			return err
		}
		p, err = readPosition(ctx, s, k)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("read cursor of %s: %w", k.Stream, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.positions[k] = p
	return p, nil
}

func readPosition(ctx context.Context, s *session, k state.Key) (p position, err error) {
	query := "SELECT cursor, sequence, epoch_us(updated_at) FROM " + place(load.State.Name) + " WHERE " + whereKey(k)
	err = s.query(ctx, query, func(v []driver.Value) error {
		cursor, _ := v[0].(string)
		p.cursor = state.Cursor(cursor)
		p.sequence, _ = v[1].(int64)
		p.moved, _ = v[2].(int64)
		return nil
	})
	if tableMissing(err) {
		return position{}, nil
	}
	return p, err
}

func whereKey(k state.Key) string {
	where := "pipeline = " + literal(k.Pipeline) + " AND stream = " + literal(k.Stream)
	if k.Source != "" {
		where += " AND " + schemas.ColSource + " = " + literal(k.Source)
	}
	return where
}

// exists reports whether the file exists. It also returns true if this is unknown, so that the engine reports the
// error.
func (d *DB) exists() bool {
	_, err := os.Stat(d.o.Path)
	return !errors.Is(err, fs.ErrNotExist)
}

// withReader runs f with the file attached. It does nothing if there is no file.
func (d *DB) withReader(ctx context.Context, f func(*session) error) error {
	if !d.exists() {
		return nil
	}
	e, release, err := d.acquire(ctx, reading)
	if err != nil {
		return err
	}
	defer release()
	d.reader.Lock()
	defer d.reader.Unlock()
	return f(e.read)
}

// Tables implements [load.Destination].
func (d *DB) Tables(ctx context.Context, name string) (tables []schemas.Table, err error) {
	err = d.withReader(ctx, func(s *session) error {
		c, err := readCatalog(ctx, s, []string{name}, false)
		if err != nil {
			return err
		}
		tables = load.ExistingTables(c.made, c.live)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read tables of %s: %w", name, err)
	}
	return tables, nil
}

// Close releases the file. Committed data stays. If the log has grown long, Close first merges it into the file.
func (d *DB) Close() error {
	if err := errors.Join(d.step("close"), d.stop()); err != nil {
		return fmt.Errorf("close %s: %w", d.o.Path, err)
	}
	return nil
}

// step calls Options.Step for a named point of a commit.
func (d *DB) step(name string) error { return load.Step(d.o.Step, name) }
