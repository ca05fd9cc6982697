package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// inBucket reports whether a lake's path is in an object store.
func inBucket(path string) bool { return strings.Contains(path, "://") }

// bucketOptions sets the bucket and its credentials in o. The map readers has a parser for each option of the URL, and
// bucketOptions adds parsers for the options that only buckets have. If the URL begins with gs: and the configuration
// has no key, bucketOptions reads the key from the file that GOOGLE_APPLICATION_CREDENTIALS names.
func bucketOptions(o *parquet.Options, d config.Destination, readers map[string]func(string) error) (err error) {
	o.Bucket, o.Path = o.Path, ""
	o.Store.AccessKey, o.Store.SecretKey = d.AccessKey.Reveal(), d.SecretKey.Reveal()
	readers["endpoint"] = textOption(&o.Store.Endpoint)
	switch scheme, _, _ := strings.Cut(o.Bucket, ":"); scheme {
	case "s3": // the S3 library reads all further settings from the environment
		readers["region"] = textOption(&o.Store.Region)
		readers["path_style"] = boolOption(&o.Store.Path)
	case "gs":
		if path := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"); o.Store.SecretKey == "" && path != "" {
			o.Store.SecretKey, err = open.ReadSecret(path)
			if err != nil {
				err = failure.Usage("", "read GOOGLE_APPLICATION_CREDENTIALS: %s: %w", path, err)
			}
		}
	case "azblob":
		o.Store.AccessKey = cmp.Or(o.Store.AccessKey, os.Getenv("AZURE_STORAGE_ACCOUNT"))
		o.Store.SecretKey = cmp.Or(o.Store.SecretKey, os.Getenv("AZURE_STORAGE_KEY"), os.Getenv("AZURE_STORAGE_SAS_TOKEN"))
	}
	return err
}

// absentLake returns an error if the lake's folder does not exist. A bucket is checked when it is opened.
func absentLake(d config.Destination) error {
	if path, _ := open.FilePath(d); inBucket(path) {
		return nil
	}
	return absentFile(d)
}

// checkBucket checks that the key has the rights that a commit needs in the bucket.
func checkBucket(ctx context.Context, opener *open.Opener, d config.Destination) error {
	l, err := openParquet(ctx, opener, d)
	if err != nil {
		return err
	}
	err = l.(*parquet.Lake).Check(ctx)
	if errors.Is(err, parquet.ErrUnconditional) {
		// Cause: the object store ignores conditions of a request, so two writers could overwrite each other
		err = failure.Hinted(err, "use a store that supports If-None-Match on PUT: most stores have supported it since 2024; old server versions and Google's S3 API do not. For Google use gs://")
	} else if err != nil {
		// Cause: the key may not list, read, write or delete objects
		err = failure.Hinted(err, "give the key the rights to list, read, write and delete below the prefix")
	}
	return errors.Join(err, l.Close())
}

// bucketAsker runs SQL queries on a lake in a bucket. Before a query, it downloads the files of the tables that the
// query names, and stores them in the user's cache folder. Later queries use the stored files.
type bucketAsker struct{ r *open.Reader }

func askBucket(r *open.Reader) (open.Querier, error) { return bucketAsker{r}, nil }

// Close implements open.Querier.
func (bucketAsker) Close() error { return nil }

// word matches each word of a query that may be the name of a table.
var word = regexp.MustCompile(`[\pL\pN_]+`)

// Query implements load.Querier.
func (b bucketAsker) Query(ctx context.Context, sql string, each func(arrow.RecordBatch) error) error {
	return b.with(ctx, sql, func(q open.Querier) error { return q.Query(ctx, sql, each) })
}

// CheckTable implements load.TableRowChecker.
func (b bucketAsker) CheckTable(ctx context.Context, k state.Key, t schemas.Table, c schemas.Check, now time.Time) (out load.CheckOutcome, err error) {
	err = b.with(ctx, t.Name+" "+load.Checks.Name, func(q open.Querier) error {
		out, err = q.(load.TableRowChecker).CheckTable(ctx, k, t, c, now)
		return err
	})
	return out, err
}

// with downloads the files of the tables that a text names, and passes a querier for them to use().
func (b bucketAsker) with(ctx context.Context, sql string, use func(open.Querier) error) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	views, err := lakeViews(ctx, b.r)
	if err != nil {
		return err
	}
	words := named(sql, views)
	maps.DeleteFunc(views, func(name, _ string) bool { return !words[strings.ToLower(name)] })
	files, deletes, err := b.r.Destination.(*parquet.Lake).Fetch(ctx, filepath.Join(cache, "penstock", "lake"), func(table string) bool {
		return words[strings.ToLower(table)]
	})
	if err != nil {
		return err
	}
	q, err := over(ctx, files, deletes, views)
	if err != nil {
		return err
	}
	return errors.Join(use(q), q.Close())
}

// named() returns the words of a query and of the definitions of all views that the query uses, in lower case.
func named(sql string, views map[string]string) map[string]bool {
	words := map[string]bool{}
	for _, w := range word.FindAllString(sql, -1) {
		words[strings.ToLower(w)] = true
	}
	for grown := true; grown; {
		grown = false
		for name, query := range views {
			if !words[strings.ToLower(name)] {
				continue
			}
			for _, w := range word.FindAllString(query, -1) {
				if w = strings.ToLower(w); !words[w] {
					words[w], grown = true, true
				}
			}
		}
	}
	return words
}
