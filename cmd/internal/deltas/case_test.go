package deltas

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func TestDeltasApplyAnEventOnce(t *testing.T) {
	m := newModel(5)
	r := newDeltaRig(t, m)
	r.sync()
	m.records[1] = 7
	e := m.event("updated", 1)
	m.send(e)
	require.EqualValues(t, 1, r.apply().Written)
	asked := m.asked
	r.start()
	require.Zero(t, r.apply().Refetches, "requests for applied events")
	require.Equal(t, asked, m.asked)
	m.send(e)
	require.Zero(t, r.apply().Written)
	r.equal()
}

func TestDeltasContinueAfterAKill(t *testing.T) {
	m := newModel(30)
	r := newDeltaRig(t, m)
	r.sync()
	for id := range 20 {
		m.records[id+1] = 2
		m.send(m.event("updated", id+1))
	}
	commits := 0
	memory := r.config.Destinations[0].Destination.(*loadtest.Memory)
	r.config.Destinations[0].Destination = memory.Reopen(func(step string) error {
		if step == "precommit" {
			if commits++; commits == 4 {
				return errKilled
			}
		}
		return nil
	})
	r.start()
	_, err := r.deltas.Apply(t.Context())
	require.NoError(t, err)
	before := m.asked
	r.config.Destinations[0].Destination = memory.Reopen(nil)
	r.start()
	r.apply()
	r.equal()
	require.Less(t, m.asked-before, 20, "committed records are not requested again")
}

// If two events have the same id but different bodies, the values of neither are used.
func TestDeltasConflict(t *testing.T) {
	m := newModel(4)
	r := newDeltaRig(t, m)
	r.sync()
	m.records[2] = 3
	e := m.event("updated", 2)
	m.send(e)
	e.Conflict, e.Body = true, []byte(`{"id":"`+e.ID+`","type":"contact.updated","data":{"id":2,"name":"forged"}}`)
	m.send(e)
	rep := r.apply()
	require.Equal(t, 1, rep.Conflicts)
	r.equal()
}

// If events arrive in the wrong order or name unknown records, the table still equals the source.
func TestDeltasWrongOrders(t *testing.T) {
	for name, story := range map[string]func(m *model){
		"deleted before created": func(m *model) {
			m.records[9] = 1
			e := m.event("created", 9)
			delete(m.records, 9)
			m.send(m.event("deleted", 9))
			m.send(e)
		},
		"created after deleted": func(m *model) {
			delete(m.records, 2)
			e := m.event("deleted", 2)
			m.records[2] = 4
			m.send(m.event("created", 2))
			m.send(e)
		},
		"update of an unknown record": func(m *model) { m.records[9] = 2; m.send(m.event("updated", 9)) },
		"update of a record that is gone": func(m *model) {
			e := m.event("updated", 3)
			delete(m.records, 3)
			m.send(e)
		},
		"deletion of a record that never existed": func(m *model) { m.send(m.event("deleted", 77)) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(5)
			r := newDeltaRig(t, m)
			r.sync()
			story(m)
			require.LessOrEqual(t, r.apply().Refetches, 3*len(m.events))
			r.equal()
		})
	}
}

func TestDeltasBeforeTheFirstRun(t *testing.T) {
	m := newModel(5)
	r := newDeltaRig(t, m)
	m.send(m.event("updated", 2))
	r.apply()
	require.Equal(t, map[int]string{2: "n1"}, rows(t, r.config.Destinations[0]))
	rep := r.sync()
	require.Positive(t, rep.Streams[0].Counts.Unchanged)
	r.equal()
}

func TestDeltasKeepUnknownEvents(t *testing.T) {
	m := newModel(3)
	r := newDeltaRig(t, m)
	r.sync()
	bodies := []string{`{"id":"1","type":"gadget.made","data":{"id":1}}`, `{"type":7}`, `{"id":"3","type":"../../x"}`, "not JSON", "\xff\x00\x01", `[]`, `{"id":"e","type":"contact.updated"}`}
	for i, b := range bodies {
		m.send(state.Event{Source: "main", ID: strconv.Itoa(i), Type: map[bool]string{true: "contact.updated", false: "gadget.made"}[i == 6], Scheme: "hex", Body: []byte(b)})
	}
	rep := r.apply()
	require.Equal(t, len(bodies), rep.Events)
	require.Equal(t, len(bodies)-1, rep.Unmapped)
	require.Equal(t, []string{"v2.contacts"}, rep.Refresh, "an event without a record id requires a reading of the stream")
	var states, encodings []string
	scan(t, r.config.Destinations[0], load.Events.Name, []string{"state", "encoding"}, func(row []string) {
		states, encodings = append(states, row[0]), append(encodings, row[1])
	})
	require.Equal(t, []string{"unmapped", "unmapped", "unmapped", "unparsed", "unparsed", "unparsed", "mapped"}, states)
	require.Equal(t, []string{"", "", "", "", "base64", "", ""}, encodings)
	r.sync()
	require.Empty(t, r.apply().Refresh, "the stream has been read since then")
}

func TestDeltasStaleReads(t *testing.T) {
	m := newModel(6)
	r := newDeltaRig(t, m)
	r.sync()
	was := m.records[1]
	m.records[1] = 9
	m.old[1], m.was[1] = 1, &was
	m.send(m.event("updated", 1))
	two := m.records[2]
	delete(m.records, 2)
	m.old[2], m.was[2] = 2, &two
	m.send(m.event("deleted", 2))
	m.records[8] = 1
	m.old[8], m.was[8] = 1, nil
	m.send(m.event("created", 8))
	rep := r.apply()
	r.equal()
	require.LessOrEqual(t, rep.Refetches, 9)
	require.Len(t, rep.Lags, 3, "one lag per record")
}

func TestDeltasPoison(t *testing.T) {
	m := newModel(200)
	r := newDeltaRig(t, m)
	r.sync()
	for id := 1; id <= 200; id++ {
		m.records[id] = 2
		m.send(m.event("updated", id))
	}
	m.served = func(id int) error {
		if id == 77 {
			return &wire.Error{Class: wire.Malformed, Status: 200, Message: "half a record"}
		}
		return nil
	}
	rep := r.apply()
	require.Equal(t, 1, rep.Dead)
	require.EqualValues(t, 199, rep.Written)
	require.Contains(t, r.dead[77], "half a record")
	require.Contains(t, fmt.Sprint(memoryOf(r).Rows(load.Rejects.Name)), "event 77 was given up after 3 tries")
	m.served = nil
	require.Zero(t, r.apply().Refetches, "no more tries")
	r.sync()
	r.equal()
}

func TestDeltasHostileRecord(t *testing.T) {
	for name, fault := range map[string]*wire.Error{
		"403":        {Class: wire.NotEntitled, Status: 403, Message: "hostile", Attempts: 1},
		"login page": {Class: wire.Auth, Status: 200, Message: "hostile", Attempts: 1},
		"502":        {Class: wire.Transient, Status: 502, Message: "hostile", Attempts: 1},
		"its key":    {Class: wire.Refused, Message: "hostile"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(50)
			r := newDeltaRig(t, m)
			r.sync()
			for id := 1; id <= 50; id++ {
				m.records[id] = 2
				m.send(m.event("updated", id))
			}
			m.served = func(id int) error {
				if id == 17 {
					return fault
				}
				return nil
			}
			rep := r.apply()
			require.Equal(t, 1, rep.Dead)
			require.EqualValues(t, 49, rep.Written)
			require.Empty(t, rep.Refresh)
			require.Contains(t, r.dead[17], "hostile")
			m.served = nil
			r.sync()
			r.equal()
		})
	}
}

func memoryOf(r *deltaRig) *loadtest.Memory {
	return r.config.Destinations[0].Destination.(*loadtest.Memory)
}

func TestDeltasEndpointGone(t *testing.T) {
	m := newModel(6)
	r := newDeltaRig(t, m)
	r.sync()
	m.served = func(int) error { return &wire.Error{Class: wire.NotEntitled, Status: 403} }
	m.records[3] = 4
	m.send(m.event("updated", 3))
	var rep Report
	for range 5 {
		var err error
		rep, err = r.deltas.Apply(t.Context())
		require.NoError(t, err)
	}
	require.Zero(t, rep.Waiting)
	require.EqualValues(t, 1, rep.Through)
	require.Equal(t, []string{"v2.contacts"}, rep.Refresh)
	r.sync()
	r.equal()
}

type brittle struct {
	*loadtest.Memory
	err error
}

func (b *brittle) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	if b.err != nil {
		return "", b.err
	}
	return b.Memory.Cursor(ctx, k)
}

func TestDeltasDestinationDown(t *testing.T) {
	m := newModel(50)
	up, down := loadtest.NewMemory(nil), &brittle{Memory: loadtest.NewMemory(nil)}
	r := newDeltaRig(t, m, pipeline.Destination{Name: "up", Destination: up}, pipeline.Destination{Name: "down", Destination: down})
	r.sync()
	down.err = errors.New("no connection")
	r.deltas.pace.rest = time.Hour
	for n := range 500 {
		id := n%50 + 1
		m.records[id]++
		m.send(m.event("updated", id))
	}
	var rep Report
	for range 30 {
		var err error
		rep, err = r.deltas.Apply(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, m.truth(), rows(t, up))
	require.Zero(t, rep.Through, "no event may be removed from the inbox")
	require.LessOrEqual(t, m.asked, 3*500)
	down.err = nil
	clear(r.deltas.resting)
	require.EqualValues(t, 500, r.apply().Through)
	r.equal()
	for _, d := range r.config.Destinations {
		n := 0
		scan(t, d, load.Events.Name, []string{"ordinal"}, func([]string) { n++ })
		require.Equal(t, 500, n, d.Name)
	}
}

// A new inbox numbers its events from the beginning. Its events must not be mistaken for events that were already
// applied.
func TestDeltasInboxLost(t *testing.T) {
	m := newModel(5)
	r := newDeltaRig(t, m)
	r.sync()
	for range 10 {
		m.send(m.event("updated", 1))
	}
	r.apply()
	m.events = nil
	time.Sleep(2 * time.Millisecond) // the event must be received at least a microsecond after the last commit
	r.start()
	m.records[2] = 8
	m.send(m.event("updated", 2))
	rep := r.apply()
	require.Equal(t, 1, rep.Events)
	r.equal()
	r.start()
	require.Zero(t, r.apply().Refetches)
}

func TestDeltasCoverage(t *testing.T) {
	m := newModel(10)
	r := newDeltaRig(t, m)
	r.sync()
	for id := 1; id <= 3; id++ {
		m.records[id] = 2
		m.send(m.event("updated", id))
	}
	r.apply()
	m.records[4] = 2
	rep := r.sync()
	require.EqualValues(t, 1, rep.Streams[0].Webhooks.Found)
	at, err := memoryOf(r).Cursor(t.Context(), state.Key{Pipeline: "nightly", Stream: "v2.contacts"})
	require.NoError(t, err)
	w, ok := cursor.WebhooksOf(at)
	require.True(t, ok)
	require.EqualValues(t, 3, w.Announced)
	require.EqualValues(t, 1, w.Found)
	share, _ := w.Coverage()
	require.InDelta(t, 0.75, share, 0.001)
}

// Values from an event are stored in the row until the next reading of the stream. The other values of the row stay.
func TestDeltasProvisional(t *testing.T) {
	m := newModel(5)
	r := newDeltaRig(t, m)
	r.config.Catalogue = nil
	r.start()
	r.sync()
	m.records[2] = 9
	e := m.event("updated", 2)
	e.Body = []byte(`{"data":{"id":2,"name":"n9","size":7,"updated_at":"21-11-2026 10:05"}}`)
	m.send(e)
	m.send(state.Event{Source: "main", Type: "contact.deleted", Scheme: "hex", Body: []byte(`{"data":{"id":3}}`)})
	m.send(m.event("created", 77))
	rep := r.apply()
	require.Equal(t, []string{"v2.contacts"}, rep.Refresh)
	var told []string
	scan(t, memoryOf(r), "v2_contacts", []string{"id", "name", "updated_at", schemas.ColVia, schemas.ColHash}, func(row []string) {
		if row[3] == "webhook" {
			told = append(told, row[0], row[1], row[2], row[4])
		}
	})
	require.Equal(t, []string{"2", "n9", "2026-11-21T10:00:00Z", provisionalHash}, told)
	require.Len(t, rows(t, memoryOf(r)), 5)
	require.EqualValues(t, 1, r.sync().Totals().Counts.Written)
	r.equal()
	require.Empty(t, r.apply().Refresh)
}

func TestDeltasFilter(t *testing.T) {
	m := newModel(5)
	r := newDeltaRig(t, m)
	s := &r.config.Streams[0]
	s.Rules.Filter = []schemas.Condition{{Column: "name", NotIn: []string{"n9"}}}
	r.start()
	r.sync()
	m.records[2] = 9
	m.send(m.event("updated", 2))
	require.EqualValues(t, 1, r.apply().Deleted)
	require.NotContains(t, rows(t, memoryOf(r)), 2)
}

func TestDeltasKeepEventsTogether(t *testing.T) {
	m := newModel(5)
	r := newDeltaRig(t, m)
	r.sync()
	clock := time.Now()
	r.deltas.now = func() time.Time { return clock }
	r.deltas.pace.quiet = 2 * time.Second
	events := 0
	for range 10 {
		m.send(m.event("updated", 1))
		rep, err := r.deltas.Apply(t.Context())
		require.NoError(t, err)
		if rep.Events > 0 {
			events++
		}
		require.True(t, rep.ApplyAfter > 0 || rep.Through == int64(len(m.events)), "%+v", rep)
		clock = clock.Add(500 * time.Millisecond)
	}
	require.Equal(t, 3, events, "ten events in five seconds need only three commits")
	clock = clock.Add(time.Minute)
	require.EqualValues(t, 10, r.apply().Through)
}
