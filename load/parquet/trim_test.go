//go:build unix

package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// putOwn commits rows of an internal table.
func putOwn(t testing.TB, l *Lake, k state.Key, table schemas.Table, rows ...[]any) {
	t.Helper()
	at, err := l.Cursor(t.Context(), k)
	require.NoError(t, err)
	pass := load.Pass{Run: "run", Now: func() time.Time { return noon }}
	require.NoError(t, load.CommitRows(t.Context(), l, k, at, at+".", pass, table, rows...))
}

func certificate(run, stream string, at time.Time) []any {
	return []any{run, "nightly", stream, at, "proven", `{}`, 1, 1, 0, 1, 0, 0, 0, 1, 1}
}

func reject(id string, resolved time.Time) []any {
	return []any{"r1", "nightly", "a", 1, 0, "", noon, id, "", "1", "no", true, resolved, id, "load", nil}
}

// trimmed removes rows that are older than the n-th day after noon.
func trimmed(t testing.TB, l *Lake, n int) (load.Trimmed, error) {
	t.Helper()
	before := noon.AddDate(0, 0, n)
	return l.Trim(t.Context(), load.Retention{Pipeline: "nightly", Source: "acme", Tables: []string{leads.Name}, Before: before, EventsBefore: before, Now: before.AddDate(1, 0, 0)})
}

// valuesOf returns the values of a column, sorted.
func valuesOf(t testing.TB, l *Lake, table, column string) (out []string) {
	t.Helper()
	for _, r := range scanned(t, l, table) {
		out = append(out, r[column])
	}
	slices.Sort(out)
	return out
}

// filesOf returns the inode of each current file of the lake, by table and name.
func filesOf(t testing.TB, l *Lake) map[string]uint64 {
	t.Helper()
	all, err := l.Files(t.Context())
	require.NoError(t, err)
	out := map[string]uint64{}
	for table, files := range all {
		for _, path := range files {
			out[table+"/"+filepath.Base(path)] = inode(t, path)
		}
	}
	return out
}

// Trim writes only the files again that have old rows. If no row is old enough, it opens no file and makes no
// generation. Readers of the earlier generation can finish.
func TestTrimWritesFewFiles(t *testing.T) {
	steps := 0
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{Keep: 1, Step: func(string) error { steps++; return nil }})
	must(t, l, 1, "", before...)
	old, young := noon.Add(-time.Hour), noon.AddDate(0, 0, 9)
	putOwn(t, l, stream, load.Certificates, certificate("r1", "a", old), certificate("r2", "a", young))
	putOwn(t, l, stream, load.Certificates, certificate("r3", "a", young))
	putOwn(t, l, stream, load.Rejects, reject("1", old), reject("2", old))
	was, path := filesOf(t, l), filepath.Join(l.o.Path, "crm.leads")
	generation, err := os.Readlink(filepath.Join(path, current))
	require.NoError(t, err)

	n, err := trimmed(t, l, 0)
	require.NoError(t, err)
	require.Equal(t, load.Trimmed{Certificates: 1, Rejects: 2}, n)
	require.Equal(t, []string{"r2", "r3"}, valuesOf(t, l, load.Certificates.Name, "run"))
	require.Empty(t, valuesOf(t, l, load.Rejects.Name, "record_id"))
	require.Equal(t, wanted(before...), names(t, l))
	now, fresh := filesOf(t, l), map[string]int{}
	for name, file := range now {
		if was[name] != file {
			fresh[filepath.Dir(name)]++
		}
	}
	require.Equal(t, map[string]int{load.Certificates.Name: 1, load.Rejects.Name: 1, load.State.Name: 1}, fresh)
	for name := range was {
		at := filepath.Join(path, generation, name)
		require.FileExists(t, at, "the earlier generation stays complete")
	}

	steps = 0
	all, err := l.Files(t.Context())
	require.NoError(t, err)
	for _, f := range all[load.Certificates.Name] {
		require.NoError(t, os.Rename(f, f+".away"))
	}
	n, err = trimmed(t, l, 1)
	require.NoError(t, err, "no file is opened")
	require.Zero(t, n)
	require.Zero(t, steps)
	for _, f := range all[load.Certificates.Name] {
		require.NoError(t, os.Rename(f+".away", f))
	}
	foreign := filepath.Join(filepath.Dir(all[leads.Name][0]), "foreign.parquet")
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	_, err = trimmed(t, l, 10)
	require.ErrorIs(t, err, load.ErrForeignChange, "a change by hand is not hidden")
	require.NoError(t, os.Remove(foreign))
	require.Equal(t, now, filesOf(t, l), "no generation was made")
	n, err = trimmed(t, l, 10)
	require.NoError(t, err, "a removal that has failed is tried again on the same day")
	require.Equal(t, load.Trimmed{Certificates: 1}, n)
}

// The runs and the certificates of a pipeline, and the events of a source, have folders of their own. A run stays as
// long as any stream has its newest certificate from this run. Streams of other pipelines stay as they are.
func TestTrimFolders(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	old := noon.Add(-time.Hour)
	tasks := state.Key{Pipeline: "nightly", Stream: "crm.tasks"}
	for _, run := range []string{"r1", "r2", "r3"} {
		putOwn(t, l, state.Key{Pipeline: "nightly", Stream: "_runs"}, load.Runs, []any{run, "nightly", old, old, "complete", `{}`, nil})
		putOwn(t, l, state.Key{Pipeline: "hourly", Stream: "_runs"}, load.Runs, []any{run, "hourly", old, old, "complete", `{}`, nil})
	}
	putOwn(t, l, tasks, load.Certificates, certificate("r1", "crm.tasks", old))
	putOwn(t, l, stream, load.Certificates, certificate("r2", "crm.leads", old), certificate("r3", "crm.leads", old))
	for _, source := range []string{"acme", "globex"} {
		putOwn(t, l, state.Key{Pipeline: source, Stream: "_events"}, load.Events, []any{source, 1, "e", "lead.updated", old, "hmac", "mapped", `[]`, `{}`, nil})
	}
	n, err := trimmed(t, l, 0)
	require.NoError(t, err)
	require.Equal(t, load.Trimmed{Runs: 1, Certificates: 1, Events: 1}, n)
	require.Equal(t, []string{"r1", "r1", "r2", "r3", "r3"}, valuesOf(t, l, load.Runs.Name, "run"))
	require.Equal(t, []string{"r1", "r3"}, valuesOf(t, l, load.Certificates.Name, "run"))
	require.Equal(t, []string{"globex"}, valuesOf(t, l, load.Events.Name, "source"))
	require.NotContains(t, entries(t, l, "..", "crm.tasks"), genName(2), "the newest certificate is the only one")
}

// A process that is killed while it removes old rows leaves either all of a stream's rows or none of the old ones. The
// rows and the cursor of the stream stay, and a further removal succeeds.
func TestTrimKilledAtEveryStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lake")
	steps := 0
	check := func(string) error { return nil }
	l := openLake(t, path, Options{Step: func(name string) error { return check(name) }})
	must(t, l, 1, "", before...)
	old := noon.Add(-time.Hour)
	putOwn(t, l, stream, load.Certificates, certificate("r1", "a", old), certificate("r2", "a", old))
	at, err := l.Cursor(t.Context(), stream)
	require.NoError(t, err)
	check = func(name string) error {
		steps++
		left := filepath.Join(t.TempDir(), "left")
		require.NoError(t, os.CopyFS(left, linksToo{os.DirFS(path), path}))
		k := openLake(t, left, Options{})
		require.Contains(t, [][]string{{"r1", "r2"}, {"r2"}}, valuesOf(t, k, load.Certificates.Name, "run"), name)
		for _, e := range entries(t, k) {
			require.NotContains(t, e, tmpPrefix, "left over at step %s", name)
		}
		_, err := trimmed(t, k, 0)
		require.NoError(t, err)
		require.Equal(t, []string{"r2"}, valuesOf(t, k, load.Certificates.Name, "run"), name)
		require.Equal(t, wanted(before...), names(t, k), name)
		now, err := k.Cursor(t.Context(), stream)
		require.NoError(t, err)
		require.Equal(t, at, now)
		must(t, k, 3, now, after...)
		require.Equal(t, wanted(after...), names(t, k), name)
		return nil
	}
	_, err = trimmed(t, l, 0)
	require.NoError(t, err)
	check = func(string) error { return nil }
	require.Greater(t, steps, 6)
}

// BenchmarkTrim measures a removal of old rows in a lake of 149 streams. Each stream has 400 certificates in 8 files.
func BenchmarkTrim(b *testing.B) {
	l := openLake(b, filepath.Join(b.TempDir(), "lake"), Options{KeepFor: -1})
	const streams, days = 149, 400
	for s := range streams {
		k := state.Key{Pipeline: "nightly", Stream: fmt.Sprint("crm.s", s)}
		for from := 0; from < days; from += 50 {
			var rows [][]any
			for day := from; day < from+50; day++ {
				rows = append(rows, certificate(fmt.Sprintf("r%03d", day), k.Stream, noon.AddDate(0, 0, day).Add(time.Hour)))
			}
			putOwn(b, l, k, load.Certificates, rows...)
		}
	}
	for _, c := range []struct {
		name    string
		days    int
		removed int64
	}{{"nothing is old", 0, 0}, {"one row per stream is old", 1, streams}} {
		day := 0
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				day += c.days
				l.trims = load.TrimDays{}
				n, err := trimmed(b, l, day)
				require.NoError(b, err)
				require.Equal(b, c.removed, n.Certificates)
			}
		})
	}
}
