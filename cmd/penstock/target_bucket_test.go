//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

// bucketTarget is a bucket of an S3 server in this process. So if a test kills a process that writes to the bucket,
// the bucket stays.
type bucketTarget struct {
	dir    string // folder for objects that are read from the bucket
	server *httptest.Server
	now    atomic.Pointer[bucketState]
	kept   map[string]keptObject
}

// bucketState is the content of the server. Each reset makes new content. Late requests of a killed process go to the
// old content, and do not change the new content.
type bucketState struct {
	backend *s3mem.Backend
	serve   http.Handler
}

// keptObject is an object that can be restored.
type keptObject struct {
	meta map[string]string
	text []byte
}

const bucketName = "lake"

func newBucketTarget(t *testing.T) *bucketTarget {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "do not tell")
	b := &bucketTarget{dir: t.TempDir()}
	b.reset(t, false)
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.now.Load().serve.ServeHTTP(w, r)
	}))
	t.Cleanup(b.server.Close)
	return b
}

func (b *bucketTarget) url() string {
	return fmt.Sprintf("parquet:s3://%s/it's/here?region=us-east-1&path_style=true&endpoint=%s", bucketName, b.server.URL)
}

// keep implements [target].
func (b *bucketTarget) keep(t *testing.T) {
	b.kept = map[string]keptObject{}
	for _, key := range b.keys(t, "") {
		o, err := b.now.Load().backend.GetObject(bucketName, key, nil)
		require.NoError(t, err)
		text, err := io.ReadAll(o.Contents)
		require.NoError(t, err)
		b.kept[key] = keptObject{meta: o.Metadata, text: text}
	}
}

// reset implements [target].
func (b *bucketTarget) reset(t *testing.T, kept bool) {
	s := &bucketState{backend: s3mem.New()}
	require.NoError(t, s.backend.CreateBucket(bucketName))
	s.serve = gofakes3.New(s.backend).Server()
	if kept {
		for key, o := range b.kept {
			_, err := s.backend.PutObject(bucketName, key, o.meta, bytes.NewReader(o.text), int64(len(o.text)), nil)
			require.NoError(t, err)
		}
	}
	b.now.Store(s)
}

// keys returns the sorted names of all objects that begin with prefix.
func (b *bucketTarget) keys(t *testing.T, prefix string) (keys []string) {
	t.Helper()
	p := gofakes3.NewPrefix(&prefix, nil)
	list, err := b.now.Load().backend.ListBucket(bucketName, &p, gofakes3.ListBucketPage{})
	require.NoError(t, err)
	for _, o := range list.Contents {
		keys = append(keys, o.Key)
	}
	return keys
}

func (b *bucketTarget) read(key string) ([]byte, error) {
	o, err := b.now.Load().backend.GetObject(bucketName, key, nil)
	if err != nil {
		return nil, err
	}
	defer o.Contents.Close()
	return io.ReadAll(o.Contents)
}

// files returns the files of a stream's current generation, by table. The newest manifest in the stream's folder names
// these files.
func (b *bucketTarget) files(t *testing.T, folder string) (map[string][]string, error) {
	t.Helper()
	manifests := b.keys(t, folder+"/manifest-")
	if len(manifests) == 0 {
		return nil, nil
	}
	text, err := b.read(manifests[0])
	if err != nil {
		return nil, err
	}
	type file struct {
		Name string `json:"name"`
	}
	var m struct {
		Tables []struct {
			Name, Folder string
			Empty        *file
		}
		Segments []struct{ Files map[string]file }
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, table := range m.Tables {
		for _, s := range m.Segments {
			if f, ok := s.Files[table.Name]; ok {
				out[table.Name] = append(out[table.Name], folder+"/"+table.Folder+"/"+f.Name)
			}
		}
		if out[table.Name] == nil && table.Empty != nil {
			out[table.Name] = []string{folder + "/" + table.Folder + "/" + table.Empty.Name}
		}
	}
	return out, nil
}

// local() downloads objects as files, and returns SQL that reads these files. Objects never change, so local()
// downloads each object only once.
func (b *bucketTarget) local(keys []string) (string, error) {
	var names []string
	for _, key := range keys {
		name := filepath.Join(b.dir, strings.ReplaceAll(strings.ReplaceAll(key, "/", "_"), "'", "_"))
		if _, err := os.Stat(name); err != nil {
			text, err := b.read(key)
			if err != nil {
				return "", err
			}
			if err := os.WriteFile(name, text, 0o600); err != nil {
				return "", err
			}
		}
		names = append(names, "'"+name+"'")
	}
	return "read_parquet([" + strings.Join(names, ", ") + "])", nil
}

// open implements [target].
func (b *bucketTarget) open(t *testing.T) *warehouse {
	t.Helper()
	db := openMemory(t)
	from := map[string][]string{}
	seen := map[string]bool{}
	for _, key := range b.keys(t, "") {
		folder, _, manifest := strings.Cut(key, "/manifest-")
		if !manifest || seen[folder] {
			continue
		}
		seen[folder] = true
		files, err := b.files(t, folder)
		require.NoError(t, err)
		for table, keys := range files {
			from[table] = append(from[table], keys...)
		}
	}
	for table, keys := range from {
		list, err := b.local(keys)
		require.NoError(t, err)
		_, err = db.Exec(fmt.Sprintf("CREATE TABLE %s AS SELECT * FROM %s", quote(table), list))
		require.NoError(t, err, table)
	}
	return newWarehouse(t, db)
}

// watch reads the newest manifest of a stream, and then the files that the manifest names.
func (b *bucketTarget) watch(t *testing.T) (look func(glancer) (int64, error), done func()) {
	db := openMemory(t)
	return func(see glancer) (int64, error) {
		var lost error
		generation := map[string]map[string][]string{}
		name := func(root, table string) string {
			if generation[root] == nil {
				files, err := b.files(t, "it's/here/"+strings.Replace(root, "_", ".", 1))
				if err != nil || files == nil {
					return ""
				}
				generation[root] = files
			}
			list, err := b.local(generation[root][table])
			if err != nil { // every file that a manifest names must exist
				lost = fmt.Errorf("read %s: %w", table, err)
			}
			return list
		}
		rows, err := see(name, func(q string, to ...any) error { return db.QueryRow(q).Scan(to...) })
		if err == nil {
			err = lost
		}
		return rows, err
	}, func() { _ = db.Close() }
}
