package deltas

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type model struct {
	mu      sync.Mutex
	records map[int]int
	next    int
	passes  int
	between func()
	served  func(id int) error
	old     map[int]int  // number of requests for which the source still returns the old record, by id
	was     map[int]*int // version of the old record; nil: the record did not exist
	asked   int
	made    int
	totals  bool
	spoil   func(*extract.End)
	from    state.Cursor

	events []state.Event
	lost   map[int]bool // records whose event was lost, so that only a run finds the change
}

func newModel(n int) *model {
	m := &model{records: map[int]int{}, old: map[int]int{}, was: map[int]*int{}, lost: map[int]bool{}}
	for range n {
		m.next++
		m.records[m.next] = 1
	}
	return m
}

func (m *model) step() {
	if m.between != nil {
		m.between()
	}
}

func modelRecord(id, version int) string {
	return fmt.Sprintf(`{"id":%d,"name":"n%d","updated_at":"2026-11-21T10:00:00Z"}`, id, version)
}

func (m *model) ids() []int { return slices.Sorted(maps.Keys(m.records)) }

const modelPage = 4

func (m *model) Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[extract.Page, error] {
	at := 0
	var place struct {
		At int `json:"at"`
	}
	if from != "" && json.Unmarshal([]byte(from), &place) == nil {
		at = place.At
	}
	return func(yield func(extract.Page, error) bool) {
		m.mu.Lock()
		m.passes++
		m.from = from
		pass, total := m.passes, int64(len(m.records))
		m.mu.Unlock()
		for resumed, pages := at > 0, 1; ; pages++ {
			m.step()
			if ctx.Err() != nil {
				yield(extract.Page{}, context.Cause(ctx))
				return
			}
			m.mu.Lock()
			var body []byte
			n := 0
			for _, id := range m.ids() {
				if id <= at || n == modelPage {
					continue
				}
				record := []byte(modelRecord(id, m.records[id]))
				if s.Parent != "" {
					record = extract.WithContext(record, s.Params[0].Name, strconv.AppendInt(nil, int64(id), 10))
				}
				body = append(append(body, ','), record...)
				at, n = id, n+1
			}
			now := int64(len(m.records))
			m.mu.Unlock()
			if n == 0 {
				body = []byte{'['}
			}
			body[0] = '['
			p := extract.Page{Records: append(body, ']'), Requests: 1, Total: -1, Next: state.Cursor(fmt.Sprintf(`{"at":%d}`, at))}
			if n < modelPage {
				p.Next = state.Cursor(fmt.Sprintf(`{"done":%d}`, pass))
				p.End = &extract.End{Rule: extract.RuleEmptyPage, Pages: pages, Resumed: resumed, FirstTotal: -1, LastTotal: -1}
				if m.totals {
					p.End.FirstTotal, p.End.LastTotal = total, now
				}
				if m.spoil != nil {
					m.spoil(p.End)
				}
			}
			if !yield(p, nil) || n < modelPage {
				return
			}
		}
	}
}

func (m *model) Sample(ctx context.Context, s schemas.Stream) (extract.Page, error) {
	for p, err := range m.Pages(ctx, s, "") {
		return p, err
	}
	return extract.Page{}, nil
}

func (m *model) Record(_ context.Context, _ schemas.Stream, values map[string][]byte) ([]byte, int, error) {
	m.step()
	id, err := strconv.Atoi(string(values["id"]))
	if err != nil {
		return nil, 1, &wire.Error{Class: wire.Invalid, Status: 400}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if m.served != nil {
		if err := m.served(id); err != nil {
			return nil, 1, err
		}
	}
	version, there := m.records[id]
	if m.old[id] > 0 {
		m.old[id]--
		if there = m.was[id] != nil; there {
			version = *m.was[id]
		}
	}
	if !there {
		return nil, 1, nil
	}
	return []byte(modelRecord(id, version)), 1, nil
}

func (m *model) change(random *rand.Rand) (e state.Event, id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := m.ids()
	n := random.IntN(10)
	if len(ids) < 3 || n < 2 {
		m.next++
		m.records[m.next] = 1
		return m.event("created", m.next), m.next
	}
	id = ids[random.IntN(len(ids))]
	if n < 4 {
		delete(m.records, id)
		return m.event("deleted", id), id
	}
	m.records[id]++
	return m.event("updated", id), id
}

func (m *model) event(action string, id int) state.Event {
	e := state.Event{Source: "main", Type: "contact." + action, Scheme: "hex"}
	m.made++
	e.ID = fmt.Sprintf("evt_%d", m.made)
	e.Body = fmt.Appendf(nil, `{"id":%q,"type":%q,"data":%s}`, e.ID, e.Type, modelRecord(id, m.records[id]))
	return e
}

func (m *model) send(e state.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.Ordinal, e.Received = int64(len(m.events)+1), time.Now()
	m.events = append(m.events, e)
}

func (m *model) Events(_ context.Context, source string, after int64, limit int) ([]state.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []state.Event
	for _, e := range m.events[min(after, int64(len(m.events))):] {
		if e.Source == source && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, nil
}

var hasty = applyRate{patience: time.Minute, lockWait: 50 * time.Millisecond, again: []time.Duration{0, 0}, trust: time.Hour, chunk: 50, slice: 5, entities: 10_000, listAbove: 1_000}

func modelStreams(t *testing.T) (list schemas.Stream, catalogue []schemas.Stream) {
	t.Helper()
	all, err := schemas.Load()
	require.NoError(t, err)
	list, _ = all.Find("v2.contacts")
	return list, all.Streams()
}

type deltaRig struct {
	t      *testing.T
	model  *model
	config pipeline.Config
	deltas *Deltas
	dead   map[int64]string
}

func newDeltaRig(t *testing.T, m *model, dests ...pipeline.Destination) *deltaRig {
	t.Helper()
	list, catalogue := modelStreams(t)
	if dests == nil {
		dests = []pipeline.Destination{{Name: "warehouse", Destination: loadtest.NewMemory(nil)}}
	}
	r := &deltaRig{t: t, model: m, dead: map[int64]string{}}
	r.config = pipeline.Config{Name: "nightly", Source: m, Destinations: dests, Streams: []schemas.Stream{list}, Catalogue: catalogue,
		Locks: &overlay.Locks{}, GroupRows: 1, GroupBytes: 1}
	r.start()
	return r
}

func (r *deltaRig) start() {
	known, err := schemas.LoadEvents()
	require.NoError(r.t, err)
	inbox := extract.NewInbox(r.model, "main", known, r.config.Streams)
	r.deltas, err = New(Config{Config: r.config, Inbox: inbox, Quarantine: func(_ context.Context, n int64, why string) error { r.dead[n] = why; return nil }})
	require.NoError(r.t, err)
	r.deltas.pace = hasty
}

func (r *deltaRig) apply() (sum Report) {
	r.t.Helper()
	for range 50 {
		rep, err := r.deltas.Apply(r.t.Context())
		require.NoError(r.t, err)
		require.NoError(r.t, rep.Trouble)
		sum.Events += rep.Events
		sum.Applied += rep.Applied
		sum.Refetches += rep.Refetches
		sum.Written += rep.Written
		sum.Deleted += rep.Deleted
		sum.Unmapped += rep.Unmapped
		sum.Conflicts += rep.Conflicts
		sum.Dead += rep.Dead
		sum.Lags = append(sum.Lags, rep.Lags...)
		sum.Through, sum.Waiting = rep.Through, rep.Waiting
		sum.Refresh = append(sum.Refresh, rep.Refresh...)
		if rep.Waiting == 0 {
			return sum
		}
	}
	r.t.Fatalf("still behind: %+v", sum)
	return sum
}

func (r *deltaRig) sync() pipeline.Report {
	r.t.Helper()
	rep, err := pipeline.Run(r.t.Context(), r.config)
	require.NoError(r.t, err)
	require.Equal(r.t, pipeline.StatusComplete, rep.Status, "%v", rep.Streams)
	return rep
}

func rows(t *testing.T, d load.Destination) map[int]string {
	t.Helper()
	out := map[int]string{}
	scan(t, d, "v2_contacts", []string{"id", "name", schemas.ColDeletedAt}, func(row []string) {
		if row[2] != "" {
			return
		}
		id, err := strconv.Atoi(row[0])
		require.NoError(t, err)
		require.NotContains(t, out, id, "two rows of one record")
		out[id] = row[1]
	})
	return out
}

func (m *model) truth() map[int]string {
	out := map[int]string{}
	for id, version := range m.records {
		out[id] = fmt.Sprintf("n%d", version)
	}
	return out
}

func (r *deltaRig) equal() {
	r.t.Helper()
	for _, d := range r.config.Destinations {
		require.Equal(r.t, r.model.truth(), rows(r.t, d), d.Name)
	}
}
