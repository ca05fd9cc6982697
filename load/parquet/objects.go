package parquet

import (
	"context"
	"errors"
	"io"
	"time"
)

// objects is a bucket of an object store. Its methods may be called concurrently. They retry transient
// errors. Requests other than listings have a time limit, which depends on the number of bytes. If an object
// does not exist, the error wraps fs.ErrNotExist.
type objects interface {
	put(ctx context.Context, key string, body io.ReadSeeker, size int64) error

	// create fails with an error that wraps errTaken if an object of that name exists. After any other error
	// the outcome is unknown, and the object may still appear later.
	// Invariant 13
	create(ctx context.Context, key string, text []byte) error

	// get reads n bytes from an offset, or the whole object if n is 0. It also returns the size of the whole object.
	get(ctx context.Context, key string, from, n int64) (bytes []byte, size int64, err error)

	// list visits the objects whose names begin with prefix, in the order of names, until visit returns
	// false. pageSize 0 means the store's default.
	list(ctx context.Context, prefix string, pageSize int, visit func(key string, size int64) bool) error

	// folders returns the parts of object names between the prefix and the next slash.
	folders(ctx context.Context, prefix string) ([]string, error)

	remove(ctx context.Context, key string) error

	uploads(ctx context.Context, prefix string) ([]unfinishedUpload, error)

	// abortUploads makes a process that is still sending parts get an error.
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
