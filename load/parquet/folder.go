package parquet

import (
	"context"
	"sync"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// folder is a stream of the lake, and what this process knows of it.
type folder struct {
	name     string
	pipeline string // of a source's, whose passes these are
	shelf    streamStore
	writer   chan struct{} // holds one token while a transaction of this process is applied

	mu   sync.Mutex
	pass *pass    // the one under way, or the last
	keys keyCache // used by who holds the writer's token

	looked string // the run that has seen that all is there; used by who holds the writer's token
}

func newFolder(name string, s streamStore) *folder {
	return &folder{name: name, shelf: s, writer: make(chan struct{}, 1), keys: newKeyring()}
}

// manifest is that of the current generation, with the cursor that the stream
// has come to; nil where there is none.
func (f *folder) manifest(ctx context.Context) (*manifest, error) {
	return f.shelf.head(ctx)
}

// lately is the manifest, where asking for it is dear as it was not long ago.
func (f *folder) lately(ctx context.Context) (*manifest, error) {
	if r, ok := f.shelf.(interface {
		recent(ctx context.Context) (*manifest, error)
	}); ok {
		return r.recent(ctx)
	}
	return f.manifest(ctx)
}

// of is the manifest of the stream k; nil where nothing was committed yet. For a
// folder of another stream it is a [*load.OwnerError]: two pipelines that read the
// same stream want a root each.
func (f *folder) of(ctx context.Context, k state.Key) (*manifest, error) {
	m, err := f.manifest(ctx)
	if err == nil && m != nil && m.key() != k {
		return nil, &load.OwnerError{Table: m.rootTable(), Have: m.owner(), Want: load.Owner{Pipeline: k.Pipeline, Stream: k.Stream}}
	}
	return m, err
}

// cleaner is implemented by shelves whose leftovers are tidied up as soon as the
// lake is opened.
type cleaner interface {
	clean(ctx context.Context, m *manifest) error
}

// tidy tidies up all folders that no other process is at work in.
func (l *Lake) tidy(ctx context.Context) error {
	folders, err := l.folders(ctx)
	if err != nil {
		return err
	}
	for _, f := range folders {
		c, ok := f.shelf.(cleaner)
		if !ok || f.shared() { // of those there may be very many: each is tidied up before its next commit
			continue
		}
		m, err := f.manifest(ctx)
		if err == nil {
			err = c.clean(ctx, m)
		}
		if err != nil {
			l.o.Log.Warn("a stream's folder cannot be tidied up", "folder", f.shelf.where(), "error", err)
		}
	}
	return nil
}
