package loadtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// follower keeps a copy of a table and its child tables. It reads only rows whose [schemas.ColSyncedAt] is later than
// the latest time that it has seen.
type follower struct {
	family
	seen map[string]time.Time
	copy map[string]map[string]Row
}

func newFollower(f family) *follower {
	out := &follower{family: f, seen: map[string]time.Time{}, copy: map[string]map[string]Row{}}
	for _, t := range []schemas.Table{f.root, f.items, f.parts} {
		out.copy[t.Name] = map[string]Row{}
	}
	return out
}

// place returns a text that identifies a row: the values of the columns that docs/following.md names for this purpose.
func (f *follower) place(t schemas.Table, r Row) string {
	key := r["id"]
	if load.Child(t.Columns) {
		key = r[load.RootKeyColumn(t.Columns)] + " " + r[schemas.ColParent] + " " + r[schemas.ColIndex]
	}
	switch f.root.Mode {
	case schemas.History:
		return key + " " + r[schemas.ColValidFrom]
	case schemas.Append:
		return key + " " + r[schemas.ColRun]
	}
	return key
}

func (f *follower) read(b *fixture) {
	b.Helper()
	changed := map[string]bool{}
	for _, t := range []schemas.Table{f.root, f.items, f.parts} {
		seen := f.seen[t.Name]
		var fresh []Row
		for _, r := range b.driver.Rows(b, b.dest, t.Name) {
			at := r.time(schemas.ColSyncedAt)
			if !at.After(seen) {
				continue
			}
			fresh = append(fresh, r)
			if at.After(f.seen[t.Name]) {
				f.seen[t.Name] = at
			}
			if !load.Child(t.Columns) {
				changed[f.place(t, r)] = true
			}
		}
		if load.Child(t.Columns) && f.root.Mode == schemas.Merge { // in Merge, if a record is written again, all its child rows are written again
			maps.DeleteFunc(f.copy[t.Name], func(_ string, r Row) bool { return changed[r[load.RootKeyColumn(t.Columns)]] })
		}
		for _, r := range fresh {
			f.copy[t.Name][f.place(t, r)] = r
		}
	}
}

// testFollow lets clocks stop or go back, and lets other processes continue passes. A follower must not miss a row.
func testFollow(t *testing.T, d Driver) {
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Append, schemas.History} {
		t.Run(string(mode), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 0))
			f, b := newFamily(mode, true), newFixture(t, d)
			every, some := newFollower(f), newFollower(f)
			var last time.Time
			for run := 1; run <= d.runs(4); run++ {
				b.run(run)
				for part := range 3 {
					if r.IntN(4) == 0 {
						b.reopen()
						b.pass.Whole = part == 0
					}
					late := time.Duration(r.IntN(5)-2) * time.Minute
					b.pass.Now = func() time.Time { return morning.Add(late) }
					before := b.byTable(f)
					sweep := load.Sweep{}
					if part == 2 {
						sweep = load.Sweep{Table: f.root.Name, Delete: true}
					}
					b.commit(sweep, f.puts(b.pass.Run, someRecords(r))...)
					at := (Row{"t": b.when()}).time("t")
					after := b.byTable(f)
					if !same(before, after) {
						require.True(t, at.After(last), "the commit at %s is not later than the one at %s", at, last)
						last = at
					}
					b.stamped(before, after, at)
					every.read(b)
					if r.IntN(2) == 0 {
						some.read(b)
					}
				}
			}
			some.read(b)
			for table, rows := range b.byTable(f) {
				for name, reader := range map[string]*follower{"every commit": every, "some commits": some} {
					require.ElementsMatch(t, rows, slices.Collect(maps.Values(reader.copy[table])), "the copy of %[1]s is wrong at the follower that reads after %[2]s", table, name)
				}
			}
			require.NotEmpty(t, every.copy[f.root.Name])
		})
	}
}

// testTimesLost drops the table of cursors and sets the clock back. The next commit must have a later time than the
// existing rows.
func testTimesLost(t *testing.T, d Driver) {
	if d.Drop == nil {
		t.Skip("the cursors are not in a table")
	}
	b := newFixture(t, d)
	b.run(9)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob")}})
	last := (Row{"t": b.when()}).time("t")
	d.Drop(t, b.dest, load.State.Name)
	b.reopen()
	b.cursor = ""
	b.pass.Now = clockOf(runID(2), 0)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "amy"), person(b.pass.Run, 1, "2", "bob")}})
	require.ElementsMatch(t, []Row{
		{"id": "1", "name": "amy", schemas.ColSyncedAt: instant(last.Add(time.Microsecond))},
		{"id": "2", "name": "bob", schemas.ColSyncedAt: instant(last)},
	}, b.rows("people", schemas.ColSyncedAt))
	require.Equal(t, instant(last.Add(time.Microsecond)), b.when())
}

func (b *fixture) byTable(f family) map[string][]Row {
	b.Helper()
	out := map[string][]Row{}
	for _, t := range []schemas.Table{f.root, f.items, f.parts} {
		out[t.Name] = b.driver.Rows(b, b.dest, t.Name)
	}
	return out
}

func same(a, b map[string][]Row) bool {
	sorted := func(rows []Row) []string {
		var out []string
		for _, r := range rows {
			out = append(out, fmt.Sprint(r))
		}
		slices.Sort(out)
		return out
	}
	return maps.EqualFunc(a, b, func(x, y []Row) bool { return slices.Equal(sorted(x), sorted(y)) })
}

// stamped requires that unchanged rows keep their time, and that all other rows have the time of the commit.
func (b *fixture) stamped(before, after map[string][]Row, at time.Time) {
	b.Helper()
	for table, rows := range after {
		was := map[string]bool{}
		for _, r := range before[table] {
			was[fmt.Sprint(r)] = true
		}
		for _, r := range rows {
			if !was[fmt.Sprint(r)] {
				require.Equal(b, at, r.time(schemas.ColSyncedAt), "row %v of %s", r, table)
			}
		}
	}
}
