//go:build iceberg && unix

package iceberg

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func of(t testing.TB, l *parquet.Lake, source string) load.Destination {
	t.Helper()
	d, err := load.Share(l, source)
	require.NoError(t, err)
	return d
}

func bySource(t testing.TB, tbl *table.Table, snapshot int64) map[string]int {
	t.Helper()
	rows, err := tbl.Scan(table.WithSelectedFields(schemas.ColSource), table.WithSnapshotID(snapshot)).ToArrowTable(t.Context())
	require.NoError(t, err)
	defer rows.Release()
	out := map[string]int{}
	for _, c := range rows.Column(0).Data().Chunks() {
		for i := range c.Len() {
			out[c.ValueStr(i)]++
		}
	}
	return out
}

// Several sources commit at the same time, each through its own lake. All commits must succeed, and each snapshot must
// contain only whole commits.
func TestSharedCommits(t *testing.T) { everywhere(t, sharedCommits) }

func sharedCommits(t *testing.T, warehouse place) {
	o := warehouse(t)
	o.PartitionBy = partition.Spec{Column: "on", Transform: partition.Month}
	const commits = 4
	sources := map[string]int{"berlin": 3, "boston": 5}
	errs := make(chan error, len(sources))
	var wg sync.WaitGroup
	for source, rows := range sources {
		d := of(t, open(t, o), source)
		wg.Go(func() {
			at, err := state.Cursor(""), error(nil)
			for n := 0; n < commits && err == nil; n++ {
				at, err = put(t.Context(), d, at, 1+n, rows)
			}
			errs <- err
		})
	}
	wg.Wait()
	for range sources {
		require.NoError(t, <-errs)
	}
	for _, name := range []string{"leads", "leads__mails"} {
		tbl := metadata(t, o, name)
		spec := tbl.Spec()
		require.Equal(t, []string{schemas.ColSource, "identity"}, []string{spec.Field(0).Name, spec.Field(0).Transform.String()})
		require.Equal(t, schemas.ColSource, tbl.Schema().Field(0).Name)
		require.Len(t, tbl.Metadata().Snapshots(), commits*len(sources))
		for _, s := range tbl.Metadata().Snapshots() {
			got := bySource(t, tbl, s.SnapshotID)
			require.Equal(t, sources[s.Summary.Properties["penstock.source"]], got[s.Summary.Properties["penstock.source"]])
			for source, n := range got {
				require.Equal(t, sources[source], n)
			}
		}
		require.Equal(t, sources, bySource(t, tbl, tbl.CurrentSnapshot().SnapshotID))
	}
	l := open(t, o)
	for source := range sources {
		at, err := of(t, l, source).Cursor(t.Context(), key)
		require.NoError(t, err)
		require.EqualValues(t, fmt.Sprint("at ", commits), at)
	}
}

func TestSharedPruning(t *testing.T) { everywhere(t, sharedPruning) }

func sharedPruning(t *testing.T, warehouse place) {
	o := warehouse(t)
	l := open(t, o)
	for _, source := range []string{"berlin", "boston", "bern"} {
		must(t, of(t, l, source), "", 1, 3)
	}
	files, err := metadata(t, o, "leads").Scan(table.WithRowFilter(iceberg.EqualTo(iceberg.Reference(schemas.ColSource), "bern"))).PlanFiles(t.Context())
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Contains(t, files[0].File.FilePath(), "/leads/data/_penstock_source=bern/")
}

func TestRanges(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	at := state.Cursor("")
	for n := range 3 {
		next := state.Cursor(fmt.Sprint("at ", n))
		require.NoError(t, counted(t, l, at, next, schemas.Text, loadtest.Row{"id": fmt.Sprint(10 * n), "count": "a long text of number " + fmt.Sprint(n)}))
		at = next
	}
	require.NoError(t, counted(t, l, at, "at 9", schemas.Text, loadtest.Row{"id": "0", "count": "another"}))
	for want, filter := range map[int]iceberg.BooleanExpression{
		1: iceberg.EqualTo(iceberg.Reference("id"), int64(20)),
		2: iceberg.LessThan(iceberg.Reference("count"), "a long text of z"),
		0: iceberg.IsNull(iceberg.Reference("count")),
		3: iceberg.NotNull(iceberg.Reference("id")),
	} {
		files, err := metadata(t, o, "things").Scan(table.WithRowFilter(filter)).PlanFiles(t.Context())
		require.NoError(t, err)
		require.Len(t, files, want, filter)
	}
}

// A commit fails if another process has committed for the same source. Commits of other sources do not matter.
// Invariant 13
func TestSharedFence(t *testing.T) { everywhere(t, sharedFence) }

func sharedFence(t *testing.T, warehouse place) {
	o := warehouse(t)
	one, two := open(t, o), open(t, o)
	at := must(t, of(t, one, "berlin"), "", 1, 3)
	sleeper, err := of(t, one, "berlin").Begin(t.Context(), key, at, load.Pass{Run: run(2), Whole: true})
	require.NoError(t, err)
	must(t, of(t, two, "boston"), "", 1, 3)
	must(t, of(t, two, "berlin"), at, 2, 4)
	require.ErrorIs(t, sleeper.Commit(t.Context(), "at 9"), state.ErrMoved)
	now, err := of(t, one, "berlin").Cursor(t.Context(), key)
	require.NoError(t, err)
	require.EqualValues(t, "at 2", now)
}

// stopped() returns a lake that calls the function *hook once, when a commit reaches the given step. Before the call,
// the lake sets *hook to nil.
func stopped(t testing.TB, o Options, step string, hook *func()) *parquet.Lake {
	o.Step = func(name string) error {
		if f := *hook; f != nil && name == step {
			*hook = nil
			f()
		}
		return nil
	}
	return open(t, o)
}

func tidied(t testing.TB, o Options, sources ...string) {
	t.Helper()
	for _, source := range sources {
		d := of(t, open(t, o), source)
		at, err := d.Cursor(t.Context(), key)
		require.NoError(t, err)
		x, err := d.Begin(t.Context(), key, at, load.Pass{Run: run(99)})
		require.NoError(t, err)
		_, err = x.Apply(t.Context(), load.Sweep{})
		require.NoError(t, errors.Join(err, x.Rollback()))
	}
}

func readable(t testing.TB, o Options, names ...string) {
	t.Helper()
	for _, name := range names {
		tbl := metadata(t, o, name)
		require.NotEmpty(t, tbl.Metadata().Snapshots())
		for _, s := range tbl.Metadata().Snapshots() {
			bySource(t, tbl, s.SnapshotID)
		}
	}
}

// One source has written the files of a commit, but not yet committed them. Now another source commits and removes
// unused files. Afterwards, every remaining snapshot must be readable.
func TestSharedExpiry(t *testing.T) { everywhere(t, sharedExpiry) }

func sharedExpiry(t *testing.T, warehouse place) {
	o := warehouse(t)
	o.Keep, o.KeepFor = 1, -1
	var meanwhile func()
	slow := of(t, stopped(t, o, "swap", &meanwhile), "berlin")
	at, other := state.Cursor(""), state.Cursor("")
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for n := range rounds {
		at = must(t, slow, at, 1+2*n, 3)
		meanwhile = func() {
			for i := range 3 {
				l := open(t, o)
				other = must(t, of(t, l, "boston"), other, 1+3*n+i, 4)
				require.NoError(t, l.Close())
			}
		}
		at = must(t, slow, at, 2+2*n, 3)
		require.Nil(t, meanwhile)
	}
	tidied(t, o, "berlin", "boston")
	readable(t, o, "leads", "leads__mails", "_penstock_state")
	require.Equal(t, map[string]int{"berlin": 3, "boston": 4}, bySource(t, metadata(t, o, "leads"), metadata(t, o, "leads").CurrentSnapshot().SnapshotID))
	for source, most := range map[string]int{"berlin": 4, "boston": 4} {
		require.LessOrEqual(t, len(stored(t, o, namespaceOf(o)+"/leads/data/_penstock_source="+source, ".parquet")), most)
	}
	require.LessOrEqual(t, len(stored(t, o, namespaceOf(o)+"/leads/metadata", "-snap-")), 12, "old metadata files of the twenty commits are removed")
}

func counted(t testing.TB, d load.Destination, from, next state.Cursor, of arrow.DataType, rows ...loadtest.Row) error {
	things := schemas.Table{Name: "things", Key: []string{"id"}, Columns: arrow.NewSchema(append([]arrow.Field{
		schemas.Field("id", schemas.Int64, "/id"), schemas.Field("count", of, "/count"),
	}, own...), nil)}
	x, err := d.Begin(t.Context(), key, from, load.Pass{Run: run(1), Whole: true})
	if err != nil {
		return err
	}
	for i, r := range rows {
		r[schemas.ColSyncedAt], r[schemas.ColRun], r[schemas.ColHash] = "2026-11-20T12:00:00Z", run(1), r["id"]+r["count"]
		r[schemas.ColOrdinal] = fmt.Sprint(i)
	}
	b := loadtest.Batch(t, things, rows...)
	defer b.Release()
	if err := x.Write(t.Context(), things, b); err != nil {
		return errors.Join(err, x.Rollback())
	}
	return x.Commit(t.Context(), next)
}

func counts(t testing.TB, o Options) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range read(t, o, "things") {
		out[r[schemas.ColSource]+r["id"]] = r["count"]
	}
	return out
}

func TestSharedTypes(t *testing.T) { everywhere(t, sharedTypes) }

func sharedTypes(t *testing.T, warehouse place) {
	money, _ := schemas.Decimal(8, 2)
	for _, tt := range []struct {
		name             string
		berlin, boston   arrow.DataType
		a, b             string
		want             string
		berlin2, boston2 string
	}{
		{"the second is wider", schemas.Int64, schemas.Text, "7", "many", "string", "7", "many"},
		{"the first is wider", schemas.Text, schemas.Int64, "many", "7", "string", "many", "7"},
		{"neither is wider", schemas.Date, money, "2026-11-20", "7.50", "string", "2026-11-20", "7.50"},
		{"more digits", schemas.Int64, money, "7", "7.50", "decimal(21, 2)", "7.00", "7.50"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := warehouse(t)
			o.Keep, o.KeepFor = 1, -1
			one, two := open(t, o), open(t, o)
			berlin, boston := of(t, one, "berlin"), of(t, two, "boston")
			require.NoError(t, counted(t, berlin, "", "at 1", tt.berlin, loadtest.Row{"id": "1", "count": tt.a}))
			begun, err := berlin.Begin(t.Context(), key, "at 1", load.Pass{Run: run(1), Whole: true})
			require.NoError(t, err)
			require.NoError(t, counted(t, boston, "", "at 1", tt.boston, loadtest.Row{"id": "1", "count": tt.b}))
			require.Equal(t, map[string]string{"berlin1": tt.berlin2, "boston1": tt.boston2}, counts(t, o))
			require.Equal(t, tt.want, metadata(t, o, "things").Schema().Fields()[2].Type.String())
			now, err := berlin.Cursor(t.Context(), key)
			require.NoError(t, err)
			require.EqualValues(t, "at 1", now)
			tidied(t, o, "berlin")
			readable(t, o, "things", "_penstock_state")
			require.NoError(t, begun.Commit(t.Context(), "at 2"), "if another source widens the table, berlin's transaction can still commit")
			require.NoError(t, counted(t, berlin, "at 2", "at 3", tt.berlin, loadtest.Row{"id": "2", "count": tt.a}))
			require.NoError(t, counted(t, boston, "at 1", "at 2", tt.boston, loadtest.Row{"id": "2", "count": tt.b}))
			require.Equal(t, map[string]string{"berlin1": tt.berlin2, "berlin2": tt.berlin2, "boston1": tt.boston2, "boston2": tt.boston2}, counts(t, o))
			readable(t, o, "things", "_penstock_state")
		})
	}
}

// One source has written the files of a transaction. Then another source widens the transaction's columns. The
// transaction must still be able to commit.
func TestSharedTypesAmid(t *testing.T) { everywhere(t, sharedTypesAmid) }

func sharedTypesAmid(t *testing.T, warehouse place) {
	for _, step := range []string{"precommit", "manifest", "swap"} {
		t.Run(step, func(t *testing.T) { amid(t, warehouse(t), step) })
	}
}

func amid(t *testing.T, o Options, step string) {
	var meanwhile func()
	berlin, boston := of(t, stopped(t, o, step, &meanwhile), "berlin"), of(t, open(t, o), "boston")
	require.NoError(t, counted(t, berlin, "", "at 1", schemas.Int64, loadtest.Row{"id": "1", "count": "7"}))
	require.NoError(t, counted(t, berlin, "at 1", "at 2", schemas.Int64, loadtest.Row{"id": "2", "count": "8"}))
	require.NoError(t, counted(t, boston, "", "at 1", schemas.Int64, loadtest.Row{"id": "1", "count": "9"}))
	meanwhile = func() {
		require.NoError(t, counted(t, boston, "at 1", "at 2", schemas.Text, loadtest.Row{"id": "2", "count": "many"}))
		tidied(t, o, "berlin", "boston")
	}
	require.NoError(t, counted(t, berlin, "at 2", "at 3", schemas.Int64, loadtest.Row{"id": "1", "count": "10"}, loadtest.Row{"id": "3", "count": "11"}))
	want := map[string]string{"berlin1": "10", "berlin2": "8", "berlin3": "11", "boston1": "9", "boston2": "many"}
	require.Equal(t, want, counts(t, o))
	readable(t, o, "things", "_penstock_state")
	require.NoError(t, counted(t, berlin, "at 3", "at 4", schemas.Int64, loadtest.Row{"id": "3", "count": "12"}))
	want["berlin3"] = "12"
	require.Equal(t, want, counts(t, o))
}

// A commit of one source widens a column, so it rewrites the rows of another source. Just before that, the other source
// commits. The widening is then repeated, and both commits are kept.
func TestSharedTypesMeet(t *testing.T) { everywhere(t, sharedTypesMeet) }

func sharedTypesMeet(t *testing.T, warehouse place) {
	o := warehouse(t)
	var meanwhile func()
	boston, berlin := of(t, stopped(t, o, "publish", &meanwhile), "boston"), of(t, open(t, o), "berlin")
	require.NoError(t, counted(t, berlin, "", "at 1", schemas.Int64, loadtest.Row{"id": "1", "count": "7"}))
	times := 0
	var again func()
	again = func() {
		if times++; times == 2 { // at the first call, the commit has not yet found that the types conflict
			require.NoError(t, counted(t, berlin, "at 1", "at 2", schemas.Int64, loadtest.Row{"id": "2", "count": "8"}))
			return
		}
		meanwhile = again
	}
	meanwhile = again
	require.NoError(t, counted(t, boston, "", "at 1", schemas.Text, loadtest.Row{"id": "1", "count": "many"}))
	require.Equal(t, 2, times)
	require.Equal(t, map[string]string{"berlin1": "7", "berlin2": "8", "boston1": "many"}, counts(t, o))
}

func TestSharedPlacement(t *testing.T) { everywhere(t, sharedPlacement) }

func sharedPlacement(t *testing.T, warehouse place) {
	o := warehouse(t)
	l := open(t, o)
	must(t, of(t, l, "berlin"), "", 1, 3)
	must(t, of(t, l, "boston"), "", 1, 3)
	path, err := l.Path(t.Context(), "leads")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(path, "metadata.json"))
	require.Len(t, located(t, o, "_penstock_state"), 1)
	tables, err := l.Tables(t.Context(), "leads")
	require.NoError(t, err)
	require.True(t, load.Shared(tables[0].Columns))
}
