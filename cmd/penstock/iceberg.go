package main

import (
	"context"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/iceberg"
	"github.com/penstock-data/penstock/load/parquet"
)

// icebergKind describes destinations that store Iceberg tables in a folder or a bucket.
func icebergKind() open.Kind {
	p := parquetKind()
	return open.Kind{
		Scheme: "iceberg", Missing: icebergMissing(), Open: openIceberg, Absent: absentLake, OnHost: p.OnHost, Memory: p.Memory,
		Check: func(ctx context.Context, opener *open.Opener, d config.Destination) error {
			path, _ := open.FilePath(d)
			if !inBucket(path) {
				return p.Check(ctx, opener, d)
			}
			l, err := openIceberg(ctx, opener, d)
			if err != nil {
				return err
			}
			return l.Close()
		},
		Locate:  p.Locate,
		Folder:  p.Folder,
		Querier: func(_ context.Context, r *open.Reader) (open.Querier, error) { return askBucket(r) },

		NoChecks: p.NoChecks, NoHold: p.NoHold,
	}
}

// icebergMissing returns the reason why this build does not support Iceberg, or "" if it does.
func icebergMissing() string {
	if iceberg.Built {
		return ""
	}
	return "built without the tag iceberg; `make build TAGS=duckdb_arrow,iceberg` sets it"
}

// openIceberg opens iceberg:FOLDER or iceberg:s3://BUCKET/PREFIX. It accepts the options of a Parquet lake, and the
// options of [iceberg.Options.Settings], for example catalog=sqlite:PATH or catalog=https://…. The destination's schema
// is the namespace of the tables.
func openIceberg(ctx context.Context, opener *open.Opener, d config.Destination) (load.Destination, error) {
	path, query := open.FilePath(d)
	o := iceberg.Options{Options: parquet.Options{Path: path, Log: opener.Log, Step: opener.Step}, Namespace: d.Schema}
	readers := map[string]func(string) error{}
	for name, to := range o.Settings() {
		readers[name] = textOption(to)
	}
	readers["vended_credentials"] = boolOption(&o.Vended)
	lakeOptions(&o.Options, readers)
	if inBucket(path) {
		if !strings.HasPrefix(path, "s3://") {
			return nil, failure.Usage("", "want a folder or s3://bucket/prefix for Iceberg tables")
		}
		if err := bucketOptions(&o.Options, d, readers); err != nil {
			return nil, err
		}
	}
	if err := options(query, readers); err != nil {
		return nil, err
	}
	l, err := iceberg.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return l, nil
}
