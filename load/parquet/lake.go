package parquet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Lake is a destination in a folder. Its methods may be called from any number
// of goroutines; transactions of different streams do not wait for each other.
type Lake struct {
	o       Options
	disk    *disk
	storage storage
	scratch scratch
	kept    sync.Pool // of [tools]

	mu      sync.Mutex
	streams map[string]*folder // by name
}

var _ load.Destination = (*Lake)(nil)

// Open prepares a destination in the folder o.Path. What processes that were
// killed have left there is tidied away.
func Open(ctx context.Context, o Options) (*Lake, error) {
	if o.Path == "" {
		return nil, errors.New("open parquet: no path")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	o.Path = path
	if o.Writers == 0 {
		o.Writers = runtime.NumCPU()
	}
	if o.Keep == 0 {
		o.Keep = defaultKeep
	}
	if o.KeepFor == 0 {
		o.KeepFor = defaultKeepFor
	}
	if o.WaitLock == 0 {
		o.WaitLock = defaultWaitLock
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("open %s: it is no folder", path)
	}
	d := &disk{}
	l := &Lake{o: o, disk: d, scratch: scratch{dir: o.TempDir}, streams: map[string]*folder{}}
	l.storage = &directory{path: path, disk: d, waitLock: o.WaitLock, step: l.step, log: o.Log}
	if err := l.tidy(ctx); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return l, nil
}

// folder is that of a stream. What a pipeline keeps for itself, as its runs,
// is no stream that readers look for, and each pipeline has its own.
func (l *Lake) folder(k state.Key) *folder {
	name := folderOf(k.Stream)
	if strings.HasPrefix(k.Stream, "_") {
		name += "@" + folderOf(k.Pipeline)
	}
	return l.folderNamed(name)
}

func (l *Lake) folderNamed(name string) *folder {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.streams[name]
	if f == nil {
		f = newFolder(l.storage.shelf(name))
		l.streams[name] = f
	}
	return f
}

// folders are those of all streams, by name.
func (l *Lake) folders(ctx context.Context) ([]*folder, error) {
	names, err := l.storage.streams(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*folder, len(names))
	for i, name := range names {
		out[i] = l.folderNamed(name)
	}
	return out, nil
}

// manifests are those of all streams.
func (l *Lake) manifests(ctx context.Context) ([]*manifest, error) {
	folders, err := l.folders(ctx)
	if err != nil {
		return nil, err
	}
	var out []*manifest
	for _, f := range folders {
		m, err := f.manifest(ctx)
		if err != nil {
			return nil, err
		}
		if m != nil {
			out = append(out, m)
		}
	}
	return out, nil
}

// Cursor implements [load.Destination].
func (l *Lake) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	m, err := l.folder(k).of(ctx, k)
	if err != nil {
		return "", fmt.Errorf("read cursor of %s: %w", k.Stream, err)
	}
	return cursorOf(m), nil
}

// Tables implements [load.Destination].
func (l *Lake) Tables(ctx context.Context, name string) ([]schemas.Table, error) {
	all, err := l.manifests(ctx)
	if err != nil {
		return nil, fmt.Errorf("read tables of %s: %w", name, err)
	}
	seen := map[string]bool{}
	var out []schemas.Table
	for _, m := range all {
		for _, t := range m.Tables {
			if (t.Name == name || strings.HasPrefix(t.Name, name+"__")) && !seen[t.Name] {
				seen[t.Name] = true
				out = append(out, t.as())
			}
		}
	}
	slices.SortFunc(out, func(a, b schemas.Table) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// vacant refuses a new table that another stream has already: its rows would lie
// in two places.
func (l *Lake) vacant(ctx context.Context, name string, mine *folder) error {
	if load.Own(name) {
		return nil
	}
	folders, err := l.folders(ctx)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if m, err := f.manifest(ctx); f != mine && err == nil && m != nil && m.table(name) != nil {
			return fmt.Errorf("table %s is that of stream %s: give one of them another", name, m.Stream)
		}
	}
	return nil
}

// Close gives up what is only this process's. What is committed stays.
func (l *Lake) Close() error {
	if err := errors.Join(l.step("close"), l.scratch.close()); err != nil {
		return fmt.Errorf("close %s: %w", l.o.Path, err)
	}
	return nil
}

// step names the point a commit has reached to those who asked for it.
func (l *Lake) step(name string) error { return load.Step(l.o.Step, name) }
