package parquet

import (
	"context"
	"strings"
	"sync"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// folder is a stream of the lake, or one source's part of a shared stream. It also has the data about the stream that
// this process keeps in memory.
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

// recentManifest returns the manifest. If reading the manifest is expensive, the result may be a few seconds old.
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

// sourcePrefix is the beginning of the name of a source's folder. This folder is in the folder of the shared stream.
// Each source has its own generations, so sources commit independently. The folder is named like a Hive partition of
// the source column, so engines read the source from the name. For this reason, the files of a lake without a catalog
// have no source column.
const sourcePrefix = schemas.ColSource + "="

func folderIn(stream, source string) string { return stream + "/" + sourcePrefix + source }

func (f *folder) shared() bool { return strings.Contains(f.name, "/"+sourcePrefix) }
