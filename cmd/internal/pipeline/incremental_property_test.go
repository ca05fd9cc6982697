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
	"github.com/penstock-data/penstock/state"
)

type revision struct {
	closed  bool
	name    string
	changed time.Time
	shown   time.Time // when its transaction commits
}

type editedRecord struct {
	id       int
	created  time.Time
	edited   bool
	versions []revision
}

func (e *editedRecord) now(at time.Time) revision {
	v := e.versions[0]
	for _, w := range e.versions[1:] {
		if !w.shown.After(at) && !w.changed.Before(v.changed) {
			v = w
		}
	}
	return v
}

type edited struct {
	mu       sync.Mutex
	random   *rand.Rand
	clock    time.Time
	rows     []*editedRecord
	next     int
	rate     int
	requests int
	atRest   bool

	format    string
	zone      time.Duration // time zone of the times that the server writes without a zone
	order     string        // order of the list: id, created (newest first), changed (latest change first) or rising (latest change last)
	filter    string        // what the filter compares: "" (no filter), created, changed, day, next day or utc; see read() and passes()
	excludes  bool          // the filter excludes records with exactly the requested time
	paging    string        // how pages show the end: last page, total or next
	size      int
	skew      time.Duration // how far the source's clock is ahead of the reader's clock
	dated     bool          // the answers have a Date header
	births    bool          // the records have their creation time
	nulls     bool          // records that were never edited have no time of change
	late      time.Duration
	silent    bool // some changes do not update the time of change
	deletes   bool
	open      bool // the stream has a filter that leaves out closed records
	untouched bool // no record was edited before the first pass
}

const editedLookback = 10 * time.Minute

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func newEdited(seed int) *edited {
	r := rand.New(rand.NewPCG(uint64(seed), 15))
	e := &edited{
		random: r, clock: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(1<<20)) * time.Second),
		format: pick(r, schemas.MomentRFC3339, schemas.MomentRFC3339, schemas.MomentUnix, schemas.MomentUnixMS, schemas.MomentDateTime, schemas.MomentDate),
		order:  pick(r, "id", "created", "changed", "changed", "rising"),
		filter: pick(r, "", "", "changed", "changed", "changed", "created", "day", "next day", "utc"),
		paging: pick(r, "last page", "total", "next"), excludes: r.IntN(2) == 0, size: 5 + r.IntN(10),
		skew: time.Duration(r.IntN(61)-30) * time.Minute, dated: r.IntN(4) > 0, births: r.IntN(4) > 0, nulls: r.IntN(8) == 0,
		late: time.Duration(r.IntN(9)) * time.Minute, silent: r.IntN(6) == 0, deletes: r.IntN(6) == 0, untouched: r.IntN(3) == 0, open: r.IntN(4) == 0,
	}
	if r.IntN(10) == 0 {
		e.late = time.Hour
	}
	if e.format == schemas.MomentDateTime || e.format == schemas.MomentDate {
		e.zone = time.Duration(r.IntN(25)-11) * time.Hour
	}
	return e
}

// commit adds a version of a record. Its transaction may commit later; until then the version is not visible.
func (e *edited) commit(r *editedRecord, changed time.Time) {
	shown := e.clock
	if e.late > 0 && e.random.IntN(3) == 0 {
		shown = shown.Add(time.Duration(e.random.Int64N(int64(e.late))))
	}
	r.versions = append(r.versions, revision{e.random.IntN(4) == 0, "v" + strconv.Itoa(e.random.IntN(1<<30)), changed, shown})
}

func (e *edited) change() {
	r := e.random
	switch {
	case len(e.rows) == 0 || r.IntN(4) == 0:
		e.next++
		row := &editedRecord{id: e.next, created: e.clock}
		e.commit(row, e.clock)
		e.rows = append(e.rows, row)
	case e.deletes && r.IntN(6) == 0:
		at := r.IntN(len(e.rows))
		e.rows = slices.Delete(e.rows, at, at+1)
	default:
		row := e.rows[r.IntN(len(e.rows))]
		at := e.clock
		if e.silent && r.IntN(3) == 0 {
			at = row.versions[len(row.versions)-1].changed
		} else if r.IntN(60) == 0 && !e.nulls {
			at = at.Add(time.Duration(1+r.IntN(500)) * time.Hour) // time of a wrong clock
		}
		row.edited = true
		e.commit(row, at)
	}
}

func (e *edited) begin() {
	late := e.late
	e.late = 0
	for range 40 + e.random.IntN(60) {
		e.next++
		e.clock = e.clock.Add(time.Duration(1+e.random.IntN(7200)) * time.Second)
		row := &editedRecord{id: e.next, created: e.clock}
		e.commit(row, e.clock)
		e.rows = append(e.rows, row)
		if !e.untouched && e.random.IntN(3) == 0 {
			row = e.rows[e.random.IntN(len(e.rows))]
			row.edited = true
			e.commit(row, e.clock)
		}
	}
	e.late = late
	e.clock = e.clock.Add(time.Hour)
}

func (e *edited) write(at time.Time) any {
	switch e.format {
	case schemas.MomentUnix:
		return at.Unix()
	case schemas.MomentUnixMS:
		return at.UnixMilli()
	case schemas.MomentDateTime:
		return at.Add(e.zone).Format(time.DateTime)
	case schemas.MomentDate:
		return at.Add(e.zone).Format(time.DateOnly)
	}
	return at.Format(time.RFC3339)
}

func (e *edited) read(text string) (time.Time, error) {
	zone := e.zone
	if e.filter == "utc" {
		zone = 0
	}
	switch e.format {
	case schemas.MomentUnix:
		n, err := strconv.ParseInt(text, 10, 64)
		return time.Unix(n, 0), err
	case schemas.MomentUnixMS:
		n, err := strconv.ParseInt(text, 10, 64)
		return time.UnixMilli(n), err
	case schemas.MomentDateTime:
		at, err := time.Parse(time.DateTime, text)
		return at.Add(-zone), err
	case schemas.MomentDate:
		at, err := time.Parse(time.DateOnly, text)
		return at.Add(-zone), err
	}
	return time.Parse(time.RFC3339, text)
}

func (e *edited) passes(r *editedRecord, v revision, bound time.Time) bool {
	step := time.Second
	switch e.format {
	case schemas.MomentDate:
		step = 24 * time.Hour
	case schemas.MomentUnixMS:
		step = time.Millisecond
	}
	at := v.changed
	if e.filter == "created" {
		at = r.created
	}
	if e.nulls && !r.edited && e.filter != "created" {
		return false
	}
	at = at.Add(e.zone).Truncate(step).Add(-e.zone)
	switch e.filter {
	case "day":
		bound = bound.Add(e.zone).Truncate(24 * time.Hour).Add(-e.zone)
	case "next day":
		return at.Add(e.zone).Truncate(24 * time.Hour).After(bound.Add(e.zone).Truncate(24 * time.Hour))
	}
	return at.After(bound) || at.Equal(bound) && !e.excludes
}

func (e *edited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests++
	e.clock = e.clock.Add(500 * time.Millisecond)
	for range e.rate {
		e.change()
	}
	rows := slices.DeleteFunc(slices.Clone(e.rows), func(r *editedRecord) bool { return r.versions[0].shown.After(e.clock) })
	if text := r.URL.Query().Get("updated_since"); text != "" && e.filter != "" {
		bound, err := e.read(text)
		if err != nil {
			http.Error(w, `{"message":"bad updated_since"}`, http.StatusUnprocessableEntity)
			return
		}
		rows = slices.DeleteFunc(rows, func(r *editedRecord) bool { return !e.passes(r, r.now(e.clock), bound) })
	}
	slices.SortStableFunc(rows, func(a, b *editedRecord) int {
		x, y := a.now(e.clock).changed, b.now(e.clock).changed
		switch e.order {
		case "created":
			return cmp.Compare(b.id, a.id)
		case "changed":
			return cmp.Or(y.Compare(x), cmp.Compare(a.id, b.id))
		case "rising":
			return cmp.Or(x.Compare(y), cmp.Compare(a.id, b.id))
		}
		return cmp.Compare(a.id, b.id)
	})
	page, all := max(1, atoi(r.URL.Query().Get("page"))), len(rows)
	from := min(all, (page-1)*e.size)
	rows = rows[from:min(all, from+e.size)]
	out := make([]map[string]any, len(rows))
	for i, r := range rows {
		v := r.now(e.clock)
		out[i] = map[string]any{"id": r.id, "name": v.name, "closed": v.closed, "updated_at": e.write(v.changed)}
		if e.nulls && !r.edited {
			out[i]["updated_at"] = nil
		}
		if e.births {
			out[i]["created_at"] = e.write(r.created)
		}
	}
	last := max(1, (all+e.size-1)/e.size)
	meta := map[string]any{"current_page": page}
	switch e.paging {
	case "total":
		meta["total"], meta["last_page"] = all, last
	case "next":
		meta["has_more"] = page < last
	default:
		meta["last_page"] = last
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header()["Date"] = nil
	if e.dated {
		w.Header().Set("Date", e.clock.UTC().Format(http.TimeFormat))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": out, "meta": meta})
}

func (e *edited) now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.clock.Add(-e.skew)
}

func (e *edited) pass(rate int, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rate = rate
	for range e.random.IntN(8) {
		e.change()
		e.clock = e.clock.Add(d / 8)
	}
}

func (e *edited) rest(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rate, e.atRest = 0, true
	e.clock = e.clock.Add(d)
}

func (e *edited) wasClosed(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open && slices.ContainsFunc(e.rows, func(r *editedRecord) bool {
		return strconv.Itoa(r.id) == id && slices.ContainsFunc(r.versions, func(v revision) bool { return v.closed })
	})
}

func (e *edited) truth() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]string{}
	for _, r := range e.rows {
		if v := r.now(e.clock); !r.versions[0].shown.After(e.clock) && !(v.closed && e.open) {
			all[strconv.Itoa(r.id)] = v.name
		}
	}
	return all
}

type editedRig struct {
	*rig
	server *edited
	http   *httptest.Server
	seed   int
}

func newEditedRig(t *testing.T, e *edited, i schemas.Incremental, seed int) *editedRig {
	t.Helper()
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	w, err := wire.New(wire.Options{Name: "test", BaseURL: srv.URL, Allow: []wire.Route{{Method: "GET", Path: "/items"}}, Rate: budget.Rate{Limit: 100_000, Window: time.Second}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	s := sourcetest.Stream("items")
	s.Name, s.Method, s.Path, s.Incremental, s.Records = "crm.items", "GET", "/items", i, []string{"/data"}
	s.Stated = map[string]string{"incremental": schemas.StatedConfigured}
	client, err := extract.New(extract.Config{App: w, Selected: []schemas.Stream{s}, Dir: t.TempDir(), Now: e.now})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	g := &rig{t: t, memory: loadtest.NewMemory(nil)}
	g.config = Config{Name: "nightly", Streams: []schemas.Stream{s}, Source: client, Now: e.now}
	g.config.Options.ConfirmShrink = true // allows large deletions too, so that the test detects wrong ones
	if e.open {
		g.config.Streams[0].Rules.Filter = []schemas.Condition{{Column: "closed", In: []string{"false"}}}
	}
	return &editedRig{g, e, srv, seed}
}

func (r *editedRig) sync() StreamReport {
	r.t.Helper()
	rep, err := r.run(r.t.Context())
	require.NoError(r.t, err, "seed %d", r.seed)
	r.http.CloseClientConnections()
	truth := r.server.truth()
	for _, row := range r.memory.Rows("items") {
		if row[schemas.ColDeletedAt] != "" && !r.server.wasClosed(row["id"]) {
			require.NotContains(r.t, truth, row["id"], "seed %d: an existing record is marked as deleted", r.seed)
		}
	}
	s := rep.Streams[0]
	if r.server.atRest && s.Verdict == Proven {
		require.Empty(r.t, r.wrong(), "seed %d: %s, proven: %s", r.seed, r.traits(), s.Reasons)
	}
	return s
}

func (r *editedRig) wrong() map[string]string {
	have, truth, all := map[string]string{}, r.server.truth(), map[string]string{}
	for _, row := range r.memory.Rows("items") {
		if row[schemas.ColDeletedAt] == "" {
			have[row["id"]] = row["name"]
		}
	}
	for id, name := range truth {
		if have[id] != name {
			all[id] = fmt.Sprintf("%s is %q, not %q", id, have[id], name)
		}
	}
	for id := range have {
		if _, there := truth[id]; !there {
			all[id] = "gone"
		}
	}
	return all
}

func (r *editedRig) beforeEdge(missed map[string]string) (all []string) {
	stored, err := r.memory.Cursor(r.t.Context(), state.Key{Pipeline: "nightly", Stream: "crm.items"})
	require.NoError(r.t, err)
	var pos struct {
		At struct{ Settled time.Time }
	}
	_ = json.Unmarshal([]byte(stored), &pos)
	i := r.config.Streams[0].Incremental
	for _, row := range r.server.rows {
		text, is := missed[strconv.Itoa(row.id)]
		at := row.now(r.server.clock).changed.Add(r.server.zone)
		if is && text != "gone" && at.Before(pos.At.Settled.Add(-i.Overlap()-24*time.Hour)) {
			all = append(all, text)
		}
	}
	return all
}

func (r *editedRig) traits() string {
	e := r.server
	return fmt.Sprintf("%s %v order %s, filter %q (excludes %t), %s by %d, skew %v dated %t births %t nulls %t late %v silent %t deletes %t untouched %t open %t, %+v",
		e.format, e.zone, e.order, e.filter, e.excludes, e.paging, e.size, e.skew, e.dated, e.births, e.nulls, e.late, e.silent, e.deletes, e.untouched, e.open, r.config.Streams[0].Incremental)
}

// TestEditedLists generates lists whose records are edited while they are read. For some lists, probes find out how to
// read them. For the other lists, a user configures how to read them, correctly or not.
//
// After a list has stopped changing, two more runs load every change that incremental passes can find. With
// `incremental: auto`, these are the changes that were committed within the lookback and updated the time of change. A
// week later, a whole pass loads the other changes and reports that incremental passes miss changes. From then on every
// run reads the whole list.
func TestEditedLists(t *testing.T) {
	found, refuted, seeds := 0, 0, sourcetest.Trials(25)
	for seed := range seeds {
		e := newEdited(seed)
		e.begin()
		i := schemas.Incremental{Auto: true, Lookback: editedLookback}
		right := true
		if e.random.IntN(3) == 0 {
			i = schemas.Incremental{Field: "updated_at", Format: e.format, Lookback: editedLookback}
			if e.filter != "" && e.random.IntN(4) > 0 {
				i.Param = "updated_since"
			}
			right = !e.nulls && (i.Param == "" && e.order == "changed" || i.Param != "" && (e.filter == "changed" || e.filter == "day"))
		}
		r := newEditedRig(t, e, i, seed)
		var notices []drift.Notice
		run := func() StreamReport {
			rep := r.sync()
			notices = append(notices, rep.Notices...)
			return rep
		}
		run()
		for range 4 + e.random.IntN(4) {
			e.pass(e.random.IntN(3), time.Duration(e.random.IntN(1200))*time.Minute)
			run()
		}
		e.rest(max(e.late, editedLookback) + time.Minute)
		before := e.requests
		run()
		run()
		quiet := e.requests - before
		pages := (len(e.rows) + e.size - 1) / e.size
		if quiet < pages {
			found++
		}
		visible := right && !e.silent && !e.deletes && e.late <= editedLookback
		missed := r.wrong()
		if visible {
			require.Empty(t, missed, "seed %d: %s", seed, r.traits())
		}
		told := func() bool {
			return slices.ContainsFunc(notices, func(n drift.Notice) bool { return n.Kind == drift.NoticeIncremental })
		}
		overlooked := r.beforeEdge(missed)
		e.rest(8 * 24 * time.Hour)
		run()
		require.Empty(t, r.wrong(), "seed %d: %s: after the whole pass, every row is right", seed, r.traits())
		if len(overlooked) > 0 {
			require.True(t, told(), "seed %d: %s: %v were missed, and the run does not report it", seed, r.traits(), overlooked)
		}
		if told() {
			refuted++
			rep := run()
			require.GreaterOrEqual(t, rep.Counts.Fetched, int64(len(e.truth())), "seed %d: %s: every run reads the whole list: %+v", seed, r.traits(), rep)
		}
	}
	t.Logf("of %d lists, %d were read incrementally in the end; for %d, a whole pass found that incremental passes miss changes", seeds, found, refuted)
}
