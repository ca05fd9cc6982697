//go:build cgo && duckdb_arrow

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// plenty is a disk size, in bytes, that is enough for every test in this file.
const plenty = 1 << 30

// diskTarget is a target on its own disk. The size of the disk can be changed.
type diskTarget struct {
	target
	disk string // mount point
}

func onDisk(t *testing.T, to target) diskTarget {
	t.Helper()
	if _, ok := to.(*bucketTarget); ok {
		t.Skip("a bucket is never full")
	}
	if _, ok := to.(mysqlTarget); ok {
		t.Skip("a MySQL server ends when its disk is full")
	}
	if !mayMount() {
		t.Skip("mounting a small disk is not allowed here")
	}
	d := diskTarget{target: to}
	switch to := to.(type) {
	case duckTarget:
		d.disk = to.dir
	case sqliteTarget:
		d.disk = to.dir
	case parquetTarget:
		d.disk = to.dir
	default:
		d.disk = openDir(t)
	}
	require.NoError(t, mount(d.disk, fmt.Sprint(plenty)))
	t.Cleanup(func() { _ = syscall.Unmount(d.disk, syscall.MNT_DETACH) })
	if to, ok := to.(postgresTarget); ok {
		d.target = newSpaceTarget(t, to, d.disk)
	}
	return d
}

// openDir returns a folder that other users can enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "penstock-disk-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (d diskTarget) used(t *testing.T) int64 {
	t.Helper()
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(d.disk, &s))
	return int64(s.Blocks-s.Bfree) * s.Bsize
}

// leave() resizes the disk. The disk then has the given number of free bytes.
func (d diskTarget) leave(t *testing.T, free int64) {
	t.Helper()
	size := max(1, d.used(t)+free) // 0 would mean no limit
	require.NoError(t, syscall.Mount("", d.disk, "", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)))
}

// open() opens the target, even on a full disk. A DuckDB file that does not exist counts as empty. SQLite and Postgres
// may have to write a file before a reader can connect. So open() first enlarges the disk for SQLite and Postgres.
func (d diskTarget) open(t *testing.T) *warehouse {
	t.Helper()
	switch to := d.target.(type) {
	case duckTarget:
		if _, err := os.Stat(to.path()); errors.Is(err, fs.ErrNotExist) {
			return newWarehouse(t, openMemory(t))
		}
	case sqliteTarget, spaceTarget:
		d.leave(t, plenty)
	}
	return d.target.open(t)
}

// spaceTarget is a Postgres database in a tablespace on the small disk. The server's log and other files are on
// another disk.
type spaceTarget struct{ postgresTarget }

func newSpaceTarget(t *testing.T, p postgresTarget, disk string) spaceTarget {
	t.Helper()
	if os.Getenv(pgtest.Env) != "" {
		t.Skipf("the disk of the server in %s cannot be changed", pgtest.Env)
	}
	info, err := os.Stat(p.server.Text("SHOW data_directory"))
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	require.NoError(t, os.Chown(disk, int(owner.Uid), int(owner.Gid)))
	p.server.Exec("CREATE TABLESPACE small LOCATION '" + disk + "'")
	return spaceTarget{p}
}

// reset resets the database, and moves its files to the small disk.
func (s spaceTarget) reset(t *testing.T, kept bool) {
	s.postgresTarget.reset(t, kept)
	s.server.Exec("ALTER DATABASE " + s.name + " SET TABLESPACE small")
	s.server.Exec("CHECKPOINT")
}

// version is what a reader sees of a record.
type version struct {
	hash string
	gone bool
}

// versions returns what a reader sees of a table's records, by key.
func (w *warehouse) versions(t *testing.T, table string) map[string]version {
	t.Helper()
	all := map[string]version{}
	if !w.exists(table) {
		return all
	}
	rows, err := w.db.Query("SELECT CAST(id AS VARCHAR), CAST(_penstock_hash AS VARCHAR), _penstock_deleted_at IS NOT NULL FROM " + quote(table))
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		var v version
		require.NoError(t, rows.Scan(&id, &v.hash, &v.gone))
		all[id] = v
	}
	require.NoError(t, rows.Err())
	return all
}

// seen has, for each root table of the list family, the versions of the table's records by key.
type seen map[string]map[string]version

func (r *crashRig) see(t *testing.T) seen {
	t.Helper()
	w := r.to.open(t)
	defer w.db.Close()
	s := seen{}
	for _, f := range family {
		s[f.root] = w.versions(t, f.root)
		if w.exists(f.root) && (f.child == "" || w.exists(f.child)) {
			require.Zero(t, w.count(t, broken(f.root, f.child)), "a reader saw half a commit of %s", f.root)
		}
	}
	return s
}

// inOrder returns the keys of the records of each root table in the list family. The keys are in the order in which a
// sync reads the records.
func (r *crashRig) inOrder(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{"sales_invoices": r.ids(t, "sales.invoices"), "v2_contacts": r.ids(t, "v2.contacts"), "crm_lead_board": r.ids(t, "crm.lead_board")}
}

// sighting is what a reader has seen at a point of the test.
type sighting struct {
	after string
	seen
}

// prefix checks that the tables have the changes of the first commits of a sync, and no changes of later commits. A
// record's old version is the version that a reader saw before the sync, in the argument `before`. Its new version is
// the version that a reader sees when the sync is complete, in the argument `last`. A sync reads the records of a
// stream in a fixed order. The first records in this order must have their new versions, and all later records their
// old versions. Rows may be deleted only if all records of the stream have their new versions. The result is true if,
// in some stream, only a part of the records has the new versions.
func (now sighting) prefix(t *testing.T, order map[string][]string, before, last seen) (half bool) {
	t.Helper()
	for table, ids := range order {
		done, left := 0, 0
		for _, id := range ids {
			was, has := before[table][id]
			is, sees := now.seen[table][id]
			switch want := last[table][id]; {
			case has && was == want:
				require.Equal(t, want, is, "after %s: %s %s", now.after, table, id)
			case sees && is == want:
				done++
				require.Zero(t, left, "after %s: %s %s has been written, but a record that is read earlier has not", now.after, table, id)
			default:
				left++
				require.Equal(t, has, sees, "after %s: %s %s", now.after, table, id)
				require.Equal(t, was, is, "after %s: %s %s", now.after, table, id)
			}
		}
		half = half || done > 0 && left > 0
		for id, is := range now.seen[table] {
			if was := before[table][id]; !slices.Contains(ids, id) {
				require.Equal(t, was.hash, is.hash, "after %s: %s %s", now.after, table, id)
				require.True(t, is.gone == was.gone || left == 0, "after %s: %s %s was deleted before the whole list was read", now.after, table, id)
			}
		}
	}
	return half
}

// TestCrashFullDisk repeats a sync on a disk that is too small, with a little more space each time. So the disk gets
// full at a later stage of the sync each time. Each sync reports the full disk, and readers see only whole commits.
// When there is enough space, the next run is complete. Invariants 1, 7
func TestCrashFullDisk(t *testing.T) {
	first, more := int64(0), func(free int64) int64 { return max(free+4<<10, free+free/10) }
	if *trials < 100 { // the short form
		first, more = 4<<10, func(free int64) int64 { return 64 * free }
	}
	crashing(t, func(t *testing.T, to target) {
		d := onDisk(t, to)
		r := newCrashRig(t, d, 3, fewStreams)
		order := r.inOrder(t)
		for _, kept := range []bool{false, true} {
			d.reset(t, kept)
			before := r.see(t)
			var all []sighting
			free, fits, again := first, false, 3
			for !fits {
				d.reset(t, kept)
				d.leave(t, free)
				what := fmt.Sprintf("%d KiB of free space, on a new warehouse: %v", free>>10, !kept)
				fits = r.syncFull(t, d, what, &all)
				if fits && len(all) == 1 && again > 0 { // a reader has merged DuckDB's log into the database file, which freed some space
					fits, all, again = false, nil, again-1
					continue
				}
				free = more(free)
			}
			half := 0
			for _, s := range all {
				if s.prefix(t, order, before, all[len(all)-1].seen) {
					half++
				}
			}
			require.Greater(t, len(all), 1, "the disk was never full")
			t.Logf("new warehouse %v: full at %d sizes, a stream was half written %d times, 0 violations", !kept, len(all)-1, half)
		}
	})
}

// syncFull syncs with the space that is left on the disk. If the space is not enough, syncFull checks the error,
// syncs again with enough space, and returns false.
func (r *crashRig) syncFull(t *testing.T, d diskTarget, what string, all *[]sighting) (fits bool) {
	t.Helper()
	stop := r.reading(t)
	defer stop()
	c := r.start(t, r.config(), "")
	code, _ := c.wait()
	*all = append(*all, sighting{what, r.see(t)})
	d.leave(t, plenty)
	if code == failure.ExitDone {
		require.Empty(t, r.compare(t), "after %s", what)
		return true
	}
	require.Contains(t, []int{failure.ExitFailed, failure.ExitPartial}, code, "after %s:\n%s", what, &c.out)
	require.Contains(t, c.out.String(), render.HintFull, "after %s", what)
	r.recover(t, what)
	return false
}
