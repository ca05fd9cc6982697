//go:build iceberg && unix

package iceberg

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/stretchr/testify/require"
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
	t.Run("rest, one table at a time", func(t *testing.T) {
		f(t, inREST(t, forward(t, startReference(t), &faults{tableByTable: true})))
	})
}

func filesOf(o Options) func(context.Context) (iceio.IO, error) {
	if o.Bucket == "" {
		return iceio.LoadFSFunc(nil, "file:///")
	}
	return func(context.Context) (iceio.IO, error) { return storeIO(o.Store.Endpoint), nil }
}

type storeIO string

func (s storeIO) Open(name string) (iceio.File, error) {
	text, err := s.get("/" + strings.TrimPrefix(name, "s3://"))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return storeFile{bytes.NewReader(text), name}, nil
}

func (s storeIO) get(what string) ([]byte, error) {
	resp, err := http.Get(string(s) + what)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return io.ReadAll(resp.Body)
	case http.StatusNotFound:
		return nil, fs.ErrNotExist
	}
	return nil, fmt.Errorf("%s", resp.Status)
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
	text, err := storeIO(o.Store.Endpoint).get("/lake?" + url.Values{"list-type": {"2"}, "prefix": {"warehouse/" + folder + "/"}}.Encode())
	require.NoError(t, err)
	var list struct {
		Contents []struct{ Key string }
	}
	require.NoError(t, xml.Unmarshal(text, &list))
	require.NotEmpty(t, list.Contents, folder)
	for _, c := range list.Contents {
		if strings.Contains(c.Key, word) {
			out = append(out, c.Key)
		}
	}
	return out
}
