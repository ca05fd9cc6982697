package main

import (
	"context"
	"path/filepath"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlite"
)

// sqliteKind describes destinations in an SQLite file.
func sqliteKind() open.Kind {
	return open.Kind{
		Scheme: "sqlite",
		Open:   openSQLite, Check: checkFile, Absent: absentFile,
		OnHost: func(config.Destination) bool { return true },
		Locate: func(_ context.Context, d config.Destination, _ load.Destination, _ string) (string, error) {
			path, _ := open.FilePath(d)
			return filepath.Abs(path)
		},
		Modes:   true,
		NoViews: "their SQL computes with dates and decimals, which are text in SQLite",
		Folder: func(d config.Destination) string {
			path, _ := open.FilePath(d)
			return path + ".files"
		},
	}
}

// openSQLite opens sqlite:PATH, with the option ?wait_lock=30s.
func openSQLite(_ context.Context, opener *open.Opener, d config.Destination) (load.Destination, error) {
	if d.Schema != "" {
		return nil, failure.Usage("", "an SQLite destination does not support the key `schema`")
	}
	path, query := open.FilePath(d)
	o := sqlite.Options{Path: path, Mode: d.Mode, Step: opener.Step}
	if err := options(query, map[string]func(string) error{"wait_lock": waitOption(&o.WaitLock)}); err != nil {
		return nil, err
	}
	return sqlite.Open(o)
}
