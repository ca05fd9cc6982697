package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

type change struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Size    any    `json:"size,omitempty"`
	Updated any    `json:"updated_at"`
	Created any    `json:"created_at,omitempty"`

	at, created time.Time
}

// moving is a server whose list changes between any two requests. Its clock advances by half a second per request. It
// stores the times of changes as whole seconds, so two changes in a row often have the same time.
type moving struct {
	mu       sync.Mutex
	random   *rand.Rand
	clock    time.Time
	passed   time.Duration
	rows     []change
	next     int
	rate     int
	requests int

	newest    bool // the list is ordered by the latest change first; else by id
	exclusive bool // the filter leaves out records with exactly the requested time
	silent    bool // some changes do not update updated_at
	creation  bool // order and filter use the creation time instead of the time of change
	size      int
}

func (m *moving) tick() {
	m.clock = m.clock.Add(500 * time.Millisecond)
	for range m.rate {
		m.change()
	}
}

func (m *moving) change() {
	at := m.clock.Truncate(time.Second)
	if len(m.rows) == 0 || m.random.IntN(3) == 0 {
		m.next++
		m.rows = append(m.rows, change{ID: m.next, Name: "new", at: at})
		return
	}
	r := &m.rows[m.random.IntN(len(m.rows))]
	r.Name = "v" + strconv.Itoa(m.random.IntN(1<<30))
	if !m.silent || m.random.IntN(4) > 0 {
		r.at = at
	}
}

func (m *moving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	m.tick()
	q := r.URL.Query()
	rows := slices.Clone(m.rows)
	if since := q.Get("updated_since"); since != "" {
		bound, err := time.Parse(time.RFC3339, since)
		if err != nil {
			http.Error(w, `{"message":"bad updated_since"}`, http.StatusUnprocessableEntity)
			return
		}
		rows = slices.DeleteFunc(rows, func(c change) bool {
			at := m.sorted(c)
			return at.Before(bound) || m.exclusive && at.Equal(bound)
		})
	}
	if until := q.Get("updated_before"); until != "" {
		bound, _ := time.Parse(time.RFC3339, until)
		rows = slices.DeleteFunc(rows, func(c change) bool { return c.at.After(bound) || m.exclusive && c.at.Equal(bound) })
	}
	slices.SortFunc(rows, func(a, b change) int {
		if c := m.sorted(b).Compare(m.sorted(a)); m.newest && c != 0 {
			return c
		}
		return cmp.Compare(a.ID, b.ID)
	})
	page := max(1, atoi(q.Get("page")))
	last := max(1, (len(rows)+m.size-1)/m.size)
	from := min(len(rows), (page-1)*m.size)
	rows = rows[from:min(len(rows), from+m.size)]
	for i := range rows {
		rows[i].Updated = rows[i].at.Format(time.RFC3339)
		if !rows[i].created.IsZero() {
			rows[i].Created = rows[i].created.Format(time.RFC3339)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", m.clock.UTC().Format(http.TimeFormat))
	_ = json.NewEncoder(w).Encode(map[string]any{"data": rows, "meta": map[string]any{"current_page": page, "last_page": last}})
}

func (m *moving) sorted(c change) time.Time {
	if m.creation {
		return c.created
	}
	return c.at
}

func (m *moving) now() time.Time { return time.Now().Add(m.passed) }

func (m *moving) later(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock, m.passed = m.clock.Add(d), m.passed+d
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

// pace changes the rate and sets the clock forward in one step, because a request that the reader has given up may
// still be running.
func (m *moving) pace(rate int, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rate, m.clock = rate, m.clock.Add(after)
}

func (m *moving) truth() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]string{}
	for _, r := range m.rows {
		all[strconv.Itoa(r.ID)] = r.Name
	}
	return all
}

type movingRig struct {
	*rig
	server *moving
	http   *httptest.Server
}

func newMoving(t *testing.T, m *moving, i schemas.Incremental) *movingRig {
	t.Helper()
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	w, err := wire.New(wire.Options{Name: "test", BaseURL: srv.URL, Allow: []wire.Route{{Method: "GET", Path: "/items"}},
		Rate: budget.Rate{Limit: 100_000, Window: time.Second}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	s := sourcetest.Stream("items")
	s.Name, s.Method, s.Path, s.Incremental = "crm.items", "GET", "/items", i
	s.Records = []string{"/data"}
	s.Stated = map[string]string{"incremental": schemas.StatedConfigured}
	client, err := extract.New(extract.Config{App: w, Selected: []schemas.Stream{s}, Dir: t.TempDir(), Now: m.now})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	g := &rig{t: t, memory: loadtest.NewMemory(nil)}
	g.config = Config{Name: "nightly", Streams: []schemas.Stream{s}, Source: client, Now: m.now}
	return &movingRig{g, m, srv}
}

func (r *movingRig) missing() (wrong []string) {
	have := map[string]string{}
	for _, row := range r.memory.Rows("items") {
		have[fmt.Sprint(row["id"])] = fmt.Sprint(row["name"])
	}
	for id, name := range r.server.truth() {
		if have[id] != name {
			wrong = append(wrong, fmt.Sprintf("%s: %q, not %q", id, have[id], name))
		}
	}
	return wrong
}

func (r *movingRig) once() StreamReport {
	r.t.Helper()
	rep, err := r.run(r.t.Context())
	require.NoError(r.t, err)
	require.Len(r.t, rep.Streams, 1)
	r.http.CloseClientConnections()
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return rep.Streams[0]
}

// If one pass misses a change, the next pass after the list has stopped changing loads it. Rarely, two passes miss a
// change. Then the next whole pass loads it.
func TestIncrementalMissesNothing(t *testing.T) {
	seeds, missed, requests := sourcetest.Trials(40), 0, 0
	for seed := range seeds {
		m := &moving{random: rand.New(rand.NewPCG(uint64(seed), 4)), clock: time.Now().UTC().Truncate(time.Second), size: 7,
			newest: seed%2 == 1, exclusive: seed%4 < 2}
		pace := rand.New(rand.NewPCG(uint64(seed), 5))
		for range 150 {
			m.change()
		}
		i := schemas.Incremental{Field: "updated_at", Format: schemas.MomentRFC3339, Lookback: time.Second}
		if seed%3 > 0 || !m.newest {
			i.Param = "updated_since"
		}
		r := newMoving(t, m, i)
		r.once()
		for range 6 {
			m.pace(pace.IntN(3), 0)
			r.once()
		}
		m.pace(0, 2*time.Second)
		before := m.requests
		for range 2 {
			rep := r.once()
			require.Equal(t, StatusComplete, rep.Status, "seed %d: %v", seed, rep.Reasons)
		}
		requests += m.requests - before
		if wrong := r.missing(); len(wrong) > 0 {
			missed++
			t.Logf("seed %d: %v", seed, wrong)
		}
		r.config.Options.Full = true
		r.once()
		require.Empty(t, r.missing(), "seed %d: a whole pass loads every change", seed)
	}
	t.Logf("%d of %d seeds had a change that two passes missed; %d requests for two passes each over an unchanged list", missed, seeds, requests)
	require.LessOrEqual(t, missed*100, seeds, "two passes missed a change in more than 1 %% of the seeds")
}

func atRest(newest bool) *moving {
	m := &moving{random: rand.New(rand.NewPCG(9, 9)), clock: time.Now().UTC().Add(-time.Hour).Truncate(time.Second), size: 10, newest: newest}
	for range 500 {
		m.next++
		m.clock = m.clock.Add(time.Second)
		m.rows = append(m.rows, change{ID: m.next, Name: "new", at: m.clock})
	}
	m.clock = m.clock.Add(time.Hour)
	return m
}

var sinceFilter = schemas.Incremental{Field: "updated_at", Format: schemas.MomentRFC3339, Param: "updated_since", Lookback: time.Second}

func TestIncrementalReadsLittle(t *testing.T) {
	for name, i := range map[string]schemas.Incremental{"filter": sinceFilter, "newest first": {Field: "updated_at", Format: schemas.MomentRFC3339, Lookback: time.Second}} {
		t.Run(name, func(t *testing.T) {
			m := atRest(i.Param == "")
			r := newMoving(t, m, i)
			first := r.once()
			require.EqualValues(t, 500, first.Counts.Written)
			for _, changes := range []int{0, 5} {
				for range changes {
					m.change()
				}
				m.clock = m.clock.Add(10 * time.Second)
				before := m.requests
				rep := r.once()
				require.Equal(t, StatusComplete, rep.Status, rep.Reasons)
				require.Equal(t, Consistent, rep.Verdict)
				require.LessOrEqual(t, m.requests-before, 5, "%d changes", changes)
				require.Empty(t, r.missing())
				require.Zero(t, rep.Missing)
				require.Zero(t, rep.Counts.Deleted)
			}
		})
	}
}

// A whole pass finds a change that did not update the time of change. From then on every pass reads the whole list.
func TestIncrementalIsGivenUp(t *testing.T) {
	m := atRest(false)
	r := newMoving(t, m, sinceFilter)
	r.once()
	m.mu.Lock()
	for i := range 20 {
		m.rows[i].Name = "behind its back"
	}
	m.mu.Unlock()
	m.mu.Lock()
	m.clock = m.clock.Add(time.Hour)
	for i := 100; i < 130; i++ {
		m.rows[i].Name, m.rows[i].at = "changed", m.clock
	}
	m.clock = m.clock.Add(5 * time.Second)
	m.mu.Unlock()
	rep := r.once()
	require.EqualValues(t, 30, rep.Counts.Written)
	require.Len(t, r.missing(), 20)

	r.config.Streams[0].Incremental.Full = time.Nanosecond
	rep = r.once()
	require.Empty(t, r.missing())
	require.Len(t, rep.Notices, 1)
	require.Equal(t, drift.NoticeIncremental, rep.Notices[0].Kind)
	require.Contains(t, rep.Notices[0].Reason, "20 records were new or changed")

	r.config.Streams[0].Incremental.Full = 0
	for range 2 {
		before := m.requests
		r.once()
		require.GreaterOrEqual(t, m.requests-before, 50, "the whole list is read")
	}
}

// The list of a stream without a key is always read whole, because each row that is missing from a pass counts as gone.
func TestIncrementalNeedsAKey(t *testing.T) {
	m := atRest(false)
	r := newMoving(t, m, sinceFilter)
	r.config.Streams[0].Key = nil
	r.once()
	before := m.requests
	r.once()
	require.GreaterOrEqual(t, m.requests-before, 50)
	require.Empty(t, r.missing())
}

func TestIncrementalIsResumed(t *testing.T) {
	m := atRest(false)
	r := newMoving(t, m, sinceFilter)
	r.once()
	for range 200 {
		m.change()
	}
	m.clock = m.clock.Add(10 * time.Second)
	r.config.limits = defaultLimits
	r.config.limits.groupRows = 20
	commits := 0
	r.restart(func(step string) error {
		if commits++; commits > 6 {
			return fmt.Errorf("stopped at %s", step)
		}
		return nil
	})
	_, _ = r.run(t.Context())
	r.restart(nil)
	before := m.requests
	rep := r.once()
	require.Equal(t, StatusComplete, rep.Status, rep.Reasons)
	require.Less(t, m.requests-before, 50)
	require.Empty(t, r.missing())
}

func TestIncrementalAuto(t *testing.T) {
	m := atRest(false)
	m.rows[3].at = m.clock.Add(-time.Minute)
	r := newMoving(t, m, schemas.Incremental{Auto: true, Lookback: time.Second})
	require.EqualValues(t, 500, r.once().Counts.Written)
	for range 5 {
		m.change()
	}
	before := m.requests
	rep := r.once()
	require.Equal(t, Consistent, rep.Verdict, rep.Reasons)
	require.Less(t, m.requests-before, 20)
	require.Empty(t, r.missing())
	all, err := Recall(t.Context(), r.memory, "nightly")
	require.NoError(t, err)
	f, ok := all["crm.items"].Fact(extract.FactFilter)
	require.True(t, ok)
	require.Contains(t, f.Value, "updated_since")
	require.NotEmpty(t, f.Evidence)
}

// Until a record is edited, its creation time and its time of change are equal. So probes cannot find out which of the
// two the filter uses, and the list is read whole. After a day and some edits, new probes find it out.
func TestIncrementalAutoWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		byCreation bool
		found      bool
	}{"by creation": {true, false}, "by change": {false, true}} {
		t.Run(name, func(t *testing.T) {
			m := atRest(true)
			m.creation = tt.byCreation
			for i := range m.rows {
				m.rows[i].created = m.rows[i].at
			}
			r := newMoving(t, m, schemas.Incremental{Auto: true, Lookback: time.Second})
			r.once()
			edit := func(i int) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.clock = m.clock.Add(time.Minute)
				m.rows[i].Name, m.rows[i].at = "changed", m.clock
				m.clock = m.clock.Add(10 * time.Second)
			}
			requests := func() int {
				before := m.requests
				r.once()
				require.Empty(t, r.missing())
				return m.requests - before
			}
			edit(3)
			require.LessOrEqual(t, requests(), 52, "the whole list, and no new probes for a day")
			m.later(25 * time.Hour)
			edit(7)
			require.Greater(t, requests(), 50, "new probes, and the whole list")
			for i := range 3 {
				edit(20 + i)
				require.Equal(t, tt.found, requests() < 20)
			}
		})
	}
}

// A change is committed late, so pages of known records come before it. A pass does not end at the first known record.
// It ends where the times of change show that all further records are known.
func TestIncrementalEndsByTime(t *testing.T) {
	m := atRest(true)
	r := newMoving(t, m, schemas.Incremental{Field: "updated_at", Format: schemas.MomentRFC3339, Lookback: 10 * time.Minute})
	r.once()
	m.mu.Lock()
	m.clock = m.clock.Add(time.Hour)
	for i := range 60 {
		m.rows[i].Name, m.rows[i].at = "changed", m.clock
		m.clock = m.clock.Add(time.Second)
	}
	m.clock = m.clock.Add(10 * time.Second)
	m.mu.Unlock()
	for range 3 {
		r.once()
	}
	m.mu.Lock()
	m.rows[99].Name, m.rows[99].at = "late", m.clock.Add(-5*time.Minute)
	m.mu.Unlock()
	before := m.requests
	require.EqualValues(t, 1, r.once().Counts.Written)
	require.Empty(t, r.missing())
	require.Less(t, m.requests-before, 10)
}

// The configuration says that the latest change comes first, but the list is ordered by key. Every pass reads the whole
// list, and the first pass reports why.
func TestIncrementalOrderIsChecked(t *testing.T) {
	m := atRest(false)
	m.rows[3].at = m.clock
	r := newMoving(t, m, schemas.Incremental{Field: "updated_at", Format: schemas.MomentRFC3339, Lookback: time.Second})
	rep := r.once()
	require.Len(t, rep.Notices, 1)
	require.Equal(t, drift.NoticeIncremental, rep.Notices[0].Kind)
	require.Contains(t, rep.Notices[0].Reason, "the latest change does not come first")
	for i := range 2 {
		m.mu.Lock()
		m.rows[400+i].Name, m.rows[400+i].at = "changed", m.clock.Add(time.Minute)
		m.clock = m.clock.Add(time.Hour)
		m.mu.Unlock()
		rep = r.once()
		require.Empty(t, r.missing())
		require.Empty(t, rep.Notices, "the notice is given once")
		require.NotContains(t, rep.Reasons, "incremental")
	}
}

// A change is found even if a record has a time in the future, and even if the source's clock is set back.
func TestIncrementalClocks(t *testing.T) {
	for name, tt := range map[string]struct {
		future time.Duration
		back   time.Duration
		passes int // passes after which the change must be loaded
	}{
		"a year ahead":        {future: 365 * 24 * time.Hour, passes: 1},
		"some hours ahead":    {future: 5 * time.Hour, passes: 1},
		"the clock goes back": {back: 3 * time.Hour, passes: 2},
		"control":             {passes: 1},
	} {
		for _, newest := range []bool{false, true} {
			t.Run(fmt.Sprint(name, newest), func(t *testing.T) {
				m := atRest(newest)
				i := sinceFilter
				if newest {
					i.Param = ""
				}
				r := newMoving(t, m, i)
				m.rows[7].at = m.clock.Add(tt.future)
				m.clock = m.clock.Add(10 * time.Second)
				r.once()
				r.once()
				m.mu.Lock()
				m.clock = m.clock.Add(time.Minute - tt.back)
				m.rows[300].Name, m.rows[300].at = "changed", m.clock
				m.clock = m.clock.Add(10 * time.Second)
				m.mu.Unlock()
				for range tt.passes {
					r.once()
				}
				require.Empty(t, r.missing())
			})
		}
	}
}
