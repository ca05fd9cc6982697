package deltas

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// midway calls f at the nth request of a pass, as soon as deltas may commit between two commits of the pass.
func (r *deltaRig) midway(n int, f func()) {
	asked := 0
	r.model.between = func() {
		if asked++; asked == n {
			r.model.between = nil
			lock := r.config.Locks.Watch("v2.contacts")
			require.Eventually(r.t, func() bool { return lock.DuringPass() && r.free("v2.contacts") }, time.Minute, time.Millisecond)
			f()
		}
	}
}

// free reports whether the stream's lock is free.
func (r *deltaRig) free(stream string) bool {
	lock := r.config.Locks.Watch(stream)
	_, free := lock.Try(r.t.Context(), 0)
	if free {
		lock.Release()
	}
	return free
}

func rowOf(t *testing.T, d load.Destination, id string) map[string]string {
	t.Helper()
	columns, out := []string{"id", "name", schemas.ColDeletedAt, schemas.ColVia, schemas.ColRun}, map[string]string{}
	scan(t, d, "v2_contacts", columns, func(row []string) {
		if row[0] == id {
			for i, c := range columns {
				out[c] = row[i]
			}
		}
	})
	return out
}

func TestDeltasBetweenTheCommitsOfAPass(t *testing.T) {
	m := newModel(20)
	r := newDeltaRig(t, m, pipeline.Destination{Name: "a", Destination: loadtest.NewMemory(nil)}, pipeline.Destination{Name: "b", Destination: loadtest.NewMemory(nil)})
	r.sync()
	r.midway(4, func() {
		for _, id := range []int{2, 15} {
			m.records[id] = 7
			m.send(m.event("updated", id))
		}
		delete(m.records, 3)
		m.send(m.event("deleted", 3))
		m.records[30] = 1
		m.send(m.event("created", 30))
		rep := r.apply()
		require.Equal(t, 4, rep.Applied)
		require.EqualValues(t, 1, rep.Deleted)
		for _, d := range r.config.Destinations {
			require.Equal(t, "n7", rowOf(t, d, "2")["name"], "deltas commit the record while the pass is running")
			require.Equal(t, "webhook", rowOf(t, d, "15")[schemas.ColVia])
			require.NotEmpty(t, rowOf(t, d, "3")[schemas.ColDeletedAt])
		}
	})
	rep := r.sync()
	require.Nil(t, m.between, "the events came during the pass")
	for _, s := range rep.Streams {
		require.EqualValues(t, 0, s.Missing)
		require.Zero(t, s.Counts.Deleted)
	}
	r.equal()
	for _, d := range r.config.Destinations {
		require.Equal(t, "webhook", rowOf(t, d, "15")[schemas.ColVia], "no page has written the record again")
	}
	asked := m.asked
	r.apply()
	require.Equal(t, asked, m.asked, "the pages had the same content as the records")
	require.Zero(t, r.sync().Totals().Counts.Written)
}

// A page is requested first, and then one of its records. The record is committed before the page. The page does not
// overwrite the record's row. If the entry on the page differs from the record, the record is requested once more.
func TestDeltasAreNotOverwrittenByAnEarlierPage(t *testing.T) {
	m := newModel(12)
	r := newDeltaRig(t, m)
	r.config.GroupRows, r.config.GroupBytes = 100, 1<<20
	r.start()
	r.sync()
	m.records[1] = 5
	r.midway(3, func() { // pages one and two are read, and nothing is committed
		m.records[2] = 7
		m.send(m.event("updated", 2))
		delete(m.records, 3)
		m.send(m.event("deleted", 3))
		r.apply()
	})
	rep := r.sync()
	require.Nil(t, m.between)
	require.Equal(t, "n7", rowOf(t, memoryOf(r), "2")["name"])
	require.NotEmpty(t, rowOf(t, memoryOf(r), "3")[schemas.ColDeletedAt], "the page still had the record")
	c := rep.Totals().Counts
	require.EqualValues(t, 12, c.Fetched)
	require.Zero(t, c.Deduplicated)
	r.equal()
	asked := m.asked
	r.apply()
	require.LessOrEqual(t, m.asked-asked, 3, "records that differ on the page are requested again")
	require.Greater(t, m.asked, asked)
	r.equal()
	require.False(t, strings.Contains(string(cursorOf(t, r)), `"open"`), "%s", cursorOf(t, r))
}

func cursorOf(t *testing.T, r *deltaRig) state.Cursor {
	t.Helper()
	at, err := memoryOf(r).Cursor(t.Context(), r.deltas.conf.Key("v2.contacts"))
	require.NoError(t, err)
	return at
}

// A record is requested because of an event. Then it changes again without an event, and a later page shows that
// change. The change is loaded.
func TestDeltasDoNotHideALaterPage(t *testing.T) {
	m := newModel(20)
	r := newDeltaRig(t, m)
	r.sync()
	r.midway(3, func() {
		m.records[18] = 4
		m.send(m.event("updated", 18))
		r.apply()
		m.records[18] = 5
	})
	r.sync()
	r.apply()
	r.equal()
}
