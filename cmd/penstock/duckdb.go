package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/duckdb"
)

// duckdbKind is the kind of destination that is a DuckDB file.
func duckdbKind() destinationKind {
	return destinationKind{
		scheme: "duckdb", missing: duckdbMissing,
		open: openDuckDB, check: checkFile, absent: absentFile,
		onHost: func(config.Destination) bool { return true },
		// The budget is enough for the usual rows of two commits, so that the engine never waits for rows.
		// A larger budget would only give the garbage collector more to scan.
		memory: memoryPlan{heap: defaultHeap, budget: 90 << 20, group: pipeline.DefaultGroupBytes, rows: duckdb.RowGroup},
		locate: func(_ context.Context, d config.Destination, _ load.Destination, _ string) (string, error) {
			path, _ := filePath(d)
			return filepath.Abs(path)
		},
		columns: duckdb.Columns,
		modes:   true,
		folder: func(d config.Destination) string {
			path, _ := filePath(d)
			return path + ".files"
		},
		publish: func(ctx context.Context, d config.Destination, open load.Destination) error {
			return open.(*duckdb.DB).Publish(ctx, d.Publish)
		},
	}
}

// openDuckDB opens duckdb:PATH, with the options ?memory_limit=512MB, threads=2, wait_lock=30s and
// storage_version=v1.0.0.
func openDuckDB(ctx context.Context, a *app, d config.Destination) (load.Destination, error) {
	if d.Schema != "" {
		return nil, failure.Usage("", "a DuckDB destination does not support schema in this release")
	}
	path, query := filePath(d)
	o := duckdb.Options{Path: path, Mode: d.Mode, Log: a.log, Step: a.step}
	if err := options(query, map[string]func(string) error{
		"memory_limit":    textOption(&o.MemoryLimit),
		"storage_version": textOption(&o.StorageVersion),
		"threads":         countOption(&o.Threads),
		"wait_lock":       waitOption(&o.WaitLock),
	}); err != nil {
		return nil, err
	}
	db, err := duckdb.Open(ctx, o)
	if errors.Is(err, duckdb.ErrNotBuilt) {
		return nil, failure.Hinted(err, "build with `make build`, which sets both and needs only a C compiler")
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

// textOption, countOption and waitOption parse the values of options.
func textOption(to *string) func(string) error {
	return func(v string) error { *to = v; return nil }
}

func countOption(to *int) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.Atoi(v); err != nil || *to < 1 {
			return errors.New("want a positive number")
		}
		return nil
	}
}

// waitOption parses how long to wait. 0s means not to wait. It is stored as -1, because 0 means the default.
func waitOption(to *time.Duration) func(string) error {
	return func(v string) (err error) {
		if *to, err = time.ParseDuration(v); err != nil {
			return errors.New("want a duration such as 30s")
		}
		if *to == 0 {
			*to = -1
		}
		return nil
	}
}

// absentFile returns an error if a destination's file or folder does not exist. A command that only reads calls it
// before it opens the destination. Opening would create an empty file or folder, which would hide a wrong path.
func absentFile(d config.Destination) error {
	path, _ := filePath(d)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist", path)
	}
	return nil
}

// checkFile checks that penstock can create and write the file and its write-ahead log. It returns an error if
// everyone may write to the file.
func checkFile(_ context.Context, _ *app, d config.Destination) error {
	path, _ := filePath(d)
	if err := checkFolder(filepath.Dir(path), "create the folder and let penstock write to it; the file's log is kept in it too"); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && d.Mode == 0 && info.Mode().Perm()&0o002 != 0 {
		return failure.Hinted(fmt.Errorf("everyone may write to %s (mode %04o)", path, info.Mode().Perm()),
			fmt.Sprintf("run chmod o-w on it, or set mode: %04o on the destination if this is intended", info.Mode().Perm()))
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		return f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return failure.Hinted(fmt.Errorf("write %s: %w", path, failure.PathCause(err)), "let penstock write to it")
	}
	return nil
}

// checkFolder creates a file in dir and removes it.
func checkFolder(dir, hint string) error {
	f, err := os.CreateTemp(dir, ".penstock-check-*")
	if err != nil {
		return failure.Hinted(fmt.Errorf("write to %s: %w", dir, failure.PathCause(err)), hint)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	return nil
}
