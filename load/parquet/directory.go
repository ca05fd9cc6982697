package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/state"
)

// directory keeps a lake in a file system. Each stream has a folder, with a link to the current generation.
type directory struct {
	path     string
	disk     *objects.Disk
	waitLock time.Duration
	step     func(name string) error
	log      *slog.Logger
	copies   sync.Once

	mu     sync.Mutex
	linked bool
}

func newDirectory(o Options, d *objects.Disk, step func(string) error) (*directory, error) {
	if o.Path == "" {
		return nil, errors.New("no path")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, errors.New("not a folder")
	}
	return &directory{path: path, disk: d, waitLock: o.WaitLock, step: step, log: o.Log}, nil
}

func (d *directory) streams(_ context.Context, source string) ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil && !gone(err) {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		parts, err := d.parts(e.Name(), source)
		if err != nil {
			return nil, err
		}
		out = append(out, parts...)
	}
	return out, nil
}

func (d *directory) parts(stream, source string) ([]string, error) {
	if source != "" {
		name := folderIn(stream, source)
		if _, err := os.Stat(filepath.Join(d.path, name)); err != nil {
			return nil, ignoreGone(err)
		}
		return []string{name}, nil
	}
	if _, err := os.Lstat(filepath.Join(d.path, stream, current)); err == nil {
		return []string{stream}, nil
	}
	entries, err := os.ReadDir(filepath.Join(d.path, stream))
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), sourcePrefix) {
			out = append(out, stream+"/"+e.Name())
		}
	}
	if out == nil {
		out = []string{stream}
	}
	return out, ignoreGone(err)
}

func ignoreGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

func (d *directory) store(name string) streamStore {
	return &dirStore{dir: d, root: filepath.Join(d.path, name)}
}

// pattern returns a file pattern that goes through the links. So it matches files of current generations only.
func (d *directory) pattern(table string, shared bool) string {
	stream := "*"
	if shared {
		stream = filepath.Join("*", sourcePrefix+"*")
	}
	return filepath.Join(d.path, stream, current, folderOf(table), "*"+suffix)
}

// The method usable() checks that the file system supports symbolic links. Without this check, a commit would do all
// its work and fail at the end.
func (d *directory) usable(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.linked {
		return nil
	}
	link := filepath.Join(path, tmpPrefix+randomName())
	if err := d.disk.Point(current, link); err != nil {
		return fmt.Errorf("the file system of %s has no symbolic links, which commits need: %w", path, err)
	}
	d.linked = true
	return os.Remove(link)
}

type dirStore struct {
	dir  *directory
	root string

	mu   sync.Mutex
	seen *manifest // the generation last read, with the cursor that was stored with it
}

func (s *dirStore) where() string { return s.root }

func (s *dirStore) path(m *manifest, t *table) string { return filepath.Join(m.dir, t.Folder) }

func (s *dirStore) costly() bool { return false }

func (s *dirStore) head(context.Context) (*manifest, error) {
	m, err := s.generation()
	if m == nil || err != nil {
		return nil, err
	}
	return s.moved(m)
}

// generation returns the manifest of the current generation, with the cursor that was stored in it. A later cursor
// may be stored beside the link: see [position].
func (s *dirStore) generation() (*manifest, error) {
	if err := unlinked(s.dir.path, s.root); err != nil {
		return nil, err
	}
	for {
		link := filepath.Join(s.root, current)
		target, err := os.Readlink(link)
		if gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", link, err)
		}
		sequence, ok := genNumber(target)
		if !ok {
			return nil, fmt.Errorf("%s links to %q, which is not a generation", link, target)
		}
		s.mu.Lock()
		known := s.seen
		s.mu.Unlock()
		if known != nil && known.Sequence == sequence {
			return known, nil
		}
		m, err := s.read(filepath.Join(s.root, target))
		if gone(err) {
			if now, _ := os.Readlink(link); now != target {
				continue // it was removed after the link was read
			}
		}
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.seen = m
		s.mu.Unlock()
		return m, nil
	}
}

func (s *dirStore) read(gen string) (*manifest, error) {
	if err := unlinked(s.dir.path, filepath.Join(gen, manifestName)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(gen, manifestName))
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(gen, manifestName), err)
	}
	if err := m.prepare(); err != nil {
		return nil, fmt.Errorf("read %s: %w", gen, err)
	}
	for _, t := range m.Tables {
		for _, f := range m.files(t) {
			if name := filepath.Join(t.Folder, f.Name); !filepath.IsLocal(name) || !filepath.IsLocal(t.Folder) {
				return nil, fmt.Errorf("read %s: it names the file %q, which is outside of the folder", gen, name)
			}
		}
	}
	m.dir = gen
	m.locate(s, func(t *table) string { return filepath.Join(gen, t.Folder) })
	return m, nil
}

// The method hold() locks the folder until the lock is released or the process exits. A suspended process keeps the
// lock.
// Invariant 13
func (s *dirStore) hold(ctx context.Context) (func() error, error) {
	for _, step := range []func() error{
		func() error { return unlinked(s.dir.path, s.root) }, // checked first, so that nothing is created behind a link
		func() error { return s.dir.disk.MakeAll(s.root) },
		func() error { return unlinked(s.dir.path, filepath.Join(s.root, lockName)) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	lock, err := state.Acquire(ctx, filepath.Join(s.root, lockName), max(0, s.dir.waitLock))
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

// tidy removes outdated generations, and what interrupted commits have left. The caller must hold the lock.
func (s *dirStore) tidy(_ context.Context, m *manifest) error {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return err
	}
	if m == nil {
		if err := orphaned(s.root, entries); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if leftover(e.Name(), m) {
			if err := discard(filepath.Join(s.root, e.Name())); err != nil {
				return fmt.Errorf("tidy up: %w", err)
			}
		}
	}
	return nil
}

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

// orphaned returns an error if the folder has lost its link. In a folder without a link, the first generation is no
// error, because a first commit that was interrupted leaves it. Any later generation is an error.
func orphaned(path string, entries []os.DirEntry) error {
	for _, e := range entries {
		if sequence, ok := genNumber(e.Name()); ok && sequence > 1 {
			return &load.ForeignChange{Table: filepath.Base(path), Diff: []string{fmt.Sprintf(
				"the link %s is missing: point it at the latest generation again, or remove the folder to load the stream again", filepath.Join(path, current))}}
		}
	}
	return nil
}

// discard removes a folder. It first renames the folder, so that no reader finds half of it.
func discard(path string) error {
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

func (s *dirStore) clean(ctx context.Context, m *manifest) error {
	if dirty, err := s.dirty(m); err != nil || !dirty {
		return err
	}
	lock, err := state.Acquire(ctx, filepath.Join(s.root, lockName), 0)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	if m, err = s.head(ctx); err == nil {
		err = s.tidy(ctx, m)
	}
	return errors.Join(err, lock.Release())
}

func (s *dirStore) dirty(m *manifest) (bool, error) {
	if err := unlinked(s.dir.path, filepath.Join(s.root, lockName)); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(s.root)
	for _, e := range entries {
		if leftover(e.Name(), m) {
			return true, nil
		}
	}
	return false, err
}

func (s *dirStore) live(_ context.Context, m *manifest, t *table) (map[string]int64, error) {
	dir := filepath.Join(m.dir, t.Folder)
	live := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if e.Type()&fs.ModeSymlink != 0 {
			return &linkInside{path}
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		live[name] = info.Size()
		return err
	})
	if gone(err) {
		if _, err := os.Lstat(dir); gone(err) {
			return nil, nil
		}
		return live, nil
	}
	return live, err
}

func (s *dirStore) open(_ context.Context, f *file) (input, error) {
	if err := unlinked(s.dir.path, f.path()); err != nil {
		return nil, err
	}
	name, err := filepath.Rel(s.dir.path, f.path())
	if err != nil {
		return nil, err
	}
	return os.OpenInRoot(s.dir.path, name) // even if a link is created meanwhile, the file is opened inside the lake
}

// linkInside is the error for a symbolic link inside a lake. Penstock does not follow such links. Otherwise users
// with write access to the lake could make penstock read or write files of other users.
type linkInside struct{ path string }

// Error says what to do if the link was created on purpose.
func (e *linkInside) Error() string {
	return fmt.Sprintf("%s is a symbolic link, which is not followed inside a lake: "+
		"replace the link by its target, or mount the target there; only the lake's own folder may be a link", e.path)
}

// The function unlinked() returns a [linkInside] if a part of path below root is a symbolic link. Parts that do not
// exist are accepted. Penstock reads the target of the link to the current generation, but never opens files through
// this link.
func unlinked(root, path string) error {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		root = filepath.Join(root, part)
		info, err := os.Lstat(root)
		if err != nil {
			return ignoreGone(err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return &linkInside{root}
		}
	}
	return nil
}
