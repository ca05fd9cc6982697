//go:build cgo && duckdb_arrow

package duckdb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

const crashPasses = 5

// crashTables returns the tables with the columns that they have in pass p. The second pass adds a column to the root
// table. The third pass adds a child table. The fourth pass widens a column of each table.
func crashTables(mode schemas.Mode, p int) (root, items schemas.Table) {
	v := schemas.Int64
	if p >= 4 {
		v = schemas.Text
	}
	own := []arrow.Field{
		schemas.Field(schemas.ColSyncedAt, schemas.Timestamp, ""), schemas.Field(schemas.ColRun, schemas.Text, ""),
		schemas.Field(schemas.ColHash, schemas.Text, ""), schemas.Field(schemas.ColDeletedAt, schemas.Timestamp, ""),
		schemas.Field(schemas.ColVia, schemas.Text, ""), {Name: schemas.ColOrdinal, Type: schemas.Int64},
	}
	columns := []arrow.Field{schemas.Field("id", schemas.Int64, "/id"), schemas.Field("name", schemas.Text, "/name")}
	if p >= 2 {
		columns = append(columns, schemas.Field("v", v, "/v"))
	}
	root = schemas.Table{Name: "crm_leads", Key: []string{"id"}, Mode: mode, Columns: arrow.NewSchema(append(columns, own...), nil)}
	items = schemas.Table{Name: "crm_leads__items", Mode: mode, Columns: arrow.NewSchema(append([]arrow.Field{
		schemas.Field("n", v, "/n"), schemas.Field(schemas.ColParent, schemas.Int64, ""), schemas.Field(schemas.ColIndex, schemas.Int64, ""),
	}, own...), nil)}
	return root, items
}

// crashRows returns the records of pass p. In each pass, a third of the records have changed, and one record is
// missing.
func crashRows(p int) (root, items []loadtest.Row) {
	for id := range 30 {
		if id == p {
			continue
		}
		version := p - (p+id)%3
		r := loadtest.Row{"id": fmt.Sprint(id), "name": fmt.Sprint("v", version), schemas.ColHash: fmt.Sprint(version, p >= 2, p >= 3)}
		if p >= 2 {
			r["v"] = fmt.Sprint(10*p + id%2)
			r[schemas.ColHash] += r["v"]
		}
		root = append(root, r)
		if p >= 3 {
			items = append(items, loadtest.Row{"n": r["v"], schemas.ColParent: r["id"], schemas.ColIndex: "0", schemas.ColHash: r[schemas.ColHash]})
		}
	}
	for _, rows := range [][]loadtest.Row{root, items} {
		for _, r := range rows {
			r[schemas.ColRun], r[schemas.ColVia] = fmt.Sprintf("run%09d", p), "poll"
			r[schemas.ColSyncedAt] = "2026-11-20T08:00:00Z"
			r[schemas.ColOrdinal] = r["id"] + r[schemas.ColParent]
		}
	}
	return root, items
}

// crashRun makes all passes that were not committed to the destination yet.
func crashRun(t testing.TB, d *DB, mode schemas.Mode) {
	c, err := d.Cursor(t.Context(), stream)
	require.NoError(t, err)
	for p := passOf(c) + 1; p <= crashPasses; p++ {
		x, err := d.Begin(t.Context(), stream, c, load.Pass{Run: fmt.Sprintf("run%09d", p), Whole: true, Log: true})
		require.NoError(t, err)
		rootTable, itemTable := crashTables(mode, p)
		root, items := crashRows(p)
		require.NoError(t, x.Write(t.Context(), rootTable, loadtest.Batch(t, rootTable, root...)))
		if p >= 3 {
			require.NoError(t, x.Write(t.Context(), itemTable, loadtest.Batch(t, itemTable, items...)))
		}
		_, err = x.Apply(t.Context(), load.Sweep{Table: rootTable.Name, Delete: true})
		require.NoError(t, err)
		c = state.Cursor(fmt.Sprint("p", p))
		require.NoError(t, x.Commit(t.Context(), c))
		if p%2 == 0 {
			d.detachIdle()
		}
	}
	require.NoError(t, d.Close())
}

func passOf(c state.Cursor) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(string(c), "p"))
	return n
}

// crashCheck checks that the tables have the rows of the pass that the cursor names. It returns the cursor.
func crashCheck(t *testing.T, d *DB) state.Cursor {
	c, err := d.Cursor(t.Context(), stream)
	require.NoError(t, err)
	p := passOf(c)
	root, items := crashRows(p)
	if p == 0 {
		root, items = nil, nil
	}
	want := func(rows []loadtest.Row, columns ...string) (out []string) {
		for _, r := range rows {
			if r[schemas.ColDeletedAt]+r[schemas.ColValidTo] != "" {
				continue
			}
			text := ""
			for _, c := range columns {
				text += r[c] + " "
			}
			out = append(out, text)
		}
		return out
	}
	require.ElementsMatch(t, want(root, "id", "name", "v", schemas.ColHash), want(rowsOf(t, d, "crm_leads"), "id", "name", "v", schemas.ColHash))
	require.ElementsMatch(t, want(items, "n", schemas.ColParent, schemas.ColHash), want(rowsOf(t, d, "crm_leads__items"), "n", schemas.ColParent, schemas.ColHash))
	return c
}

// TestCrash kills a process at each step of five passes. It tests a table with one row per record, and a table that
// keeps all versions. After a kill, the file must open, and must have the rows of the pass that its cursor names. The
// next process must complete that pass.
func TestCrash(t *testing.T) {
	if path := os.Getenv("PENSTOCK_TEST_CRASH"); path != "" {
		crashChild(t, path)
		return
	}
	for mode, stride := range map[schemas.Mode]int{schemas.Merge: 1, schemas.History: 3} {
		t.Run(string(mode), func(t *testing.T) {
			if testing.Short() {
				stride = 2 + 2*stride // less than the number of steps of a pass
			}
			crashEverywhere(t, mode, stride)
		})
	}
}

// crashEverywhere kills a process at each stride-th step, and at the last step, which comes after the last commit.
func crashEverywhere(t *testing.T, mode schemas.Mode, stride int) {
	dir := t.TempDir()
	seen := map[state.Cursor]bool{}
	kill := func(step int) bool {
		c, killed := crashAt(t, dir, mode, step)
		if killed {
			seen[c] = true
		}
		return killed
	}
	end := 1
	for kill(end) {
		end += stride
	}
	require.Greater(t, end, 40, "too few steps were tried")
	last := end - 1
	for last > end-stride && !kill(last) {
		last--
	}
	require.Len(t, seen, crashPasses+1, "the child must crash before and after each pass")
}

// crashAt kills a process at a step, and checks what it has left. Then it makes the remaining passes. It returns the
// cursor that the process has left. If the process ends before the step, it was not killed.
func crashAt(t *testing.T, dir string, mode schemas.Mode, step int) (c state.Cursor, killed bool) {
	path := filepath.Join(dir, fmt.Sprint(step, ".duckdb"))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrash$")
	child.Env = append(os.Environ(), "PENSTOCK_TEST_CRASH="+path, fmt.Sprint("PENSTOCK_TEST_STEP=", step), "PENSTOCK_TEST_MODE="+string(mode), "TMPDIR="+dir)
	out, err := child.CombinedOutput()
	d := openTest(t, path, Options{})
	if err == nil {
		require.EqualValues(t, fmt.Sprint("p", crashPasses), crashCheck(t, d))
		return "", false
	}
	require.NotContains(t, string(out), "FAIL", "step %d", step)
	c = crashCheck(t, d)
	crashRun(t, d, mode)
	d = openTest(t, path, Options{})
	require.EqualValues(t, fmt.Sprint("p", crashPasses), crashCheck(t, d), "step %d", step)
	require.NoError(t, d.Close())
	moved, err := filepath.Glob(path + ".wal.unreadable-*")
	require.NoError(t, err)
	require.Empty(t, moved, "step %d: the log could not be replayed", step)
	return c, true
}

// crashChild runs in the process that is killed.
func crashChild(t *testing.T, path string) {
	at, err := strconv.ParseInt(os.Getenv("PENSTOCK_TEST_STEP"), 10, 64)
	require.NoError(t, err)
	var n atomic.Int64
	d := openTest(t, path, Options{Step: func(string) error {
		if n.Add(1) == at {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
		return nil
	}})
	crashRun(t, d, schemas.Mode(os.Getenv("PENSTOCK_TEST_MODE")))
}
