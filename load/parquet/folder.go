package parquet

import (
	"context"
	"sync"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// folder is a stream of the lake, or one source's part of a shared stream. It also has what this process remembers
// about it.
type folder struct {
	name     string
	pipeline string // the pipeline that loads the source; set only for the folder of a source
	store    streamStore
	writer   chan struct{} // has space for one token, which a transaction of this process holds while it is applied

	mu   sync.Mutex
	pass *pass
	keys keyCache // guarded by writer

	checkedRun string // the run that has checked that all files exist; guarded by writer
}

func newFolder(name string, s streamStore, keys *scratch) *folder {
	return &folder{name: name, store: s, writer: make(chan struct{}, 1), keys: keyCache{lists: map[string]*keylist{}, evicted: map[string]bool{}, scratch: keys}}
}

func (f *folder) manifest(ctx context.Context) (*manifest, error) {
	return f.store.head(ctx)
}

// recentManifest returns the manifest. If it is expensive to read, it may be a few seconds old.
func (f *folder) recentManifest(ctx context.Context) (*manifest, error) {
	if r, ok := f.store.(interface {
		recent(ctx context.Context) (*manifest, error)
	}); ok {
		return r.recent(ctx)
	}
	return f.manifest(ctx)
}

// manifestOf returns the manifest of the stream k. It returns a [*load.OwnerError] if the folder belongs to another
// stream or pipeline. Two pipelines that read the same stream need different root folders.
func (f *folder) manifestOf(ctx context.Context, k state.Key) (*manifest, error) {
	m, err := f.manifest(ctx)
	if err == nil && m != nil && m.key() != k {
		return nil, &load.OwnerError{Table: m.rootTable(), Have: m.owner(), Want: load.Owner{Pipeline: k.Pipeline, Stream: k.Stream}}
	}
	return m, err
}

type cleaner interface {
	clean(ctx context.Context, m *manifest) error
}

// tidy removes leftovers of all streams. It leaves out shared streams, and streams to which another process is
// committing.
func (l *Lake) tidy(ctx context.Context) error {
	folders, err := l.folders(ctx)
	if err != nil {
		return err
	}
	for _, f := range folders {
		c, ok := f.store.(cleaner)
		if !ok || f.shared() { // a shared stream may have thousands of folders; each one is tidied before its next commit
			continue
		}
		m, err := f.manifest(ctx)
		if err == nil {
			err = c.clean(ctx, m)
		}
		if err != nil {
			l.o.Log.Warn("cannot tidy up a stream's folder", "folder", f.store.where(), "error", err)
		}
	}
	return nil
}
