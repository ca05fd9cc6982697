//go:build unix

package parquet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
)

// After the n-th sync has failed, its file is never synced again, and the next attempt succeeds.
func TestSyncFails(t *testing.T) {
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "lake")
		l := openLake(t, path, Options{})
		at := must(t, l, 1, "", before...)
		count := 0
		var failed *os.File
		l.disk.Sync = func(f *os.File) error {
			require.NotSame(t, failed, f, "a file is synced again after its sync has failed")
			if count++; count == n {
				failed = f
				return syscall.EIO
			}
			return f.Sync()
		}
		_, err := put(t.Context(), t, l, 2, at, after...)
		if err == nil {
			require.Less(t, count, n)
			require.Greater(t, n, 8)
			return
		}
		require.ErrorIs(t, err, syscall.EIO)
		l.disk.Sync = nil
		now, err := l.Cursor(t.Context(), stream)
		require.NoError(t, err)
		if now == at { // the cursor has not moved, so the sync failed before the commit
			require.Equal(t, wanted(before...), names(t, l))
			must(t, l, 2, at, after...)
		}
		require.Equal(t, wanted(after...), names(t, l), "sync %d", n)
		require.NoError(t, l.Close())
	}
}

func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, 0) })
	made, refused := 0, 0
	for free := 0; free <= 96<<10; free += 4 << 10 {
		root := filepath.Join(path, fmt.Sprint("lake", free))
		l := openLake(t, root, Options{TempDir: os.TempDir()})
		at := must(t, l, 1, "", before...)
		filler := filepath.Join(path, "filler")
		fillBut(t, filler, path, free)
		_, err := put(t.Context(), t, l, 2, at, after...)
		require.NoError(t, os.Remove(filler))
		if err == nil {
			made++
		} else {
			refused++
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.Equal(t, wanted(before...), names(t, l))
			require.Equal(t, []string{current, genName(1)}, entriesButTrash(t, l), "nothing is left behind")
			must(t, l, 2, at, after...)
		}
		require.Equal(t, wanted(after...), names(t, l))
		require.NoError(t, l.Close())
		require.NoError(t, os.RemoveAll(root))
	}
	require.Positive(t, made)
	require.Greater(t, refused, 5)
}

func entriesButTrash(t *testing.T, l *Lake) (out []string) {
	for _, e := range entries(t, l) {
		if e == current || e[:4] == genPrefix {
			out = append(out, e)
		}
	}
	return out
}

func fillBut(t *testing.T, name, path string, free int) {
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(path, &s))
	f, err := os.Create(name)
	require.NoError(t, err)
	n := int64(s.Bavail)*int64(s.Bsize) - int64(free) //nolint:unconvert // 32 bits on macOS
	if n > 0 {
		_, err = f.Write(make([]byte, n))
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}

// platter models the disk after a power cut. Files that were synced have their contents. A folder has the entries of
// its last sync. For each entry that has changed since then, the folder may have the old entry or the new entry.
type platter struct {
	root    string
	synced  map[uint64]bool
	entries map[uint64]map[string]string
}

func inode(t testing.TB, path string) uint64 {
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Ino
}

func list(t testing.TB, dir string) map[string]string {
	out := map[string]string{}
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range all {
		out[e.Name()] = filepath.Join(dir, e.Name())
	}
	return out
}

func (p *platter) sync(t testing.TB, f *os.File) {
	info, err := f.Stat()
	require.NoError(t, err)
	ino := info.Sys().(*syscall.Stat_t).Ino
	if !info.IsDir() {
		p.synced[ino] = true
		return
	}
	p.entries[ino] = map[string]string{}
	for name, path := range list(t, f.Name()) {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		what := fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino)
		if info.Mode()&os.ModeSymlink != 0 {
			what, err = os.Readlink(path)
			require.NoError(t, err)
			what = "->" + what
		}
		p.entries[ino][name] = what
	}
}

func (p *platter) crash(t testing.TB, to string) {
	paths := map[string]string{}
	require.NoError(t, filepath.WalkDir(p.root, func(path string, e os.DirEntry, err error) error {
		paths[fmt.Sprint(inode(t, path))] = path
		return err
	}))
	p.rebuild(t, p.root, to, paths)
}

func (p *platter) rebuild(t testing.TB, dir, to string, paths map[string]string) {
	require.NoError(t, os.MkdirAll(to, 0o755))
	was := p.entries[inode(t, dir)]
	now := map[string]string{}
	for name, path := range list(t, dir) {
		if target, err := os.Readlink(path); err == nil {
			now[name] = "->" + target
		} else {
			now[name] = fmt.Sprint(inode(t, path))
		}
	}
	names := map[string]bool{}
	for n := range was {
		names[n] = true
	}
	for n := range now {
		names[n] = true
	}
	for name := range names {
		what, ok := was[name]
		if rand.IntN(2) == 0 {
			what, ok = now[name], now[name] != ""
		}
		if ok {
			p.restore(t, what, filepath.Join(to, name), paths)
		}
	}
}

func (p *platter) restore(t testing.TB, what, to string, paths map[string]string) {
	if what[0] == '-' {
		require.NoError(t, os.Symlink(what[2:], to))
		return
	}
	path := paths[what]
	if path == "" {
		return // removed in the meantime: its blocks are lost
	}
	info, err := os.Lstat(path)
	require.NoError(t, err)
	switch {
	case info.IsDir():
		p.rebuild(t, path, to, paths)
	case p.synced[inode(t, path)]:
		require.NoError(t, os.Link(path, to))
	default:
		require.NoError(t, os.WriteFile(to, nil, 0o644))
	}
}

// After a power cut at any sync, the lake has the state before or after the commit, and the next pass succeeds.
func TestPowerCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lake")
	l := openLake(t, path, Options{KeepFor: -1})
	p := &platter{root: path, synced: map[uint64]bool{}, entries: map[uint64]map[string]string{}}
	states, stage := 0, 0
	trials := 40 // about 1,500 combinations of writes that reached the disk
	if testing.Short() {
		trials = 4
	}
	var one sync.Mutex // several files are written at the same time
	l.disk.Sync = func(f *os.File) error {
		one.Lock()
		defer one.Unlock()
		for range trials {
			p.check(t, stage, filepath.Join(t.TempDir(), "left"))
			states++
		}
		p.sync(t, f)
		return nil
	}
	at := must(t, l, 1, "", before...)
	stage = 1
	at = must(t, l, 2, at, after...)
	stage = 2
	for i := range 3 {
		at = must(t, l, 3+i, at, after...)
	}
	for range trials {
		p.check(t, stage, filepath.Join(t.TempDir(), "left"))
	}
	t.Logf("%d states", states)
}

func (p *platter) check(t *testing.T, stage int, left string) {
	if _, err := os.Lstat(p.root); err != nil {
		return
	}
	p.crash(t, left)
	l, err := Open(t.Context(), Options{Path: left})
	require.NoError(t, err)
	defer l.Close()
	l.disk.Sync = func(*os.File) error { return nil }
	at, err := l.Cursor(t.Context(), stream)
	require.NoError(t, err)
	contents := []map[string]bool{{}, wanted(before...), wanted(after...)}
	require.Contains(t, contents[stage:min(len(contents), stage+2)], names(t, l))
	_, err = put(t.Context(), t, l, 99, at, after...)
	require.NoError(t, err)
	require.Equal(t, contents[2], names(t, l))
	require.NoError(t, os.RemoveAll(left))
}

// A killed process leaves the lake as it is at some step. So a copy of the lake is checked at each named step.
func TestKilledAtEveryStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lake")
	steps := 0
	var check func(name string) error
	l := openLake(t, path, Options{Step: func(name string) error { return check(name) }})
	check = func(string) error { return nil }
	at := must(t, l, 1, "", before...)
	check = func(name string) error {
		steps++
		left := filepath.Join(t.TempDir(), "left")
		require.NoError(t, os.CopyFS(left, linksToo{os.DirFS(path), path}))
		k := openLake(t, left, Options{})
		require.Contains(t, []map[string]bool{wanted(before...), wanted(after...)}, names(t, k), name)
		for _, e := range entries(t, k) {
			require.NotContains(t, e, tmpPrefix, "left over at step %s", name)
		}
		now, err := k.Cursor(t.Context(), stream)
		require.NoError(t, err)
		must(t, k, 3, now, after...)
		require.Equal(t, wanted(after...), names(t, k), name)
		return nil
	}
	must(t, l, 2, at, after...)
	check = func(string) error { return nil }
	require.Greater(t, steps, 9)
}

func TestNoHardLinks(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	l.disk.Link = func(string, string) error { return &os.LinkError{Op: "link", Err: syscall.EPERM} }
	at := must(t, l, 1, "", before...)
	at = must(t, l, 2, at, before...)
	must(t, l, 3, at, after...)
	require.Equal(t, wanted(after...), names(t, l))
}

func TestNoSymbolicLinks(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	l.disk.Symlink = func(string, string) error { return syscall.EPERM }
	_, err := put(t.Context(), t, l, 1, "", before...)
	require.ErrorContains(t, err, "has no symbolic links, which commits need")
	require.Empty(t, names(t, l))
}

func TestLinkRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lake")
	l := openLake(t, path, Options{})
	at := must(t, l, 1, "", before...)
	must(t, l, 2, at, after...)
	require.NoError(t, os.Remove(filepath.Join(path, "crm.leads", current)))
	_, err := put(t.Context(), t, l, 3, "", before...)
	require.ErrorIs(t, err, load.ErrForeignChange)
	require.ErrorContains(t, err, "point it at the latest generation")
	require.Contains(t, entries(t, l), genName(2), "nothing was removed")
	require.NoError(t, os.Symlink(genName(2), filepath.Join(path, "crm.leads", current)))
	require.Equal(t, wanted(after...), names(t, l))
}
