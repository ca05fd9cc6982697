package parquet

import (
	"context"
	"errors"
	"io"
	"time"
)

// objects is a bucket of an object store. Its methods may be called concurrently. They retry transient errors.
// Requests have a time limit, which depends on the number of bytes; listings have none. If an object does not exist,
// the error wraps fs.ErrNotExist.
type objects interface {
	put(ctx context.Context, key string, body io.ReadSeeker, size int64) error

	// create stores an object. If an object of that name exists, it returns an error that wraps errTaken. After any
	// other error the outcome is unknown, and the object may still appear later. Invariant 13
	create(ctx context.Context, key string, text []byte) error

	// get reads n bytes from an offset, or the whole object if n is 0. It also returns the size of the whole object.
	get(ctx context.Context, key string, from, n int64) (bytes []byte, size int64, err error)

	// list calls visit for the objects whose names begin with prefix, in the order of names, until visit returns false.
	// If pageSize is 0, the store decides about the size of pages.
	list(ctx context.Context, prefix string, pageSize int, visit func(key string, size int64) bool) error

	// folders returns, for the names that begin with prefix, the part up to the next slash.
	folders(ctx context.Context, prefix string) ([]string, error)

	remove(ctx context.Context, key string) error

	uploads(ctx context.Context, prefix string) ([]unfinishedUpload, error)

	// abortUploads aborts an unfinished upload. A process that is still sending parts gets an error.
	abortUploads(ctx context.Context, p unfinishedUpload) error
}

type unfinishedUpload struct {
	key, id string
	begun   time.Time // by the store's clock
}

var errTaken = errors.New("an object of that name already exists")

const (
	parquetType = "application/vnd.apache.parquet"
	jsonType    = "application/json"
)
