package parquet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// folder is where a stream's generations lie.
type folder struct {
	path   string
	writer chan struct{} // holds one token while a transaction of this process is applied

	mu   sync.Mutex
	read *manifest // as last read
	pass *pass     // the one under way, or the last
	keys keyring   // used by who holds the writer's token
}

func newFolder(path string) *folder {
	return &folder{path: path, writer: make(chan struct{}, 1), keys: newKeyring()}
}

// manifest is that of the current generation, with the cursor that the stream
// has come to; nil where there is none.
func (f *folder) manifest() (*manifest, error) {
	m, err := f.generation()
	if m == nil || err != nil {
		return nil, err
	}
	return f.moved(m)
}

// generation is the manifest of the current generation, as it was made.
func (f *folder) generation() (*manifest, error) {
	for {
		target, err := os.Readlink(filepath.Join(f.path, current))
		if gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(f.path, current), err)
		}
		sequence, ok := genNumber(target)
		if !ok {
			return nil, fmt.Errorf("%s is no link to a generation, but to %q", filepath.Join(f.path, current), target)
		}
		f.mu.Lock()
		known := f.read
		f.mu.Unlock()
		if known != nil && known.Sequence == sequence {
			return known, nil
		}
		m, err := readManifest(filepath.Join(f.path, target))
		if gone(err) {
			if now, _ := os.Readlink(filepath.Join(f.path, current)); now != target {
				continue // it was removed while we looked
			}
		}
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.read = m
		f.mu.Unlock()
		return m, nil
	}
}

// of is the manifest of the stream k; nil where nothing was committed yet. A
// folder of another stream is an error: two pipelines that read the same stream
// want a root each.
func (f *folder) of(k state.Key) (*manifest, error) {
	m, err := f.manifest()
	if err == nil && m != nil && m.key() != k {
		return nil, fmt.Errorf("%s belongs to stream %q of pipeline %q: give pipeline %q another folder", f.path, m.Stream, m.Pipeline, k.Pipeline)
	}
	return m, err
}

// lock makes this process the only one that commits to the folder, until it
// gives the lock back or dies: one that was stopped keeps the others out.
// Invariant 13
func (l *Lake) lock(ctx context.Context, f *folder) (*state.Lock, error) {
	if err := l.disk.makeAll(f.path); err != nil {
		return nil, err
	}
	return state.Acquire(ctx, filepath.Join(f.path, lockName), max(0, l.o.WaitLock))
}

// recover tidies away what processes that died have left, and generations that
// are outdated: the link is the truth, and what it does not lead to was never
// committed, or is past. The lock is held.
func (l *Lake) recover(f *folder) error {
	m, err := f.manifest()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	if m == nil {
		if err := orphaned(f.path, entries); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if leftover(e.Name(), m) {
			if err := l.discard(filepath.Join(f.path, e.Name())); err != nil {
				return fmt.Errorf("tidy up: %w", err)
			}
		}
	}
	return nil
}

// leftover reports whether a name in a folder whose current generation is m is
// of something that a process which died has left, or that is outdated.
func leftover(name string, m *manifest) bool {
	if strings.HasPrefix(name, tmpPrefix) || strings.HasPrefix(name, trashPrefix) {
		return true
	}
	sequence, ok := genNumber(name)
	if !ok || m == nil || sequence == m.Sequence {
		return ok && m == nil
	}
	return !slices.ContainsFunc(m.Kept, func(g generation) bool { return g.Sequence == sequence })
}

// orphaned refuses a folder whose link somebody has removed: only the first
// generation may stand there without one.
func orphaned(path string, entries []os.DirEntry) error {
	for _, e := range entries {
		if sequence, ok := genNumber(e.Name()); ok && sequence > 1 {
			return &load.ForeignChange{Table: filepath.Base(path), Diff: []string{fmt.Sprintf(
				"the link %s is gone: point it at the generation that counts again, or remove the folder to load it anew", filepath.Join(path, current))}}
		}
	}
	return nil
}

// discard removes a folder: out of the readers' sight first, so that none
// finds half of it.
func (l *Lake) discard(path string) error {
	dir, name := filepath.Split(path)
	if !strings.HasPrefix(name, trashPrefix) && !strings.HasPrefix(name, tmpPrefix) {
		away := filepath.Join(dir, trashPrefix+randomName())
		if err := os.Rename(path, away); err != nil {
			return err
		}
		path = away
	}
	return os.RemoveAll(path)
}

// tidy recovers all folders that no other process is at work in.
func (l *Lake) tidy(ctx context.Context) error {
	folders, err := l.folders()
	if err != nil {
		return err
	}
	for _, f := range folders {
		if dirty, err := l.dirty(f); err != nil || !dirty {
			if err != nil {
				l.o.Log.Warn("a stream's folder cannot be looked into", "folder", f.path, "error", err)
			}
			continue
		}
		lock, err := state.Acquire(ctx, filepath.Join(f.path, lockName), 0)
		if errors.Is(err, state.ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		err = errors.Join(l.recover(f), lock.Release())
		if err != nil {
			l.o.Log.Warn("a stream's folder cannot be tidied up", "folder", f.path, "error", err)
		}
	}
	return nil
}

// dirty reports whether there is something to recover from.
func (l *Lake) dirty(f *folder) (bool, error) {
	m, err := f.manifest()
	if err != nil {
		return false, err
	}
	entries, err := os.ReadDir(f.path)
	for _, e := range entries {
		if leftover(e.Name(), m) {
			return true, nil
		}
	}
	return false, err
}
