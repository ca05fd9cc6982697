package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/duckdb"
)

// place is a kind of destination: the scheme of its URLs and how one is opened.
type place struct {
	scheme  string
	missing string // why this build has none; "" where it has
	open    func(context.Context, *app, config.Destination) (load.Destination, error)
	check   func(config.Destination) error // the rights that opening does not show; may be nil
}

// places is the table of destinations. A new one is a folder under load and a
// line here.
func places() []place {
	return []place{
		{scheme: "duckdb", missing: duckdbMissing, open: openDuckDB, check: checkDuckDB},
		{scheme: "postgres", missing: "this release has no Postgres loader yet"},
		{scheme: "postgresql", missing: "this release has no Postgres loader yet"},
		{scheme: "parquet", missing: "this release has no Parquet loader yet"},
	}
}

// openDestination opens what a configuration names, or says where in the file
// it asks for more than this build can do.
func (a *app) openDestination(ctx context.Context, c *config.Config, d config.Destination) (load.Destination, error) {
	for _, p := range places() {
		if p.scheme != d.Scheme {
			continue
		}
		if p.missing != "" {
			return nil, c.Fault(d.At, fmt.Sprintf("destination %s: %s: is not in this build: %s", d.Name, d.Scheme, p.missing))
		}
		dest, err := p.open(ctx, a, d)
		if err != nil {
			return nil, fmt.Errorf("open destination %s: %w", d.Name, err)
		}
		return dest, nil
	}
	return nil, c.Fault(d.At, fmt.Sprintf("destination %s: no destination for %q", d.Name, d.Scheme))
}

// openDuckDB reads duckdb:PATH, after which ?memory_limit=512MB, threads=2,
// wait_lock=30s and storage_version=v1.0.0 may stand.
func openDuckDB(ctx context.Context, a *app, d config.Destination) (load.Destination, error) {
	if d.Schema != "" {
		return nil, usage("", "a DuckDB file takes no schema in this release")
	}
	path, query := duckdbPath(d)
	o := duckdb.Options{Path: path, Log: a.log, Step: a.step}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, usage("", "its options are no query: want ?memory_limit=512MB&threads=2")
	}
	for name := range values {
		switch v := values.Get(name); name {
		case "memory_limit":
			o.MemoryLimit = v
		case "threads":
			if o.Threads, err = strconv.Atoi(v); err != nil || o.Threads < 1 {
				return nil, usage("", "threads %q: want a number", v)
			}
		case "wait_lock":
			if o.WaitLock, err = time.ParseDuration(v); err != nil {
				return nil, usage("", "wait_lock %q: want a duration such as 30s", v)
			}
			if o.WaitLock == 0 {
				o.WaitLock = -1
			}
		case "storage_version":
			o.StorageVersion = v
		default:
			return nil, usage("it takes memory_limit, threads, wait_lock and storage_version", "unknown option %q", name)
		}
	}
	db, err := duckdb.Open(ctx, o)
	if errors.Is(err, duckdb.ErrNotBuilt) {
		return nil, hinted(err, "make build sets both; a C compiler is all it needs")
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

// duckdbPath splits a URL into the file and its options.
func duckdbPath(d config.Destination) (path, query string) {
	path, query, _ = strings.Cut(strings.TrimPrefix(d.URL.Reveal(), "duckdb:"), "?")
	return path, query
}

// checkDuckDB asks for what a first commit needs: a folder in which the file
// and its log can be made.
func checkDuckDB(d config.Destination) error {
	path, _ := duckdbPath(d)
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".penstock-check-*")
	if err != nil {
		return hinted(fmt.Errorf("write to %s: %w", dir, pathCause(err)), "make the folder and let penstock write to it; the file's log stands beside it")
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		return f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return hinted(fmt.Errorf("write %s: %w", path, pathCause(err)), "let penstock write to it")
	}
	return nil
}

// pathCause is an error of the file system without the path it repeats.
func pathCause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
