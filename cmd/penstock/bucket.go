package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load/parquet"
)

// inBucket reports whether a lake's path is that of an object store.
func inBucket(path string) bool { return strings.HasPrefix(path, "s3://") }

// bucketOptions are those that a lake in a bucket takes besides.
func bucketOptions(o *parquet.Options, d config.Destination, readers map[string]func(string) error) {
	o.Bucket, o.Path = o.Path, ""
	o.S3.AccessKey, o.S3.SecretKey = d.AccessKey.Reveal(), d.SecretKey.Reveal()
	readers["region"] = textOption(&o.S3.Region)
	readers["endpoint"] = textOption(&o.S3.Endpoint)
	readers["path_style"] = func(v string) (err error) {
		if o.S3.Path, err = strconv.ParseBool(v); err != nil {
			return errors.New("want true or false")
		}
		return nil
	}
}

// absentLake says that a folder is not there. Of a bucket, opening it tells.
func absentLake(d config.Destination) error {
	if path, _ := filePath(d); inBucket(path) {
		return nil
	}
	return absentFile(d)
}

// checkBucket asks for what commits need.
func checkBucket(ctx context.Context, a *app, d config.Destination) error {
	l, err := openParquet(ctx, a, d)
	if err != nil {
		return err
	}
	err = l.(*parquet.Lake).Check(ctx)
	if errors.Is(err, parquet.ErrUnconditional) {
		err = hinted(err, "take a store that honours If-None-Match on PUT; most do since 2024, older versions of servers do not")
	} else if err != nil {
		err = hinted(err, "the key needs the rights to list, read, write and delete below the prefix")
	}
	return errors.Join(err, l.Close())
}

// bucketAsker answers each question over the files of the tables that it names.
// They are kept in the user's cache, where the next question finds them.
type bucketAsker struct{ r *reader }

func askBucket(r *reader) (querier, error) { return bucketAsker{r}, nil }

// Close implements querier.
func (bucketAsker) Close() error { return nil }

// word is what may be a name in SQL.
var word = regexp.MustCompile(`[\pL\pN_]+`)

// Query implements load.Querier.
func (b bucketAsker) Query(ctx context.Context, sql string, each func(arrow.RecordBatch) error) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	views, err := lakeViews(ctx, b.r)
	if err != nil {
		return err
	}
	said := named(sql, views)
	maps.DeleteFunc(views, func(name, _ string) bool { return !said[strings.ToLower(name)] })
	files, err := b.r.Destination.(*parquet.Lake).Fetch(ctx, filepath.Join(cache, "penstock", "lake"), func(table string) bool {
		return said[strings.ToLower(table)]
	})
	if err != nil {
		return err
	}
	q, err := over(ctx, files, views)
	if err != nil {
		return err
	}
	return errors.Join(q.Query(ctx, sql, each), q.Close())
}

// named are the words of a question, and of the views that it names.
func named(sql string, views map[string]string) map[string]bool {
	said := map[string]bool{}
	for _, w := range word.FindAllString(sql, -1) {
		said[strings.ToLower(w)] = true
	}
	for grown := true; grown; {
		grown = false
		for name, query := range views {
			if !said[strings.ToLower(name)] {
				continue
			}
			for _, w := range word.FindAllString(query, -1) {
				if w = strings.ToLower(w); !said[w] {
					said[w], grown = true, true
				}
			}
		}
	}
	return said
}
