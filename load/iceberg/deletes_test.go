//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// A commit that changes few rows leaves the data file as it is. Each later commit replaces the delete file, which has
// all deleted rows of the data file. If too many rows are deleted, the commit writes the data file again.
func TestDeletes(t *testing.T) {
	o := warehouse(t)
	o.Deletes = parquet.DeleteRule{MinSize: 1, MaxShare: 0.5}
	l := open(t, o)
	at := must(t, l, "", 1, 10)
	files := func() (data, deletes []string) {
		all, marked, err := l.Fetch(t.Context(), t.TempDir(), func(table string) bool { return table == "leads" })
		require.NoError(t, err)
		return all["leads"], marked["leads"]
	}
	first, deletes := files()
	require.Len(t, first, 1)
	require.Empty(t, deletes)
	at = must(t, l, at, 2, 3)
	data, deletes := files()
	require.Contains(t, data, first[0])
	require.Len(t, deletes, 1)
	for _, name := range []string{"leads", "leads__mails"} {
		require.Equal(t, map[string]int{"1": 7, "2": 3}, batches(t, o, name), name)
		says := metadata(t, o, name).CurrentSnapshot().Summary
		require.Equal(t, table.OpOverwrite, says.Operation)
		require.Equal(t, []string{"1", "3", "13"}, []string{says.Properties["total-delete-files"], says.Properties["total-position-deletes"], says.Properties["total-records"]}, name)
	}

	_, err := l.Files(t.Context())
	require.ErrorContains(t, err, "delete files", "the files alone have too many rows")

	// Another program compacts the table, and so leaves out the deleted rows.
	for i, removed := range []string{"13", "15"} {
		foreignSnapshot(t, o, "leads", int64(11+i), table.Summary{Operation: table.OpReplace, Properties: iceberg.Properties{
			"added-records": "10", "deleted-records": removed, "total-position-deletes": "3"}})
		next, err := put(t.Context(), l, at, 3+i, 4)
		if removed == "15" {
			require.ErrorIs(t, err, load.ErrForeignChange)
			_, err = l.Accept(t.Context(), "leads")
			require.NoError(t, err)
			break
		}
		require.NoError(t, err)
		at = next
	}
	require.Equal(t, map[string]int{"1": 6, "3": 4}, batches(t, o, "leads"))

	at = must(t, l, at, 5, 6)
	data, deletes = files()
	require.NotContains(t, data, first[0], "six of ten rows are deleted")
	require.Empty(t, deletes)
	for _, name := range []string{"leads", "leads__mails"} {
		require.Equal(t, map[string]int{"1": 4, "5": 6}, batches(t, o, name), name)
	}
	must(t, l, at, 6, 10)
	require.Equal(t, map[string]int{"6": 10}, batches(t, o, "leads"))
}

// Another program compacts a table twice. The first compaction leaves out all deleted rows. So the second one must not
// leave out any row, although its summary says that there still are deleted rows. Invariant 16
func TestForeignReplacesTogether(t *testing.T) {
	o := withDeletes(warehouse)(t)
	l := open(t, o)
	at := must(t, l, must(t, l, "", 1, 10), 2, 3)
	replace := func(id int64, removed string) {
		foreignSnapshot(t, o, "leads", id, table.Summary{Operation: table.OpReplace, Properties: iceberg.Properties{
			"added-records": "10", "deleted-records": removed, "total-position-deletes": "3"}})
	}
	replace(11, "12")
	replace(12, "11")
	at = must(t, l, at, 3, 3)
	require.Equal(t, "3", metadata(t, o, "leads").CurrentSnapshot().Summary.Properties["total-position-deletes"])
	replace(13, "13")
	replace(14, "12")
	_, err := put(t.Context(), l, at, 4, 3)
	require.ErrorIs(t, err, load.ErrForeignChange)
	require.ErrorContains(t, err, "snapshot 14 (replace)")
	require.ErrorContains(t, err, "snapshot 13 (replace)")
}

// In mode history, each commit ends few versions and adds more. The number of files must stay small, because each
// commit reads the manifest. Compaction must also keep all versions. Invariant 6
func TestHistoryFewFiles(t *testing.T) {
	const commits, ended, added, first = 50, 5, 40, 300
	for name, changed := range map[string]func(n int) int{
		"old records change": func(n int) int { return n * ended % (first - ended) },
		"new records change": func(n int) int { return first + n*added - ended - 20 },
	} {
		t.Run(name, func(t *testing.T) {
			o := warehouse(t)
			o.KeepFor, o.Deletes = -1, parquet.DeleteRule{MinSize: 1, MaxShare: 0.9}
			l := open(t, o)
			id := func(from, n int) (ids []string) {
				for i := range n {
					ids = append(ids, strconv.Itoa(from+i))
				}
				return ids
			}
			putKeyed(t, l, schemas.History, []string{"id"}, schemas.Int64, id(0, first)...)
			most := 0
			for n := range commits {
				ids := append(id(changed(n), ended), id(first+n*added, added)...)
				putKeyed(t, l, schemas.History, []string{"id"}, schemas.Int64, ids...)
				files, _, err := l.Fetch(t.Context(), t.TempDir(), func(table string) bool { return table == "things" })
				require.NoError(t, err)
				most = max(most, len(files["things"]))
			}
			require.Less(t, most, 32)
			current, all := map[string]int{}, read(t, o, "things")
			require.Len(t, all, first+commits*(ended+added))
			for _, r := range all {
				if r[schemas.ColValidTo] == "" {
					current[r["id"]]++
				}
			}
			require.Len(t, current, first+commits*added)
		})
	}
}

func batches(t *testing.T, o Options, name string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, r := range read(t, o, name) {
		out[r["batch"]]++
	}
	return out
}

// If a delete file is lost, the stream stops until Accept is called, which writes it again.
func TestDeleteFileLost(t *testing.T) {
	o := withDeletes(warehouse)(t)
	l := open(t, o)
	at := must(t, l, must(t, l, "", 1, 5), 2, 2)
	_, deletes, err := l.Fetch(t.Context(), t.TempDir(), func(table string) bool { return table == "leads" })
	require.NoError(t, err)
	require.Len(t, deletes["leads"], 1)
	require.NoError(t, os.Remove(deletes["leads"][0]))
	l = open(t, o)
	_, err = put(t.Context(), l, at, 3, 1)
	require.ErrorIs(t, err, load.ErrForeignChange)
	changes, err := l.Accept(t.Context(), "leads")
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Equal(t, map[string]int{"1": 3, "2": 2}, batches(t, o, "leads"))
	must(t, l, at, 3, 1)
	require.Equal(t, map[string]int{"1": 3, "2": 1, "3": 1}, batches(t, o, "leads"))
}

// Two sources share a table. The test kills a process at each step of a commit that deletes rows by their positions.
// Invariants 1, 2
func TestDeletesKilled(t *testing.T) {
	o := withDeletes(warehouse)(t)
	must(t, of(t, open(t, o), "boston"), "", 1, 4)
	must(t, of(t, open(t, o), "berlin"), "", 1, 50)
	_, steps := child(t, o, "list", 2)
	require.Contains(t, steps, "swap")
	batch := 2
	for _, step := range steps {
		killed, _ := child(t, o, step, batch+1)
		if killed {
			now, err := of(t, open(t, o), "berlin").Cursor(t.Context(), key)
			require.NoError(t, err, step)
			if now == state.Cursor(fmt.Sprint("at ", batch+1)) {
				batch++
			}
			require.EqualValues(t, fmt.Sprint("at ", batch), now, step)
		} else {
			batch++
		}
		rows := map[string]int{}
		for _, r := range read(t, o, "leads") {
			rows[r["_penstock_source"]]++
			if r["_penstock_source"] == "berlin" && r["id"] == "0" {
				require.Equal(t, fmt.Sprint(batch), r["batch"], step)
			}
		}
		require.Equal(t, map[string]int{"berlin": 50, "boston": 4}, rows, step)
	}
	tbl := metadata(t, o, "leads")
	require.NotEqual(t, "0", tbl.CurrentSnapshot().Summary.Properties["total-delete-files"])
}
