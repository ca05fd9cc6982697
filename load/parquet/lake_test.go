//go:build unix

package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type linksToo struct {
	fs.FS
	root string
}

func (l linksToo) ReadLink(name string) (string, error) {
	return os.Readlink(filepath.Join(l.root, name))
}

func (l linksToo) Lstat(name string) (fs.FileInfo, error) {
	return os.Lstat(filepath.Join(l.root, name))
}

func TestUnchanged(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	at := must(t, l, 1, "", before...)
	stats := func() map[string]string {
		out := map[string]string{}
		all, err := l.Files(t.Context())
		require.NoError(t, err)
		for _, table := range []string{leads.Name, tasks.Name, load.Changes.Name} {
			for _, path := range all[table] {
				info, err := os.Stat(path)
				require.NoError(t, err)
				out[filepath.Base(path)] = fmt.Sprint(inode(t, path), info.ModTime(), info.Size())
			}
		}
		require.Len(t, out, 3)
		return out
	}
	was := stats()
	for n := range 5 {
		at = must(t, l, 2+n, at, before...)
		require.Equal(t, was, stats())
	}
}

func TestUntouchedSegments(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	at := must(t, l, 1, "", before...)
	at = must(t, l, 2, at, append(before[:3:3], lead{id: 4, name: "dan"}, lead{id: 5, name: "eve"})...)
	first, err := l.Files(t.Context())
	require.NoError(t, err)
	require.Len(t, first[leads.Name], 2)
	must(t, l, 3, at, append(before[:3:3], lead{id: 4, name: "dora"}, lead{id: 5, name: "eve"})...)
	second, err := l.Files(t.Context())
	require.NoError(t, err)
	require.Len(t, second[leads.Name], 2)
	same := func(a, b string) bool { return inode(t, a) == inode(t, b) }
	require.True(t, same(first[leads.Name][0], second[leads.Name][0]))
	require.False(t, same(first[leads.Name][1], second[leads.Name][1]))
}

func TestFewFiles(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{KeepFor: -1})
	l.disk.Sync = func(*os.File) error { return nil }
	var at state.Cursor
	var records []lead
	for n := range 100 {
		records = append(records, lead{id: n, name: fmt.Sprint("n", n)})
		at = must(t, l, n+1, at, records...)
	}
	require.Equal(t, wanted(records...), names(t, l))
	all, err := l.Files(t.Context())
	require.NoError(t, err)
	require.Less(t, len(all[leads.Name]), 24)
	require.Less(t, len(entries(t, l)), 6, "outdated generations are removed")
	must(t, l, 200, at, records[50:]...)
	require.Equal(t, wanted(records[50:]...), names(t, l))
}

func TestRetention(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{Keep: 2, KeepFor: time.Hour})
	at := must(t, l, 1, "", before...)
	for n := range 5 {
		at = must(t, l, 2+n, at, after[n%2:]...)
	}
	require.Len(t, entries(t, l), 7, "the outdated generations are too recent to be removed")
	l.o.KeepFor = -1
	at = must(t, l, 7, at, before...)
	require.Equal(t, []string{current, genName(6), genName(7)}, entries(t, l))

	path, err := l.Path(t.Context(), leads.Name)
	require.NoError(t, err)
	files, err := os.ReadDir(path)
	require.NoError(t, err)
	held, err := os.Open(filepath.Join(path, files[0].Name()))
	require.NoError(t, err)
	defer held.Close()
	for n := range 3 {
		at = must(t, l, 8+n, at, after[n%2:]...)
	}
	_, err = os.Stat(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	magic := make([]byte, 4)
	_, err = held.ReadAt(magic, 0)
	require.NoError(t, err, "a reader that has a file open can finish")
	require.Equal(t, "PAR1", string(magic))
}

type outside struct{ streamStore }

func (outside) open(_ context.Context, f *file) (input, error) { return os.Open(f.path()) }

// A reader that resolves the link first sees whole generations. A reader that uses the link sees one generation, or
// misses a file.
func TestReaders(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	l.disk.Sync = func(*os.File) error { return nil }
	records := func(n int) (out []lead) {
		for i := range 50 {
			out = append(out, lead{id: i, name: fmt.Sprint("v", n, ".", i)})
		}
		return out
	}
	at := must(t, l, 1, "", records(1)...)
	var reads, missed atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	read := func(paths []string) (batches map[string]int, err error) {
		batches = map[string]int{}
		m, _ := l.folder(stream).manifest(t.Context())
		for _, path := range paths {
			f := &file{Name: filepath.Base(path), store: outside{m.store}, dir: filepath.Dir(path), Rows: 50}
			err = errors.Join(err, f.read(t.Context(), m.table(leads.Name), []string{"batch"}, func(_ int64, c []arrow.Array, rows int) error {
				for i := range rows {
					batches[c[0].ValueStr(i)]++
				}
				return nil
			}))
		}
		return batches, err
	}
	for _, resolved := range []bool{true, false} {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				dir := filepath.Join(l.o.Path, "crm.leads", current, leads.Name)
				if resolved {
					dir, _ = filepath.EvalSymlinks(dir)
				}
				paths, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
				batches, err := read(paths)
				reads.Add(1)
				if err != nil || len(paths) == 0 {
					if resolved || err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("read of %s: %v", dir, err)
					}
					missed.Add(1)
					continue
				}
				if len(batches) != 1 {
					t.Errorf("a reader has seen half a commit in %s: %v", dir, batches)
				}
			}
		})
	}
	for n := range 60 {
		at = must(t, l, 2+n, at, records(2+n)...)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d reads; %d reads through the link failed because a file was missing", reads.Load(), missed.Load())
	require.Greater(t, reads.Load(), int64(50))
}

// A process is suspended between checkFence and the commit. No other process can commit meanwhile.
func TestStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lake")
	stopped, wake := make(chan struct{}), make(chan struct{})
	l := openLake(t, path, Options{})
	at := must(t, l, 1, "", before...)
	other := openLake(t, path, Options{WaitLock: -1})
	late, err := other.Begin(t.Context(), stream, at, load.Pass{Run: "run000000003", Whole: true})
	require.NoError(t, err)
	l.o.Step = func(name string) error {
		if name == "publish" {
			close(stopped)
			<-wake
		}
		return nil
	}
	done := make(chan error)
	go func() {
		_, err := put(t.Context(), t, l, 2, at, after...)
		done <- err
	}()
	<-stopped
	_, err = put(t.Context(), t, other, 4, at, before...)
	require.ErrorIs(t, err, state.ErrLocked)
	close(wake)
	require.NoError(t, <-done)
	require.Equal(t, wanted(after...), names(t, other))
	require.ErrorIs(t, late.Commit(t.Context(), "late"), state.ErrMoved)
	require.Equal(t, wanted(after...), names(t, other))
}

func TestTwoPipelines(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	must(t, l, 1, "", before...)
	other := state.Key{Pipeline: "hourly", Stream: stream.Stream}
	_, err := l.Begin(t.Context(), other, "", load.Pass{Run: "r"})
	require.ErrorContains(t, err, `belongs to stream crm.leads of pipeline nightly`)
	for _, pipeline := range []string{"nightly", "hourly"} {
		x, err := l.Begin(t.Context(), state.Key{Pipeline: pipeline, Stream: "_run"}, "", load.Pass{Run: "r", Whole: true})
		require.NoError(t, err)
		require.NoError(t, x.Commit(t.Context(), "c"))
	}
	require.Len(t, scanned(t, l, load.State.Name), 3)
	x, err := l.Begin(t.Context(), state.Key{Pipeline: "hourly", Stream: "crm.others"}, "", load.Pass{Run: "r", Whole: true})
	require.NoError(t, err)
	defer x.Rollback()
	b, err := load.Rows(schemas.Table{Columns: arrow.NewSchema(leads.Columns.Fields()[:1], nil)}, []any{1})
	require.NoError(t, err)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), leads, b))
	_, err = x.Apply(t.Context(), load.Sweep{})
	require.ErrorContains(t, err, "table crm_leads belongs to stream crm.leads")
}

func TestForeignChange(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, folder string)
		diff   string
		accept string
	}{
		"file removed": {func(t *testing.T, folder string) {
			files, _ := filepath.Glob(filepath.Join(folder, "*"))
			require.NoError(t, os.Remove(files[0]))
		}, "is missing", ""},
		"file added": {func(t *testing.T, folder string) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "mine.parquet"), []byte("x"), 0o644))
		}, "the file mine.parquet was not written by penstock", "move mine.parquet out"},
		"file changed": {func(t *testing.T, folder string) {
			files, _ := filepath.Glob(filepath.Join(folder, "*"))
			require.NoError(t, os.WriteFile(files[0]+".new", []byte("no parquet"), 0o644))
			require.NoError(t, os.Rename(files[0]+".new", files[0]))
		}, "was changed", "parquet"},
	} {
		for _, table := range []string{leads.Name, tasks.Name} {
			t.Run(name+" of "+table, func(t *testing.T) {
				l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
				at := must(t, l, 1, "", before...)
				folder, err := l.Path(t.Context(), table)
				require.NoError(t, err)
				c.change(t, folder)
				_, err = put(t.Context(), t, l, 2, at, before...)
				require.ErrorIs(t, err, load.ErrForeignChange)
				require.ErrorContains(t, err, c.diff)
				changes, err := l.Accept(t.Context(), table)
				if c.accept != "" {
					require.ErrorContains(t, err, c.accept)
					return
				}
				require.NoError(t, err)
				require.Len(t, changes, 1)
				must(t, l, 2, at, before...)
				require.Equal(t, wanted(before...), names(t, l))
			})
		}
	}
}

func TestDropped(t *testing.T) {
	for _, table := range []string{leads.Name, tasks.Name, load.Changes.Name} {
		t.Run(table, func(t *testing.T) {
			l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
			at := must(t, l, 1, "", before...)
			folder, err := l.Path(t.Context(), leads.Name)
			require.NoError(t, err)
			require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(folder), table)))
			at = must(t, l, 2, at, before...)
			require.Equal(t, wanted(before...), names(t, l))
			must(t, l, 3, at, after...)
			require.Equal(t, wanted(after...), names(t, l))
		})
	}
}

func TestPartitions(t *testing.T) {
	for spec, want := range map[string][]string{
		"on":       {"on_day=2026-01-05", "on_day=2026-02-01", "on_day=__HIVE_DEFAULT_PARTITION__"},
		"on:month": {"on_month=2026-01", "on_month=2026-02", "on_month=__HIVE_DEFAULT_PARTITION__"},
	} {
		t.Run(spec, func(t *testing.T) {
			by, err := partition.Parse(spec)
			require.NoError(t, err)
			l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{PartitionBy: by})
			at := must(t, l, 1, "", before...)
			require.Equal(t, want, entries(t, l, current, leads.Name))
			at = must(t, l, 2, at, after...)
			require.Equal(t, wanted(after...), names(t, l))
			at = must(t, l, 3, at, []lead{{1, "ann", "2026-01-05"}, {2, "bea", ""}, {4, "dan", "2026-03-02"}}...)
			must(t, l, 4, at, []lead{{1, "ann", "2026-01-05"}, {2, "bo", "2026-01-06"}, {4, "dan", "2026-03-02"}}...)
			require.Equal(t, wanted(lead{id: 1, name: "ann"}, lead{id: 2, name: "bo"}, lead{id: 4, name: "dan"}), names(t, l))
			m, err := l.folder(stream).manifest(t.Context())
			require.NoError(t, err)
			for _, s := range m.segmentsOf(leads.Name) {
				require.Equal(t, s.Part, filepath.Dir(s.root().Name))
			}
		})
	}
}

func TestPartitionsAtRandom(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{PartitionBy: partition.Spec{Column: "on", Transform: partition.Month}})
	l.disk.Sync = func(*os.File) error { return nil }
	r := rand.New(rand.NewPCG(1, 0))
	var at state.Cursor
	for n := range 40 {
		var records []lead
		for id := range 8 {
			if k := r.IntN(5); k < 4 {
				records = append(records, lead{id, string(rune('a' + k)), []string{"2026-01-05", "2026-01-06", "2026-02-01", ""}[k]})
			}
		}
		at = must(t, l, n+1, at, records...)
		require.Equal(t, wanted(records...), names(t, l), "commit %d", n+1)
	}
}

func TestFolderOf(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{
		"", ".", "..", "crm.leads", "crm_leads", "a/b", "a%2Fb", "%", "*", "?", "[x]", "a b", "é", "e\u0301", "🦊", "\x00", "A", "con:",
		strings.Repeat("x", 300), strings.Repeat("x", 301), "_manifest.json",
	} {
		f := folderOf(name)
		require.NotContains(t, seen, f, "%q and %q", seen[f], name)
		seen[f] = name
		require.Equal(t, filepath.Base(f), f)
		require.NotContains(t, []string{".", "..", ""}, f)
		require.LessOrEqual(t, len(f), 255)
		require.Empty(t, strings.Trim(f, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.%"))
	}
}

func TestPath(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	_, err := l.Path(t.Context(), leads.Name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	must(t, l, 1, "", before...)
	path, err := l.Path(t.Context(), leads.Name)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(l.o.Path, "crm.leads", genName(1), "crm_leads"), path)
	pattern, err := l.Path(t.Context(), load.State.Name)
	require.NoError(t, err)
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.Len(t, files, 1)
}
