package pipeline

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

type estate struct {
	*rig
	url    string
	server *httptest.Server
	client *wire.Client

	connections atomic.Int32
	parallel    int // see extract.Config

	mu      sync.Mutex
	parents map[int]int
	secret  map[int]int // by id: a value that is in the answer for this single record, but not in the list
	items   map[int][]int
	absent  map[int]bool
	once    map[int]bool
	asked   map[string]int
	budget  int // number of requests for single records before they fail; -1: they never fail
	lists   bool
	papers  bool
	refused map[int]bool
	reread  int
}

func newEstate(t *testing.T, n int) *estate {
	e := &estate{parents: map[int]int{}, secret: map[int]int{}, items: map[int][]int{}, absent: map[int]bool{}, asked: map[string]int{}, budget: -1}
	for id := 1; id <= n; id++ {
		e.parents[id] = 1
	}
	server := httptest.NewUnstartedServer(e)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			e.connections.Add(1)
		case http.StateClosed:
			e.connections.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	e.url, e.server = server.URL, server
	e.rig = &rig{t: t, memory: loadtest.NewMemory(nil)}
	e.config = Config{Name: "nightly", limits: defaultLimits}
	w, err := wire.New(wire.Options{
		Name: "estate", BaseURL: server.URL, MaxAttempts: 1, Rate: budget.Rate{Limit: 100_000, Window: time.Second},
		Allow: []wire.Route{{Method: "GET", Path: "/api/parents"}, {Method: "GET", Path: "/api/detail/{id}"}, {Method: "GET", Path: "/api/items/{id}"}, {Method: "GET", Path: "/api/paper/{id}"}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	e.client = w
	return e
}

func (e *estate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kind, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/"), "/")
	e.asked[kind]++
	id, _ := strconv.Atoi(rest)
	if kind != "parents" && e.budget == 0 {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message":"This action is unauthorized."}`)
		return
	}
	if kind != "parents" && e.budget > 0 {
		e.budget--
	}
	switch {
	case kind == "parents":
		e.page(w, r)
	case e.absent[id]:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"Record not found"}`)
	case kind == "paper" && e.refused[id]:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message":"This action is unauthorized."}`)
	case kind == "paper" && e.secret[id] < 0:
		fmt.Fprint(w, `<html><title>Oops</title></html>`)
	case kind == "paper":
		fmt.Fprintf(w, "%%PDF-1.4\n%d %d\n%%%%EOF\n", id, e.secret[id])
	case kind == "detail":
		fmt.Fprintf(w, `{"data":{"id":%d,"version":%d,"secret":%d}}`, id, e.parents[id], e.secret[id])
	default:
		var rows []string
		items := e.items[id]
		if e.once[id] {
			items = nil
			delete(e.once, id)
		}
		for _, item := range items {
			rows = append(rows, fmt.Sprintf(`{"id":%d}`, item))
		}
		fmt.Fprintf(w, `{"data":[%s],"meta":{"current_page":1,"last_page":1,"total":%d}}`, strings.Join(rows, ","), len(rows))
	}
}

func (e *estate) page(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	n = max(n, 1)
	ids := slices.Sorted(maps.Keys(e.parents))
	pages := slices.Collect(slices.Chunk(ids, 1000))
	var rows []string
	if n <= len(pages) {
		for _, id := range pages[n-1] {
			rows = append(rows, fmt.Sprintf(`{"id":%d,"version":%d}`, id, e.parents[id]))
		}
	}
	fmt.Fprintf(w, `{"data":[%s],"meta":{"current_page":%d,"last_page":%d,"total":%d}}`, strings.Join(rows, ","), n, max(1, len(pages)), len(ids))
}

func (e *estate) streams() (all []schemas.Stream) {
	parents := sourcetest.Stream("x.parents")
	parents.Table.Name, parents.Method, parents.Path = "x_parents", "GET", "/api/parents"
	child := sourcetest.Stream("x.detail")
	child.Table.Name, child.Method, child.Class, child.Path = "x_detail", "GET", schemas.ClassDetail, "/api/detail/{id}"
	if e.lists {
		child = sourcetest.Stream("x.items")
		child.Table.Name, child.Method, child.Path = "x_items", "GET", "/api/items/{id}"
	}
	if e.papers {
		child = sourcetest.Stream("x.paper")
		child.Table.Name, child.Key, child.Method, child.Path = "x_paper", []string{"_context__id"}, "GET", "/api/paper/{id}"
		child.Class, child.Media = schemas.ClassFile, "application/pdf"
	}
	child.Parent, child.RereadPasses = "x.parents", e.reread
	child.Params = []schemas.Param{{Name: "id", In: "path", From: "/id"}}
	return []schemas.Stream{parents, child}
}

// sync returns the number of requests for parents' records, and the report on the child stream.
func (e *estate) sync(options Options) (requests int, child StreamReport) {
	e.t.Helper()
	rep, err := e.try(options)
	require.NoError(e.t, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked["detail"] + e.asked["items"] + e.asked["paper"], rep.Streams[len(rep.Streams)-1]
}

func (e *estate) try(options Options) (Report, error) {
	e.t.Helper()
	e.mu.Lock()
	clear(e.asked)
	e.mu.Unlock()
	if e.config.Streams == nil {
		e.config.Streams = e.streams()
	}
	client, err := extract.New(extract.Config{App: e.client, Selected: e.config.Streams, Parallel: e.parallel, Dir: e.t.TempDir()})
	require.NoError(e.t, err)
	defer client.Close()
	if e.config.Destinations == nil {
		e.restart(nil)
	}
	e.config.Source, e.config.Options = client, options
	rep, err := e.run(context.Background())
	// A request that the run gave up may still be in its handler or about to connect. It must end first, because the
	// test changes the source next.
	require.Eventually(e.t, func() bool {
		e.server.CloseClientConnections()
		return e.connections.Load() == 0
	}, time.Minute, time.Millisecond)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range rep.Streams {
		require.Equal(e.t, s.Counts.Fetched, s.Counts.Written+s.Counts.Unchanged+s.Counts.Deduplicated+s.Counts.Rejected)
	}
	return rep, err
}

func (e *estate) complete(options Options) (requests int, child StreamReport) {
	e.t.Helper()
	requests, child = e.sync(options)
	require.Equal(e.t, StatusComplete, child.Status, "%v", child.Err)
	return requests, child
}

func (e *estate) rows(table, column string) map[int]string {
	out := map[int]string{}
	for _, row := range e.memory.Rows(table) {
		if _, dead := row[schemas.ColDeletedAt]; dead {
			continue
		}
		id, err := strconv.Atoi(row["id"])
		require.NoError(e.t, err)
		out[id] = row[column]
	}
	return out
}

func (e *estate) equal() {
	e.t.Helper()
	want := map[int]string{}
	for id := range e.parents {
		if !e.absent[id] {
			want[id] = strconv.Itoa(e.secret[id])
		}
	}
	require.Equal(e.t, want, e.rows("x_detail", "secret"))
}

// If 50 of 5,000 parents have changed, a run requests these 50 and a tenth of the other parents.
func TestUnchangedParentsAreSkipped(t *testing.T) {
	all := 5000
	if testing.Short() {
		all = 1000
	}
	e := newEstate(t, all)
	first, child := e.complete(Options{})
	require.Equal(t, all, first)
	require.Equal(t, Proven, child.Verdict)
	for id := all / 50; id <= all; id += all / 50 {
		e.parents[id]++
		e.secret[id]++
	}
	second, child := e.complete(Options{})
	t.Logf("requests: %d, then %d", first, second)
	require.Less(t, second, all/10+150)
	require.Greater(t, second, all/10-50)
	require.Equal(t, Proven, child.Verdict)
	require.EqualValues(t, 50, child.Counts.Written)
	require.EqualValues(t, second, child.Counts.Fetched)
	e.equal()

	full, _ := e.complete(Options{Full: true})
	require.Equal(t, all, full)
	e.config.Streams[1].Rules.Select = []string{"version"}
	other, _ := e.complete(Options{})
	require.Equal(t, all, other, "the rules for rows have changed")
}

func TestHiddenChangesSurface(t *testing.T) {
	e := newEstate(t, 60)
	e.reread = 4
	e.complete(Options{})
	for id := range e.parents {
		e.secret[id] = 7
	}
	asked := 0
	for range 4 {
		n, _ := e.complete(Options{})
		require.Less(t, n, 40)
		asked += n
	}
	require.Equal(t, 60+4*3, asked, "each parent is requested once in four runs, and a few parents every time")
	e.equal()
}

func TestFewParentsAreAllRequested(t *testing.T) {
	e := newEstate(t, 200)
	e.complete(Options{})
	n, child := e.complete(Options{})
	require.Equal(t, 200, n)
	require.Equal(t, Proven, child.Verdict)
}

// If a parent is gone, its rows are deleted, even though the parent was not requested.
func TestParentsGoAndComeBack(t *testing.T) {
	e := newEstate(t, 40)
	e.reread = 1000
	e.complete(Options{})
	version := e.parents[7]
	delete(e.parents, 7)
	e.absent[9] = true // gone after the list was read
	e.parents[9]++
	e.parents[10]++ // the test needs one other answer: if every answer is "not found", the endpoint may be the cause
	n, child := e.complete(Options{})
	require.Less(t, n, 10+40/4)
	require.EqualValues(t, 2, child.Counts.Deleted)
	require.Equal(t, Proven, child.Verdict)
	delete(e.parents, 9)
	e.equal()

	e.complete(Options{})
	e.parents[7] = version
	_, child = e.complete(Options{})
	require.EqualValues(t, 1, child.Counts.Written)
	e.equal()
}

// A row that is missing from the answer for one parent may have moved to a parent that was not requested. So it is
// deleted only after all parents were requested.
func TestRowsMoveBetweenParents(t *testing.T) {
	e := newEstate(t, 40)
	e.reread, e.lists = 1000, true
	for id := range e.parents {
		e.items[id] = []int{10 * id, 10*id + 1}
	}
	_, child := e.complete(Options{})
	require.Equal(t, Proven, child.Verdict)
	n, child := e.complete(Options{})
	require.Less(t, n, 10)
	require.Equal(t, Consistent, child.Verdict, "the list of a skipped parent may have grown")
	require.Zero(t, child.Counts.Deleted)

	e.items[3] = []int{30}
	e.items[4] = append(e.items[4], 31)
	e.items[5] = []int{50}
	e.parents[3]++
	e.parents[5]++
	n, child = e.complete(Options{})
	require.Greater(t, n, 40, "every parent was requested in a second pass")
	require.EqualValues(t, 1, child.Counts.Deleted)
	rows := e.rows("x_items", "_context__id")
	require.Len(t, rows, 79)
	require.Equal(t, "4", rows[31])
	require.NotContains(t, rows, 51)
}

func TestPassOfSomeParentsIsInterrupted(t *testing.T) {
	e := newEstate(t, 900)
	e.config.limits.groupRows, e.config.limits.batchRows = 50, 50
	e.complete(Options{})
	for id := 1; id <= 900; id += 2 {
		e.parents[id]++
		e.secret[id]++
	}
	delete(e.parents, 2)
	delete(e.parents, 880)
	e.absent[5] = true
	e.budget, e.parallel = 300, 16 // with more parallel requests, one of the first requests may be refused
	_, child := e.sync(Options{})
	require.NotEqual(t, StatusComplete, child.Status)
	e.budget = -1
	n, child := e.complete(Options{})
	require.Equal(t, 2, child.Passes, "only a second pass knows which rows the first part lacked")
	require.Less(t, n, 900)
	require.Equal(t, Proven, child.Verdict)
	delete(e.parents, 5)
	e.equal()
	n, _ = e.complete(Options{})
	require.Less(t, n, 200)
}

func TestDestinationsRememberTheirOwn(t *testing.T) {
	e := newEstate(t, 300)
	first := Destination{Name: "first", Destination: e.memory}
	e.config.Destinations = []Destination{first}
	e.complete(Options{})
	other := loadtest.NewMemory(nil)
	e.config.Destinations = []Destination{first, {Name: "second", Destination: other}}
	n, _ := e.complete(Options{})
	require.Equal(t, 300, n)
	require.Len(t, other.Rows("x_detail"), 300)
	n, child := e.complete(Options{})
	require.Less(t, n, 80)
	require.Equal(t, Proven, child.Verdict)
	require.Len(t, other.Rows(load.Parents.Name), 300)
}
