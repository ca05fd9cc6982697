package deltas

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

func staleOnce(m *model, requests int) {
	was := m.records[1]
	m.records[1] = 9
	m.old[1], m.was[1] = requests, &was
	m.send(m.event("updated", 1))
}

func TestDeltasRequestNothingWithoutADestination(t *testing.T) {
	m := newModel(5)
	down := &brittle{Memory: loadtest.NewMemory(nil)}
	r := newDeltaRig(t, m, pipeline.Destination{Name: "down", Destination: down})
	r.sync()
	r.deltas.pace.again = []time.Duration{time.Millisecond, time.Millisecond}
	staleOnce(m, 2)
	_, err := r.deltas.Apply(t.Context())
	require.NoError(t, err)
	asked := m.asked
	down.err = errors.New("no connection")
	r.deltas.pace.rest = 10 * time.Millisecond
	for range 10 {
		time.Sleep(2 * time.Millisecond)
		_, err := r.deltas.Apply(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, asked, m.asked)
	down.err = nil
	clear(r.deltas.resting)
	for range 3 {
		time.Sleep(2 * time.Millisecond)
		r.apply()
	}
	require.LessOrEqual(t, m.asked, asked+2)
	r.equal()
}

func TestDeltasReopenOnlyTheRecord(t *testing.T) {
	m := newModel(9)
	r := newDeltaRig(t, m, pipeline.Destination{Name: "a", Destination: loadtest.NewMemory(nil)}, pipeline.Destination{Name: "b", Destination: loadtest.NewMemory(nil)})
	r.sync()
	r.deltas.pace.again = []time.Duration{time.Hour, time.Hour}
	staleOnce(m, 2)
	for id := 2; id <= 9; id++ {
		m.records[id] = 3
		m.send(m.event("updated", id))
	}
	_, err := r.deltas.Apply(t.Context())
	require.NoError(t, err)
	asked := m.asked
	r.start()
	r.deltas.pace.again = []time.Duration{0, 0}
	for range 3 {
		r.apply()
	}
	r.equal()
	require.LessOrEqual(t, m.asked-asked, 5, "the requests are for one record and for a test of its endpoint")
}

// A pass has read the stream after an event was received. So the values of the event are not written to the row.
func TestDeltasWriteNothingOlderThanAPass(t *testing.T) {
	m := newModel(5)
	r := newDeltaRig(t, m)
	r.config.Catalogue = nil
	r.start()
	r.sync()
	m.records[2] = 7
	m.send(m.event("updated", 2))
	m.records[2] = 8
	r.sync()
	require.Equal(t, []string{"v2.contacts"}, r.apply().Refresh)
	r.equal()
	scan(t, memoryOf(r), "v2_contacts", []string{schemas.ColHash}, func(row []string) {
		require.NotEqual(t, provisionalHash, row[0])
	})
}

// After a record was given up, every destination stores this fact. Only then is the record quarantined.
func TestDeltasQuarantineAfterAllDestinations(t *testing.T) {
	m := newModel(5)
	down := &brittle{Memory: loadtest.NewMemory(nil)}
	r := newDeltaRig(t, m, pipeline.Destination{Name: "up", Destination: loadtest.NewMemory(nil)}, pipeline.Destination{Name: "down", Destination: down})
	r.sync()
	m.served = func(id int) error {
		if id == 1 {
			return &wire.Error{Class: wire.Invalid, Status: 400}
		}
		return nil
	}
	m.send(m.event("updated", 1))
	down.err = errors.New("no connection")
	r.deltas.pace.rest = time.Hour
	given := 0
	for range 5 {
		rep, err := r.deltas.Apply(t.Context())
		require.NoError(t, err)
		given += rep.Dead
	}
	require.Equal(t, 1, given)
	require.Empty(t, r.dead, "a destination has not stored that the record was given up")
	down.err = nil
	clear(r.deltas.resting)
	r.apply()
	require.Len(t, r.dead, 1)
}
