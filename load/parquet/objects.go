package parquet

import (
	"context"
	"errors"
	"io"
	"time"
)

// objects is a bucket of an object store. Its methods may be called concurrently. They retry transient
// errors. Requests other than listings have a time limit, which depends on the number of bytes. If an
// object does not exist, the error wraps fs.ErrNotExist.
type objects interface {
	// put stores an object of the given size, in parts if it is large. If an upload in parts fails, put
	// aborts it.
	put(ctx context.Context, key string, body io.ReadSeeker, size int64) error

	// create stores a small object, provided that no object of that name exists; otherwise the error
	// wraps errTaken. After any other error the outcome is unknown, and the object may still appear
	// later. // Invariant 13
	create(ctx context.Context, key string, text []byte) error

	// get reads n bytes of an object from an offset, or the whole object if n is 0. It also returns the
	// size of the whole object.
	get(ctx context.Context, key string, from, n int64) (bytes []byte, size int64, err error)

	// list calls the function visit once per object whose name begins with prefix, in the order of
	// names, until the function returns false. The page size of the listing is pageSize; 0 means the
	// store's default.
	list(ctx context.Context, prefix string, pageSize int, visit func(key string, size int64) bool) error

	// folders returns the names of the folders below the prefix: the parts of object names between the
	// prefix and the next slash.
	folders(ctx context.Context, prefix string) ([]string, error)

	// remove deletes an object, if it exists.
	remove(ctx context.Context, key string) error

	// uploads returns the unfinished multipart uploads below the prefix, whether in progress or
	// abandoned.
	uploads(ctx context.Context, prefix string) ([]unfinishedUpload, error)

	// abortUploads aborts an upload, if it exists. A process that is still sending parts of the object
	// gets an error.
	abortUploads(ctx context.Context, p unfinishedUpload) error
}

// unfinishedUpload is an unfinished multipart upload.
type unfinishedUpload struct {
	key, id string
	begun   time.Time // by the store's clock
}

// errTaken reports that an object of that name already exists.
var errTaken = errors.New("an object of that name already exists")

// Content types of the objects.
const (
	parquetType = "application/vnd.apache.parquet"
	jsonType    = "application/json"
)
