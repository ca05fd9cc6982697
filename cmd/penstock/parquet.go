package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/duckdb"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

// parquetKind describes destinations of Parquet files, in a folder or in a bucket.
func parquetKind() open.Kind {
	return open.Kind{
		Scheme: "parquet", Open: openParquet, Absent: absentLake,
		OnHost: func(d config.Destination) bool { path, _ := open.FilePath(d); return !inBucket(path) },
		// The columns of all files that are being written are on the heap. With a lower heap limit, garbage collection
		// takes a third of the CPU time.
		Memory: open.MemoryPlan{Heap: 208 << 20, List: 4 << 20, Budget: pipeline.DefaultByteBudget, Group: pipeline.DefaultGroupBytes},
		Check: func(ctx context.Context, opener *open.Opener, d config.Destination) error {
			path, _ := open.FilePath(d)
			if inBucket(path) {
				return checkBucket(ctx, opener, d)
			}
			if absentFile(d) == nil {
				// Cause: penstock cannot write to the folder of the lake
				return checkFolder(path, "let penstock write to it")
			}
			above := filepath.Dir(path)
			for up := filepath.Dir(above); above != up; above, up = up, filepath.Dir(up) { // a run creates missing folders
				if _, err := os.Stat(above); !errors.Is(err, fs.ErrNotExist) {
					break
				}
			}
			// Cause: penstock cannot create the folder of the lake
			return checkFolder(above, "create the folder and let penstock write to it")
		},
		Locate: func(ctx context.Context, _ config.Destination, l load.Destination, table string) (string, error) {
			return l.(*parquet.Lake).Path(ctx, table)
		},
		Files: func(d config.Destination, stream, table string) string {
			path, _ := open.FilePath(d)
			if inBucket(path) {
				return "" // no pattern matches only the current files
			}
			if abs, err := filepath.Abs(path); err == nil {
				path = abs
			}
			return filepath.Join(path, stream, "current", table, "**", "*.parquet")
		},
		Modes: true,
		Folder: func(d config.Destination) string {
			path, _ := open.FilePath(d)
			if inBucket(path) {
				return ""
			}
			return filepath.Join(path, "_files") // no stream has this name
		},
		Querier: askLake, NoChecks: duckdbMissing, NoHold: noHold,
	}
}

// noHold is why a check cannot hold rows back from a lake.
const noHold = "a lake has no transaction in which a query sees the new rows before their commit"

// askLake returns a querier, which runs DuckDB over the files of a lake. It offers the same views as other
// destinations.
func askLake(ctx context.Context, r *open.Reader) (open.Querier, error) {
	if path, _ := open.FilePath(r.Config); inBucket(path) {
		return askBucket(r)
	}
	files, err := r.Destination.(*parquet.Lake).Files(ctx)
	if err != nil {
		return nil, err
	}
	views, err := lakeViews(ctx, r)
	if err != nil {
		return nil, err
	}
	return over(ctx, files, nil, views)
}

// over() opens a DuckDB database. Each entry of the argument `files` is a table in it, without the rows in `deletes`, and
// each entry of `views` is a view. If a table and a view have the same name, the view is left out.
func over(ctx context.Context, files, deletes map[string][]string, views map[string]string) (open.Querier, error) {
	for name := range views {
		if files[name] != nil {
			delete(views, name)
		}
	}
	v, err := duckdb.OpenParquet(ctx, files, deletes, views)
	if errors.Is(err, duckdb.ErrNotBuilt) {
		return nil, failure.Hinted(fmt.Errorf("query a lake in SQL: %w", err), "`penstock path TABLE` prints where the files are, for use with another engine")
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// lakeViews returns the views of a lake, by name. If a table may have deleted or old rows, the view TABLE_current has
// its current rows. A predefined view is included if the tables that it reads exist.
func lakeViews(ctx context.Context, r *open.Reader) (map[string]string, error) {
	tables, err := r.LoadedTables(ctx)
	if err != nil {
		return nil, err
	}
	kit, err := schemas.LoadViews()
	if err != nil {
		return nil, err
	}
	views := map[string]string{}
	for name, t := range tables {
		switch {
		case t.Mode == schemas.History:
			views[name+"_current"] = "FROM " + render.SQLName(name) + " WHERE " + schemas.ColValidTo + " IS NULL"
		case t.Mode == schemas.Merge && len(t.Key) > 0:
			views[name+"_current"] = "FROM " + render.SQLName(name) + " WHERE " + schemas.ColDeletedAt + " IS NULL"
		}
	}
	for _, v := range kit {
		if len(v.Lacks(tables)) == 0 {
			views[v.Name] = v.Query("", tables)
		}
	}
	return views, nil
}

// lakeOptions adds the options that all destinations of Parquet files have.
func lakeOptions(o *parquet.Options, readers map[string]func(string) error) {
	readers["partition_by"] = func(text string) (err error) {
		o.PartitionBy, err = partition.ParseOption(text)
		return err
	}
	readers["keep"] = countOption(&o.Keep)
	readers["keep_for"] = waitOption(&o.KeepFor)
	readers["writers"] = countOption(&o.Writers)
}

// openParquet opens parquet:FOLDER or parquet:URL. The URL is the address of a bucket. Examples of the options:
// ?partition_by=date, keep=3, keep_for=24h, wait_lock=30s and writers=2. For a bucket there is also
// endpoint=https://store.example.com, and for an S3 bucket region=eu-central-1 and path_style=true.
func openParquet(ctx context.Context, opener *open.Opener, d config.Destination) (load.Destination, error) {
	if d.Schema != "" {
		return nil, failure.Usage("", "a Parquet destination does not support the key `schema`")
	}
	path, query := open.FilePath(d)
	o := parquet.Options{Path: path, Mode: d.Mode, Log: opener.Log, Step: opener.Step}
	readers := map[string]func(string) error{"wait_lock": waitOption(&o.WaitLock)}
	lakeOptions(&o, readers)
	if inBucket(path) {
		if d.Mode != 0 {
			return nil, failure.Usage("", "the key `mode` works only with local files; objects in a bucket have no mode")
		}
		if err := bucketOptions(&o, d, readers); err != nil {
			return nil, err
		}
	}
	if err := options(query, readers); err != nil {
		return nil, err
	}
	l, err := parquet.Open(ctx, o)
	if _, unanswered := errors.AsType[*net.OpError](err); unanswered {
		// Cause: the object store of a lake does not answer
		return nil, failure.Hinted(err, "check the bucket and the endpoint in the url of the destination, and that the server is running")
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}
