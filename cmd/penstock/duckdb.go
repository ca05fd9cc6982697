package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/duckdb"
)

// duckdbKind describes destinations in a DuckDB file.
func duckdbKind() open.Kind {
	return open.Kind{
		Scheme: "duckdb", Missing: duckdbMissing,
		Open: openDuckDB, Check: checkFile, Absent: absentFile,
		OnHost: func(config.Destination) bool { return true },
		// The budget is enough for the rows of two commits of usual size, so that the engine never waits for rows. A
		// larger budget, or more responses read in advance, would not make a sync faster: the garbage collector would
		// have more to scan.
		Memory: open.MemoryPlan{Heap: 120 << 20, List: 5 << 20, Ahead: 24 << 20, Budget: 90 << 20, Group: pipeline.DefaultGroupBytes, Rows: duckdb.RowGroup},
		Locate: func(_ context.Context, d config.Destination, _ load.Destination, _ string) (string, error) {
			path, _ := open.FilePath(d)
			return filepath.Abs(path)
		},
		Columns: duckdb.Columns,
		Modes:   true,
		Folder: func(d config.Destination) string {
			path, _ := open.FilePath(d)
			return path + ".files"
		},
		Lend: func(ctx context.Context, all []config.Destination) (func(), error) {
			paths := make([]string, len(all))
			for i, d := range all {
				paths[i], _ = open.FilePath(d)
			}
			return duckdb.Lend(ctx, paths...)
		},
		Publish: func(ctx context.Context, d config.Destination, open load.Destination) error {
			return open.(*duckdb.DB).Publish(ctx, d.Publish)
		},
	}
}

// openDuckDB opens duckdb:PATH, with the options ?memory_limit=512MB, temp_limit=50GB, threads=2, wait_lock=30s,
// storage_version=v1.0.0 and block_size=16384.
func openDuckDB(ctx context.Context, opener *open.Opener, d config.Destination) (load.Destination, error) {
	if d.Schema != "" {
		return nil, failure.Usage("", "a DuckDB destination does not support the key `schema`")
	}
	path, query := open.FilePath(d)
	o := duckdb.Options{Path: path, Mode: d.Mode, ReadOnly: d.ReadOnly, Log: opener.Log, Step: opener.Step}
	if err := options(query, map[string]func(string) error{
		"block_size":      countOption(&o.BlockSize),
		"memory_limit":    textOption(&o.MemoryLimit),
		"storage_version": textOption(&o.StorageVersion),
		"temp_limit":      textOption(&o.TempLimit),
		"threads":         countOption(&o.Threads),
		"wait_lock":       waitOption(&o.WaitLock),
	}); err != nil {
		return nil, err
	}
	db, err := duckdb.Open(ctx, o)
	if errors.Is(err, duckdb.ErrNotBuilt) {
		// Cause: this build of penstock has no DuckDB
		return nil, failure.Hinted(err, "build with `make build`, which sets both and needs only a C compiler")
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}
