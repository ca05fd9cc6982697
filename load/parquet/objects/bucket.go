// Package objects stores named objects in buckets of S3, Google Cloud Storage and Azure, and in local folders.
package objects

import (
	"context"
	"errors"
	"io"
	"time"
)

// Bucket is a bucket of an object store. Its methods may be called concurrently. They retry transient errors. Each
// request except those for listings has a time limit, which depends on the number of bytes. If an object does not
// exist, the error wraps fs.ErrNotExist.
type Bucket interface {
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error

	// Create stores an object. If an object of that name exists, it returns an error that wraps ErrTaken. After any
	// other error the outcome is unknown, and the object may still appear later. Invariant 13
	Create(ctx context.Context, key string, text []byte) error

	// Get reads n bytes from an offset, or the whole object if n is 0. It also returns the size of the whole object.
	Get(ctx context.Context, key string, from, n int64) (bytes []byte, size int64, err error)

	// List calls visit for the objects whose names begin with prefix, in the order of names, until visit returns false.
	// If pageSize is 0, the store decides about the size of pages.
	List(ctx context.Context, prefix string, pageSize int, visit func(key string, size int64) bool) error

	// Folders returns the names of the folders directly below prefix. A folder is the part of an object's name between
	// prefix and the next slash.
	Folders(ctx context.Context, prefix string) ([]string, error)

	Remove(ctx context.Context, key string) error

	Uploads(ctx context.Context, prefix string) ([]Upload, error)

	// AbortUpload aborts an unfinished upload. A process that is still sending parts gets an error.
	AbortUpload(ctx context.Context, p Upload) error
}

// Upload is a multipart upload that is not finished.
type Upload struct {
	Key, ID string
	Begun   time.Time // by the store's clock
}

// ErrTaken says that an object of that name already exists.
var ErrTaken = errors.New("an object of that name already exists")

const (
	parquetType = "application/vnd.apache.parquet"
	jsonType    = "application/json"
)
