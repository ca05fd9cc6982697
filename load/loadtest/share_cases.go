package loadtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func workspaces(t *testing.T, d Driver, sources ...string) (whole load.Destination, all []*fixture) {
	whole = d.Open(t, func(string) error { return nil })
	t.Cleanup(func() { _ = whole.Close() })
	for _, source := range sources {
		dest, err := load.Share(whole, source)
		require.NoError(t, err)
		mine := d
		mine.Rows = func(t testing.TB, _ load.Destination, table string) []Row {
			return rowsBy(d.Rows(t, whole, table), source)
		}
		b := &fixture{TB: t, driver: mine, dest: dest, key: orders}
		b.run(1)
		all = append(all, b)
	}
	return whole, all
}

// testNeighbours lets two sources share one table. Both sources have the same ids or, in a table without a key, equal
// rows.
func testNeighbours(t *testing.T, d Driver) {
	if !sharing(t, d) {
		t.Skip("tables cannot be shared")
	}
	for i, mode := range modes {
		for _, keyed := range d.kinds(i) {
			t.Run(fmt.Sprint(mode, map[bool]string{true: "", false: " without a key"}[keyed]), func(t *testing.T) {
				_, all := workspaces(t, d, "ann", "bob")
				a, b, f := all[0], all[1], newFamily(mode, keyed)
				rows := map[bool][]string{true: {"1:ann 2:bob 3:cid", "1:amy"}, false: {"x y y z", "y"}}[keyed]
				a.pass.Log, b.pass.Log = true, true
				for _, one := range all {
					out := one.play(f, step{run: 1, rows: rows[0], sweep: true})
					require.EqualValues(t, len(strings.Fields(rows[0])), out.Inserted, "rows of the other source do not count")
				}
				want, log := b.content(f), len(b.driver.Rows(t, b.dest, load.RowChanges.Name))
				before := b.all(f)
				out := a.play(f, step{run: 2, rows: rows[1], sweep: true})
				require.EqualValues(t, a.alive(f)+int(out.Deleted), out.Alive, "the sweep counts only the source's own rows")
				require.Equal(t, before, b.all(f))
				require.Equal(t, want, b.content(f))
				require.Len(t, b.driver.Rows(t, b.dest, load.RowChanges.Name), log)
				out = b.play(f, step{run: 2, rows: rows[0], sweep: true})
				require.Zero(t, out.Written+out.Deleted, "nothing has changed for this source")
				a.chronological(f)
			})
		}
	}
}

func (b *fixture) alive(f family) (n int) {
	for _, r := range b.driver.Rows(b, b.dest, f.root.Name) {
		if end := map[bool]string{true: schemas.ColValidTo, false: schemas.ColDeletedAt}[f.root.Mode == schemas.History]; r[end] == "" {
			n++
		}
	}
	return n
}

func testNeighbourLedger(t *testing.T, d Driver) {
	if !sharing(t, d) {
		t.Skip("tables cannot be shared")
	}
	whole, all := workspaces(t, d, "ann", "bob")
	for i, b := range all {
		at := instant(morning.Add(time.Duration(i) * time.Minute))
		b.commit(load.Sweep{},
			put{people, []Row{person(runID(1), 0, "1", fmt.Sprint("p", i))}},
			put{load.Conventions, []Row{{"pipeline": "nightly", "stream": "crm.leads", "run": runID(1), "at": at, "convention": fmt.Sprintf(`{"n":%d}`, i)}}},
			put{load.Certificates, []Row{{"run": runID(1), "pipeline": "nightly", "stream": "crm.leads", "at": at, "verdict": fmt.Sprint("v", i)}}})
	}
	all[1].commit(load.Sweep{}, put{people, []Row{person(runID(1), 0, "1", "again")}})
	for i, b := range all {
		c, err := b.dest.Cursor(t.Context(), orders)
		require.NoError(t, err)
		require.Equal(t, state.Cursor(fmt.Sprintf(`{"n":%d}`, i+1)), c)
		for table, column := range map[string]string{load.Conventions.Name: "convention", load.Certificates.Name: "verdict"} {
			var got []Row
			require.NoError(t, b.dest.Scan(t.Context(), table, []string{column}, func(r arrow.RecordBatch) error {
				got = append(got, RowsOf(r)...)
				return nil
			}))
			require.Equal(t, []Row{{column: map[string]string{"convention": fmt.Sprintf(`{"n":%d}`, i), "verdict": fmt.Sprint("v", i)}[column]}}, got)
		}
	}
	owners := map[string]int{}
	for _, table := range []string{"people", load.State.Name, load.Conventions.Name, load.Certificates.Name} {
		n := 0
		require.NoError(t, whole.Scan(t.Context(), table, nil, func(r arrow.RecordBatch) error {
			for _, row := range RowsOf(r) {
				owners[row[schemas.ColSource]]++
				n++
			}
			return nil
		}), table)
		require.Equal(t, 2, n, table)
	}
	require.Equal(t, map[string]int{"ann": 4, "bob": 4}, owners)
}

// testNeighbourRace lets many sources commit at the same time. The first commits create the tables. Later commits add
// columns to these tables.
func testNeighbourRace(t *testing.T, d Driver) {
	if !sharing(t, d) {
		t.Skip("tables cannot be shared")
	}
	sources := []string{"a", "b", "c", "d", "e", "f"}
	_, all := workspaces(t, d, sources...)
	wider := root("people", []string{"id"}, column("id", schemas.Int64), column("name", schemas.Text), column("age", schemas.Int64))
	items := hanging("people__items", schemas.Int64, false, column("sku", schemas.Text))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, b := range all {
		wg.Go(func() {
			for run := 1; run <= 3; run++ {
				b.run(run)
				table, row := people, person(b.pass.Run, 0, "1", sources[i])
				if run == 2 && i%2 == 0 {
					table, row = wider, with(b.pass.Run, 0, fmt.Sprint("h", run, i), Row{"id": "1", "name": sources[i], "age": "7"})
				}
				errs[i] = errors.Join(errs[i], b.tryCommit(sweep("people"),
					put{table, []Row{row}}, put{items, itemsOf(b.pass.Run, 0, row[schemas.ColHash], "1", sources[i])}))
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for i, b := range all {
		require.Equal(t, []Row{{"sku": sources[i]}}, b.rows("people__items"))
		rows := b.rows("people")
		require.Len(t, rows, 1)
		require.Equal(t, sources[i], rows[0]["name"])
	}
}

func (b *fixture) tryCommit(s load.Sweep, puts ...put) error {
	x, err := b.dest.Begin(b.Context(), b.key, b.cursor, b.pass)
	if err != nil {
		return err
	}
	defer func() { _ = x.Rollback() }()
	for _, p := range puts {
		batch, err := batchOf(p.table.Columns, p.rows)
		if err != nil {
			return err
		}
		err = x.Write(b.Context(), p.table, batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	if _, err := x.Apply(b.Context(), s); err != nil {
		return err
	}
	b.count++
	next := state.Cursor(fmt.Sprintf(`{"n":%d}`, b.count))
	if err := x.Commit(b.Context(), next); err != nil {
		return err
	}
	b.cursor = next
	return nil
}

func testUnshared(t *testing.T, d Driver) {
	if !sharing(t, d) {
		t.Skip("tables cannot be shared")
	}
	whole, all := workspaces(t, d, "ann")
	single := &fixture{TB: t, driver: d, dest: whole, key: orders, pass: load.Pass{Run: runID(1), Whole: true}}
	row := put{people, []Row{person(runID(1), 0, "1", "ann")}}
	all[0].commit(load.Sweep{}, row)
	require.ErrorIs(t, single.tryCommit(load.Sweep{}, row), load.ErrUnshared)
	_, err := whole.Cursor(t.Context(), orders)
	require.ErrorIs(t, err, load.ErrUnshared)
	t.Run("a source does not write to a table that is not shared", func(t *testing.T) {
		whole, all := workspaces(t, d, "ann")
		single := &fixture{TB: t, driver: d, dest: whole, key: orders, pass: load.Pass{Run: runID(1), Whole: true}}
		single.commit(load.Sweep{}, row)
		before := single.rows("people", schemas.ColSource)
		require.ErrorIs(t, all[0].tryCommit(load.Sweep{}, row), load.ErrUnshared)
		require.Equal(t, before, single.rows("people", schemas.ColSource))
	})
}
