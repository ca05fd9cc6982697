package parquet

import (
	"context"
	"errors"
	"io"
	"time"
)

// objects is a bucket of an object store. Its methods may be called from any
// number of goroutines, try again what may go better a second time, and give up
// in a time that grows with the bytes alone. An object that is not there is
// fs.ErrNotExist, wrapped.
type objects interface {
	// put stores an object of so many bytes, in parts where it is large. Parts of
	// one that fails are given up.
	put(ctx context.Context, key string, body io.ReadSeeker, size int64) error

	// create stores a small object, unless there is one of that name: that is
	// errTaken, wrapped. After any other error nobody knows, and it may still be
	// stored in a while. // Invariant 13
	create(ctx context.Context, key string, text []byte) error

	// get reads n bytes of an object from a place on, or all of it where n is 0,
	// and how large the whole is.
	get(ctx context.Context, key string, from, n int64) (bytes []byte, size int64, err error)

	// list hands out the names and sizes of the objects whose names begin with
	// prefix, in the order of their names, until each returns false. most is how
	// many a request asks for; 0 leaves that to the store.
	list(ctx context.Context, prefix string, most int, each func(key string, size int64) bool) error

	// folders are the parts of names up to the next slash behind the prefix.
	folders(ctx context.Context, prefix string) ([]string, error)

	// remove deletes an object, if it is there.
	remove(ctx context.Context, key string) error

	// uploads are those in parts that are under way below the prefix, or that
	// somebody has left so.
	uploads(ctx context.Context, prefix string) ([]partial, error)

	// forsake gives up such an upload, if it is there: who still sends parts of it is
	// told that it is gone.
	abortUploads(ctx context.Context, p partial) error
}

// partial is an upload in parts that has not ended.
type partial struct {
	key, id string
	begun   time.Time // by the store's clock
}

// errTaken says that an object of that name is there already.
var errTaken = errors.New("there is one of that name")

// What the objects are.
const (
	parquetType = "application/vnd.apache.parquet"
	jsonType    = "application/json"
)
