package parquet

import (
	"context"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
)

// storage is where the streams of a lake are kept. Its methods, and those of its
// shelves, may be called from any number of goroutines.
type storage interface {
	// streams are the names of the streams' folders. A stream that sources share
	// has one in its own for each, such as crm.leads/_penstock_source=berlin: see
	// [folderIn]. With a source it is those of that source alone, found without
	// looking at the others' (there may be thousands), else all there are.
	streams(ctx context.Context, source string) ([]string, error)
	// shelf is the place of one stream, by the name of its folder. Nothing need be
	// there yet.
	shelf(name string) streamStore
	// pattern finds the files of one of penstock's own tables, which lie with every
	// stream, or with each source of it where these share the streams.
	pattern(table string, shared bool) string
}

// streamStore keeps the generations of one stream. What was committed never changes.
type streamStore interface {
	// head is the manifest that counts, with the cursor that the stream has come to
	// since; nil where nothing was committed yet.
	head(ctx context.Context) (*manifest, error)

	// hold keeps others from committing, as far as the storage can, until release
	// is called. What is committed all the same is found by [pendingGeneration].publish.
	hold(ctx context.Context) (release func() error, err error)

	// tidy removes what those who died have left and what is outdated, as seen from
	// the manifest that counts, nil where there is none.
	tidy(ctx context.Context, m *manifest) error

	// dear reports whether it costs so much to look at all there is, as tidy and
	// live do, that once in a run must do.
	dear() bool

	// live are the sizes of the files there are of a table, by their names; nil
	// where its whole folder is gone.
	live(ctx context.Context, m *manifest, t *table) (map[string]int64, error)

	// open opens a file to be read. A file that is gone is fs.ErrNotExist, wrapped.
	open(ctx context.Context, f *file) (input, error)

	// draft begins the generation that follows.
	draft(ctx context.Context) (pendingGeneration, error)

	// where tells people what the store is, and path where a table is to be found.
	where() string
	path(m *manifest, t *table) string
}

// pendingGeneration is a generation in the making. Its files may be created, written and
// finished by any number of goroutines; all else is for one at a time.
type pendingGeneration interface {
	// create begins the file name, folders and all, in a table's folder.
	create(t *table, name string) (output, error)
	// assemble makes all but the commit durable: after it the manifest and every
	// file that it names are where publish wants them.
	assemble(ctx context.Context, m *manifest) error
	// publish makes m the manifest that counts, or returns state.ErrMoved, wrapped,
	// where another has followed the one before it. // Invariant 13
	publish(ctx context.Context, m *manifest) error
	// move commits a cursor alone: m is the manifest that the transaction began
	// from, with nothing else changed, and no other call but discard comes. It may
	// return state.ErrMoved as publish does.
	move(ctx context.Context, m *manifest) error
	// discard gives up all that publish has not made everyone's.
	discard() error
}

// input is a file being read.
type input interface {
	parquet.ReaderAtSeeker
	io.Closer
}

// output is a file being written.
type output interface {
	io.Writer
	// finish makes the file durable once its footer is read back, and notes its
	// size and where it lies. No other call comes after it.
	finish(ctx context.Context, f *file) error
	// abandon gives it up.
	abandon()
}
