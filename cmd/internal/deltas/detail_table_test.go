package deltas

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

func newBesideRig(t *testing.T, m *model, dests ...pipeline.Destination) *deltaRig {
	t.Helper()
	r := newDeltaRig(t, m, dests...)
	all, err := schemas.Load()
	require.NoError(t, err)
	detail, ok := all.Find("v2.contact")
	require.True(t, ok)
	r.config.Streams = append(r.config.Streams, detail)
	r.start()
	return r
}

func singles(t *testing.T, d load.Destination) map[string][3]string {
	t.Helper()
	out := map[string][3]string{}
	scan(t, d, "v2_contact", []string{"id", "name", schemas.ColDeletedAt, schemas.ColVia}, func(row []string) {
		out[row[0]] = [3]string{row[1], row[2], row[3]}
	})
	return out
}

func TestDeltasBesideTheList(t *testing.T) {
	m := newModel(9)
	r := newBesideRig(t, m, pipeline.Destination{Name: "a", Destination: loadtest.NewMemory(nil)}, pipeline.Destination{Name: "b", Destination: loadtest.NewMemory(nil)})
	m.records[2] = 5
	m.send(m.event("updated", 2))
	r.apply()
	for _, d := range r.config.Destinations {
		require.Empty(t, singles(t, d), "an event does not create the detail table")
	}
	r.sync()
	m.records[4] = 7
	m.send(m.event("updated", 4))
	delete(m.records, 5)
	m.send(m.event("deleted", 5))
	m.records[20] = 1
	m.send(m.event("created", 20))
	asked := m.asked
	r.apply()
	require.Equal(t, asked+3, m.asked)
	for _, d := range r.config.Destinations {
		got := singles(t, d)
		require.Equal(t, [3]string{"n7", "", "webhook"}, got["4"])
		require.NotEmpty(t, got["5"][1], "the record is gone")
		require.Equal(t, [3]string{"n1", "", "webhook"}, got["20"])
		require.Equal(t, [3]string{"n1", "", "poll"}, got["1"])
	}
	rep := r.sync()
	require.Zero(t, rep.Totals().Counts.Written, "the next run has nothing to write: %v", rep.Streams)
	require.Zero(t, rep.Totals().Counts.Deleted)
	for _, d := range r.config.Destinations {
		require.Equal(t, "webhook", singles(t, d)["4"][2])
	}
}

// While a pass over the detail stream is running, deltas do not write to its table, because the pass may have requested
// the same records later than the deltas. The next run writes the records.
func TestDeltasBesideABusyStream(t *testing.T) {
	m := newModel(5)
	r := newBesideRig(t, m)
	r.sync()
	lock, err := r.config.Locks.Take(t.Context(), "v2.contact")
	require.NoError(t, err)
	m.records[4] = 7
	m.send(m.event("updated", 4))
	r.apply()
	require.Equal(t, "n7", rowOf(t, memoryOf(r), "4")["name"])
	require.Equal(t, "n1", singles(t, memoryOf(r))["4"][0])
	lock.Leave(true, time.Now())
	r.sync()
	require.Equal(t, "n7", singles(t, memoryOf(r))["4"][0])
}

func TestDeltasBesideHoldTheLock(t *testing.T) {
	m := newModel(5)
	r := newBesideRig(t, m)
	r.sync()
	held := false
	m.served = func(int) error {
		held = !r.free("v2.contact")
		return nil
	}
	m.records[4] = 7
	m.send(m.event("updated", 4))
	r.apply()
	require.True(t, held)
	require.True(t, r.free("v2.contact"), "the lock is released")
}
