package parquet

import (
	"context"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
)

// storage is where the streams of a lake are kept. Its methods, and those of [streamStore], may be called concurrently.
type storage interface {
	// streams returns the names of the streams' folders. If sources share a stream, each source has a folder; see
	// [folderIn]. If source is set, streams returns only the folders of this source, because there may be thousands of
	// others.
	streams(ctx context.Context, source string) ([]string, error)
	store(name string) streamStore
	// pattern returns a file pattern for an internal table. It matches the files in the folder of every stream. If shared
	// is true, it matches the files in the folder of every source of each stream.
	pattern(table string, shared bool) string
}

// streamStore keeps the generations of one stream. Committed generations never change.
type streamStore interface {
	// head returns the manifest with the present cursor, or nil if nothing was committed yet.
	head(ctx context.Context) (*manifest, error)

	// The method hold() locks the stream, if the storage supports locks. Other processes cannot commit until the function
	// release is called. Without a lock, [pendingGeneration].publish detects a conflicting commit.
	hold(ctx context.Context) (release func() error, err error)

	// tidy removes outdated generations, and the files that killed processes have left. The parameter m is the current
	// manifest; nil if there is none.
	tidy(ctx context.Context, m *manifest) error

	// The method costly() reports whether listing all files is so expensive that it is done only once per run.
	costly() bool

	// The method live() returns the sizes of a table's existing files by their names. It returns nil if the table's
	// folder is missing. In a bucket, it returns nil if none of the files exists.
	live(ctx context.Context, m *manifest, t *table) (map[string]int64, error)

	// The method open() returns an error that wraps fs.ErrNotExist if the file does not exist.
	open(ctx context.Context, f *file) (input, error)

	draft(ctx context.Context) (pendingGeneration, error)

	where() string
	path(m *manifest, t *table) string
}

// pendingGeneration is a generation in preparation. Its files may be created, written and finished concurrently. The
// other methods must not be called concurrently.
type pendingGeneration interface {
	create(t *table, name string) (output, error)
	// assemble makes everything durable that publish needs: all files that the manifest names, and the manifest itself,
	// if the storage writes it before the commit.
	assemble(ctx context.Context, m *manifest) error
	// publish returns an error that wraps state.ErrMoved if another commit came first. // Invariant 13
	publish(ctx context.Context, m *manifest) error
	// move commits only a cursor. The parameter m is the manifest with which the transaction began, but with the new
	// cursor. After move, only discard may be called. Like publish, move may return state.ErrMoved.
	move(ctx context.Context, m *manifest) error
	discard() error
}

type input interface {
	parquet.ReaderAtSeeker
	io.Closer
}

type output interface {
	io.Writer
	// finish makes the file durable, verifies its footer, and records its size and folder in f. No other method may be
	// called after it.
	finish(ctx context.Context, f *file) error
	abandon()
}
