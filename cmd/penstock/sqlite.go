package main

import (
	"context"
	"path/filepath"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlite"
)

// sqliteKind describes the destinations that are an SQLite file.
func sqliteKind() destinationKind {
	return destinationKind{
		scheme: "sqlite",
		open:   openSQLite, check: checkFile, absent: absentFile,
		onHost: func(config.Destination) bool { return true },
		locate: func(_ context.Context, d config.Destination, _ load.Destination, _ string) (string, error) {
			path, _ := filePath(d)
			return filepath.Abs(path)
		},
		modes:   true,
		noViews: "their SQL computes with dates and decimals, which are text in SQLite",
		folder: func(d config.Destination) string {
			path, _ := filePath(d)
			return path + ".files"
		},
	}
}

// openSQLite opens sqlite:PATH, with the option ?wait_lock=30s.
func openSQLite(_ context.Context, a *app, d config.Destination) (load.Destination, error) {
	if d.Schema != "" {
		return nil, failure.Usage("", "an SQLite destination does not support schema")
	}
	path, query := filePath(d)
	o := sqlite.Options{Path: path, Mode: d.Mode, Step: a.step}
	if err := options(query, map[string]func(string) error{"wait_lock": waitOption(&o.WaitLock)}); err != nil {
		return nil, err
	}
	return sqlite.Open(o)
}
