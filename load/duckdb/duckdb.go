//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/bits"
	"os"
	"runtime"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
)

// DB is a destination in a DuckDB file. Its methods are safe for concurrent use. From its first Apply to its end, a
// transaction has the file for itself: the first Apply of every other transaction waits.
type DB struct {
	*sqlmerge.Store
	o Options

	window window        // the engine, and the file's attachment to it
	writer chan struct{} // holds one token while a transaction is applied
}

var (
	_ load.Destination = (*DB)(nil)
	_ load.Querier     = (*DB)(nil)
	_ load.Sharer      = (*DB)(nil)
	_ load.Surveyor    = (*DB)(nil)
)

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
	if o.TempLimit == "" {
		o.TempLimit = defaultTempLimit
	}
	if o.StorageVersion == "" {
		o.StorageVersion = defaultStorageVersion
	}
	if o.BlockSize == 0 {
		o.BlockSize = defaultBlockSize
	}
	if b := o.BlockSize; b < 16<<10 || b > 256<<10 || bits.OnesCount(uint(b)) != 1 {
		return nil, fmt.Errorf("open %s: block size %d: want a power of 2 from 16384 to 262144", o.Path, b)
	}
	if o.Threads == 0 {
		// During most of a commit, only one of the engine's threads has work, and the others spin. So one core is left
		// for reading the source.
		o.Threads = max(1, runtime.NumCPU()-1)
	}
	if o.WaitLock == 0 {
		o.WaitLock = defaultWaitLock
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &DB{o: o, writer: make(chan struct{}, 1)}
	d.Store = sqlmerge.New(backend{d: d})
	d.window.gate = make(chan struct{}, 1)
	// The start of the engine takes about 30 ms of CPU. Open waits for it, because an error must end the run before any
	// request is sent to the source.
	if err := d.window.start(ctx, o); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	return d, nil
}

// exists reports whether the file exists. It also returns true if this is unknown, so that the engine reports the
// error.
func (d *DB) exists() bool {
	_, err := os.Stat(d.o.Path)
	return !errors.Is(err, fs.ErrNotExist)
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
