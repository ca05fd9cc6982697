//go:build iceberg && unix

package iceberg

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/parquet/objects"
)

type place func(testing.TB) Options

func everywhere(t *testing.T, f func(*testing.T, place)) {
	t.Run("folder", func(t *testing.T) { f(t, warehouse) })
	t.Run("bucket", func(t *testing.T) {
		catalog, n := postgresCatalog(t), 0
		f(t, func(t testing.TB) Options {
			n++
			return Options{Options: bucket(t), Catalog: catalog, Namespace: fmt.Sprint("lake", n)}
		})
	})
	t.Run("rest", func(t *testing.T) { f(t, inREST(t, startReference(t))) })
	t.Run("rest, bucket", func(t *testing.T) {
		store := bucket(t).Store.Endpoint
		f(t, inRESTBucket(t, startReferenceIn(t, store), store))
	})
	t.Run("rest, one table at a time", func(t *testing.T) {
		f(t, inREST(t, forward(t, startReference(t), &faults{tableByTable: true})))
	})
}

func filesOf(t testing.TB, o Options) func(context.Context) (iceio.IO, error) {
	if o.Bucket == "" {
		return iceio.LoadFSFunc(nil, "file:///")
	}
	store, _ := storeOf(t, o)
	return func(context.Context) (iceio.IO, error) { return storeIO{store}, nil }
}

type storeIO struct{ objects.Bucket }

func (s storeIO) Open(name string) (iceio.File, error) {
	_, key, _ := strings.Cut(strings.TrimPrefix(name, "s3://"), "/")
	text, _, err := s.Get(context.Background(), key, 0, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return storeFile{bytes.NewReader(text), name}, nil
}

func (s storeIO) Remove(name string) error {
	return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrPermission}
}

type storeFile struct {
	*bytes.Reader
	name string
}

func (f storeFile) Close() error               { return nil }
func (f storeFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f storeFile) Name() string               { return f.name }
func (f storeFile) Mode() fs.FileMode          { return 0o444 }
func (f storeFile) ModTime() time.Time         { return time.Time{} }
func (f storeFile) IsDir() bool                { return false }
func (f storeFile) Sys() any                   { return nil }

func stored(t testing.TB, o Options, folder, word string) (out []string) {
	t.Helper()
	if o.Bucket == "" {
		out, err := filepath.Glob(filepath.Join(o.Path, folder, "*"+word+"*"))
		require.NoError(t, err)
		return out
	}
	store, prefix := storeOf(t, o)
	files := 0
	require.NoError(t, store.List(t.Context(), prefix+folder+"/", 0, func(key string, _ int64) bool {
		if files++; strings.Contains(key, word) {
			out = append(out, key)
		}
		return true
	}))
	require.NotZero(t, files, folder)
	return out
}
