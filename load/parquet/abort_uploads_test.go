package parquet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/parquet/objects"
)

type place struct {
	Bucket string
	Store  objects.Options
}

const uploadChild = "PENSTOCK_TEST_UPLOAD_CHILD"

// TestUploadChild runs in the process that TestBucketAbortsUploads kills. The record is so large that its file is
// uploaded in several parts.
func TestUploadChild(t *testing.T) {
	var of place
	if text := os.Getenv(uploadChild); text == "" || json.Unmarshal([]byte(text), &of) != nil {
		t.Skip("a child of TestBucketAbortsUploads")
	}
	l := openBucket(t, Options{Bucket: of.Bucket, Store: of.Store})
	l.storage.(*bucket).o.(*objects.S3).Part = 5 << 20 // the minimum of S3
	at, err := l.Cursor(t.Context(), stream)
	require.NoError(t, err)
	large := make([]byte, 8<<20)
	_, _ = rand.Read(large)
	must(t, l, 2, at, lead{id: 1, name: hex.EncodeToString(large)})
	t.Fatal("the process was not killed during the upload")
}

func TestBucketAbortsUploads(t *testing.T) { onStores(t, testBucketAbortsUploads) }

func testBucketAbortsUploads(t *testing.T, s *store) {
	o := s.options("forsakes")
	l := openBucket(t, o)
	store, ok := l.storage.(*bucket).o.(*objects.S3)
	if !ok {
		t.Skip("this store has no multipart uploads")
	}
	at := must(t, l, 1, "", before...)
	text, err := json.Marshal(place{o.Bucket, o.Store})
	require.NoError(t, err)
	child := exec.Command(os.Args[0], "-test.run", "^TestUploadChild$")
	child.Env = append(os.Environ(), uploadChild+"="+string(text))
	s.mu.Lock()
	s.fault = func(_ http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) bool {
		if r.URL.Query().Get("partNumber") == "2" {
			_ = child.Process.Kill()
			return true
		}
		return false
	}
	s.mu.Unlock()
	out, err := child.CombinedOutput()
	require.ErrorContains(t, err, "killed", "%s", out)
	left, err := store.Uploads(context.Background(), "")
	require.NoError(t, err)
	require.Len(t, left, 1, "the upload of the killed process")

	next := openBucket(t, o)
	now, err := next.Cursor(t.Context(), stream)
	require.NoError(t, err)
	require.Equal(t, at, now)
	must(t, next, 3, now, after...)
	left, err = store.Uploads(context.Background(), "")
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, wanted(after...), names(t, next))
}
