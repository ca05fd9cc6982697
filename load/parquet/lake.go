package parquet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Lake is a destination of Parquet files in a folder or bucket. Its methods may be called concurrently.
// Transactions of different streams do not wait for each other.
type Lake struct {
	o       Options
	disk    *objects.Disk
	storage storage
	scratch scratch
	pool    encode.Pool
	trims   load.TrimDays

	mu      sync.Mutex
	streams map[string]*folder
}

var (
	_ load.Destination = (*Lake)(nil)
	_ load.Trimmer     = (*Lake)(nil)
)

// Open opens the destination in the folder o.Path or the bucket o.Bucket. In a folder, Open removes the files that
// killed processes have left. In three cases, the first transaction removes these files instead: if the lake is in a
// bucket, if the lake has a catalog, or if sources share the stream.
func Open(ctx context.Context, o Options) (*Lake, error) {
	o = o.filled()
	l := &Lake{o: o, disk: &objects.Disk{Mode: o.Mode}, scratch: scratch{dir: o.TempDir}, streams: map[string]*folder{}}
	var err error
	if o.Catalog != nil {
		l.storage, err = newCatalogStore(ctx, o, l.disk, l.step)
	} else if o.Bucket != "" {
		l.storage, err = newBucket(o, l.step)
	} else {
		l.storage, err = newDirectory(o, l.disk, l.step)
	}
	if err == nil {
		err = l.tidy(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cmp.Or(o.Bucket, o.Path, "parquet"), err)
	}
	return l, nil
}

func (o Options) filled() Options {
	if o.Writers == 0 {
		o.Writers = runtime.NumCPU()
	}
	o.Keep = cmp.Or(o.Keep, defaultKeep)
	o.KeepFor = cmp.Or(o.KeepFor, defaultKeepFor)
	o.Deletes.MinSize = cmp.Or(o.Deletes.MinSize, defaultMinSize)
	o.Deletes.MaxShare = cmp.Or(o.Deletes.MaxShare, defaultMaxShare)
	o.WaitLock = cmp.Or(o.WaitLock, defaultWaitLock)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// folder returns the folder of a stream. Internal streams, such as the runs of a pipeline, have a folder for each
// pipeline.
func (l *Lake) folder(k state.Key) *folder {
	name := l.nameOf(k.Stream)
	if strings.HasPrefix(k.Stream, "_") {
		name += "@" + l.nameOf(k.Pipeline)
	}
	if k.Source == "" {
		return l.folderNamed(name)
	}
	f := l.folderNamed(folderIn(name, k.Source))
	l.mu.Lock()
	defer l.mu.Unlock()
	f.pipeline = k.Pipeline
	return f
}

func (l *Lake) nameOf(name string) string {
	if l.o.Catalog != nil {
		return locationName(folderOf(name))
	}
	return folderOf(name)
}

func (l *Lake) folderNamed(name string) *folder {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.streams[name]
	if f == nil {
		f = newFolder(name, l.storage.store(name), &l.scratch)
		l.streams[name] = f
	}
	return f
}

func (l *Lake) folders(ctx context.Context) ([]*folder, error) { return l.foldersOf(ctx, "") }

func (l *Lake) foldersOf(ctx context.Context, source string) ([]*folder, error) {
	names, err := l.storage.streams(ctx, source)
	if err != nil {
		return nil, err
	}
	out := make([]*folder, len(names))
	for i, name := range names {
		out[i] = l.folderNamed(name)
	}
	return out, nil
}

func (l *Lake) manifests(ctx context.Context) ([]*manifest, error) { return l.manifestsOf(ctx, "") }

func (l *Lake) manifestsOf(ctx context.Context, source string) ([]*manifest, error) {
	return l.each(ctx, source, (*folder).manifest)
}

const lookupLimit = 8

func (l *Lake) each(ctx context.Context, source string, look func(*folder, context.Context) (*manifest, error)) ([]*manifest, error) {
	folders, err := l.foldersOf(ctx, source)
	if err != nil {
		return nil, err
	}
	all, err := l.look(ctx, folders, look)
	return slices.DeleteFunc(all, func(m *manifest) bool { return m == nil }), err
}

// The method look() returns the manifest of each folder, or nil for a folder without commits.
func (l *Lake) look(ctx context.Context, folders []*folder, look func(*folder, context.Context) (*manifest, error)) ([]*manifest, error) {
	all := make([]*manifest, len(folders))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(lookupLimit)
	for i, f := range folders {
		work.Go(func() (err error) {
			all[i], err = look(f, ctx)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	return all, nil
}

// Cursor implements [load.Destination].
func (l *Lake) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	m, err := l.manifestFor(ctx, l.folder(k), k)
	if _, another := errors.AsType[*load.OwnerError](err); another {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read cursor%s: %w", load.OfStream(k.Stream), err)
	}
	return cursorOf(m), nil
}

// Tables implements [load.Destination].
func (l *Lake) Tables(ctx context.Context, name string) ([]schemas.Table, error) {
	return l.tablesOf(ctx, "", name)
}

func (l *Lake) checkNameFree(ctx context.Context, name, source string, mine *folder) error {
	if load.IsInternal(name) {
		return nil
	}
	folders, err := l.foldersOf(ctx, source)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if m, err := f.recentManifest(ctx); f != mine && err == nil && m != nil && m.table(name) != nil {
			return fmt.Errorf("table %s belongs to stream %s: choose another table for one of the two streams", name, m.Stream)
		}
	}
	return nil
}

// Close releases the resources of this process. Committed data stays.
func (l *Lake) Close() error {
	err := errors.Join(l.step("close"), l.scratch.close())
	if c, ok := l.storage.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", l.o.Path, err)
	}
	return nil
}

func (l *Lake) step(name string) error { return load.Step(l.o.Step, name) }

type cleaner interface {
	clean(ctx context.Context, m *manifest) error
}

// tidy removes what interrupted commits have left in the folders of streams. It skips shared streams, and streams to
// which another process is committing.
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
