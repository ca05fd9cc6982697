package deltas

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

func (r *deltaRig) owed() bool {
	pos, err := cursor.Decode(cursorOf(r.t, r))
	require.NoError(r.t, err)
	a, err := pos.Applied()
	require.NoError(r.t, err)
	return a.Refresh > 0
}

// After an event that needs a whole reading, three kinds of passes are not enough: an incremental pass, a pass that
// skipped parents, and a pass that the list's own total contradicts.
func TestDeltasOweAWholeReading(t *testing.T) {
	for name, spoil := range map[string]func(e *extract.End){
		"incremental":     func(e *extract.End) { e.Partial = true },
		"skipped parents": func(e *extract.End) { e.Skipped, e.Parents = 1, 2 },
		"contradicted":    func(e *extract.End) { e.FirstTotal, e.LastTotal = 99, 99 },
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(5)
			r := newDeltaRig(t, m)
			r.config.Catalogue = nil
			r.start()
			r.sync()
			m.records[2] = 7
			m.send(m.event("updated", 2))
			require.Equal(t, []string{"v2.contacts"}, r.apply().Refresh)
			m.spoil = spoil
			_, err := pipeline.Run(t.Context(), r.config)
			require.NoError(t, err)
			require.True(t, r.owed(), "%s", cursorOf(t, r))
			require.Empty(t, m.from, "the list is read from its beginning")
			m.spoil = nil
			r.sync()
			require.False(t, r.owed(), "%s", cursorOf(t, r))
			r.equal()
		})
	}
}

// A reading that is refused because another run is under way is requested again at the same interval. The intervals
// grow only between readings that took place.
func TestDeltasRefusedRefresh(t *testing.T) {
	m := newModel(5)
	r := newDeltaRig(t, m)
	r.config.Catalogue = nil
	r.start()
	r.sync()
	r.deltas.pace.refresh = time.Hour / 8
	again := func() bool {
		q := r.deltas.queues["v2.contacts"]
		q.refreshedAt = q.refreshedAt.Add(-r.deltas.pace.refresh)
		rep, err := r.deltas.Apply(t.Context())
		require.NoError(t, err)
		return len(rep.Refresh) > 0
	}
	m.records[2] = 7
	m.send(m.event("updated", 2))
	require.Equal(t, []string{"v2.contacts"}, r.apply().Refresh)
	for range 5 {
		r.deltas.Refused([]string{"v2.contacts"})
		require.True(t, again())
	}
	require.True(t, again(), "the first reading takes place")
	require.False(t, again())
	require.True(t, again(), "the second reading takes place after twice the interval")
	r.deltas.Refused([]string{"v2.contacts"})
	r.deltas.Refused([]string{"v2.contacts"})
	require.Equal(t, 2, r.deltas.queues["v2.contacts"].refreshTries, "earlier readings still count")
}

func TestDeltasContinueWithoutADeadDestination(t *testing.T) {
	m := newModel(100)
	up, down := loadtest.NewMemory(nil), &brittle{Memory: loadtest.NewMemory(nil)}
	r := newDeltaRig(t, m, pipeline.Destination{Name: "up", Destination: up}, pipeline.Destination{Name: "down", Destination: down})
	r.sync()
	r.deltas.pace.entities, r.deltas.pace.chunk = 160, 10
	down.err = errors.New("no connection")
	r.deltas.pace.rest = maxRest
	var refresh []string
	for id := range 100 {
		m.records[id+1] = 2
		m.send(m.event("updated", id+1))
		if id%20 != 19 {
			continue
		}
		rep, err := r.deltas.Apply(t.Context())
		require.NoError(t, err)
		require.Zero(t, rep.Through, "the inbox keeps the events that one destination lacks")
		refresh = append(refresh, rep.Refresh...)
	}
	require.Equal(t, m.truth(), rows(t, up), "the reachable destination has all records")
	require.Empty(t, refresh, "the stream need not be read again")
	require.LessOrEqual(t, len(r.deltas.queues["v2.contacts"].waiting), 40, "at most 40 records of one stream wait")
	down.err = nil
	clear(r.deltas.resting)
	for range 40 {
		_, err := r.deltas.Apply(t.Context())
		require.NoError(t, err)
	}
	r.equal()
	rep, err := r.deltas.Apply(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 100, rep.Through)
	require.LessOrEqual(t, m.asked, 3*len(m.events))
	scan(t, up, "v2_contacts", []string{schemas.ColVia}, func(row []string) { require.Equal(t, "webhook", row[0]) })
}
