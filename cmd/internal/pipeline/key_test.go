package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

type server struct {
	*rig
	url     string
	find    func(string) (schemas.Stream, bool)
	streams []schemas.Stream
	clients int
	asked   int // requests of the current client; a cancelled request of an earlier client may arrive late and is not counted
	one     sync.Mutex
}

// serveAPI serves the answers by path. The catalogue contains the streams in `known` and in `selected`, but the
// pipeline reads only those in `selected`. For example, `known` may have the parent of a selected stream.
func serveAPI(t *testing.T, answers map[string]http.HandlerFunc, known []schemas.Stream, selected ...schemas.Stream) *server {
	t.Helper()
	s := &server{streams: slices.Concat(known, selected)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.one.Lock()
		defer s.one.Unlock()
		if r.UserAgent() == s.agent() {
			s.asked++
		}
		w.Header().Set("Content-Type", "application/json")
		for path, answer := range answers {
			if path == r.URL.EscapedPath() || strings.HasSuffix(path, "/") && strings.HasPrefix(r.URL.EscapedPath(), path) {
				answer(w, r)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"The route could not be found."}`)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	s.find = func(name string) (schemas.Stream, bool) {
		i := slices.IndexFunc(s.streams, func(s schemas.Stream) bool { return s.Name == name })
		if i < 0 {
			return schemas.Stream{}, false
		}
		return s.streams[i], true
	}
	s.rig = &rig{t: t, memory: loadtest.NewMemory(nil)}
	s.config = Config{Name: "nightly", Streams: selected}
	s.connect()
	return s
}

// agent returns the name of the current client.
func (s *server) agent() string { return fmt.Sprint("client ", s.clients) }

// requests returns the number of requests of the current client.
func (s *server) requests() int {
	s.one.Lock()
	defer s.one.Unlock()
	return s.asked
}

func (s *server) connect() {
	s.one.Lock()
	s.clients++
	s.asked = 0
	s.one.Unlock()
	var routes []wire.Route
	for _, x := range s.streams {
		routes = append(routes, wire.Route{Method: x.Method, Path: x.Path})
	}
	w, err := wire.New(wire.Options{Name: "test", BaseURL: s.url, Allow: routes, Credential: wire.Bearer("k"), UserAgent: s.agent(), Rate: budget.Rate{Limit: 5000, Window: time.Second}})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = w.Close() })
	c, err := extract.New(extract.Config{App: w, Selected: s.config.Streams, Find: s.find, Dir: s.t.TempDir()})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	s.config.Source = c
}

func (s *server) again() Report {
	s.connect()
	rep, err := s.run(context.Background())
	require.NoError(s.t, err)
	return rep
}

func (s *server) values(table, column string) []string {
	var out []string
	for _, row := range s.memory.Rows(table) {
		if _, dead := row[schemas.ColDeletedAt]; !dead {
			out = append(out, row[column])
		}
	}
	slices.Sort(out)
	return out
}

func (s *server) key(table string) []string {
	tables, err := s.memory.Tables(context.Background(), table)
	require.NoError(s.t, err)
	if len(tables) == 0 {
		return nil
	}
	return tables[0].Key
}

func (s *server) rejected() int {
	n := 0
	for _, row := range s.memory.Rows(load.Rejects.Name) {
		if row["record"] == "true" && row["resolved_at"] == "" {
			n++
		}
	}
	return n
}

func endpoint(name, method, path string, key ...string) schemas.Stream {
	return schemas.Stream{
		Table: schemas.Table{Name: strings.ReplaceAll(name, ".", "_"), Key: key}, Name: name, Module: "x", Enabled: true,
		Surface: schemas.SurfaceApp, Class: schemas.ClassList, Method: method, Path: path, Auth: schemas.AuthBearer,
	}
}

func own(s schemas.Stream) schemas.Stream {
	s.Stated = map[string]string{"path": schemas.StatedConfigured}
	return s
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func inPages(size int, records func() []any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		all := records()
		page = max(page, 1)
		last := (len(all) + size - 1) / size
		part := all[min(len(all), (page-1)*size):min(len(all), page*size)]
		body, _ := json.Marshal(map[string]any{"data": append([]any{}, part...), "current_page": page, "last_page": last, "total": len(all)})
		_, _ = w.Write(body)
	}
}

type m = map[string]any

func manyOf(n int, make func(i int) any) []any {
	out := []any{}
	for i := range n {
		out = append(out, make(i))
	}
	return out
}

func TestKeyIsRefutedByRecords(t *testing.T) {
	alike := func(at ...int) []any {
		return manyOf(60, func(i int) any {
			name := fmt.Sprintf("Shop %02d", i)
			if slices.Contains(at, i) {
				name = "Main street"
			}
			return m{"name": name, "city": i}
		})
	}
	ids := func(n int, id func(i int) int) []any {
		return manyOf(n, func(i int) any { return m{"id": id(i), "city": i} })
	}
	for _, tt := range []struct {
		name    string
		stream  schemas.Stream
		records []any
		key     []string
		rows    int
	}{
		{"names that differ", endpoint("x.shops", "GET", "/api/shops", "name"), alike(), []string{"name"}, 60},
		{"two records with the same name on one page", endpoint("x.shops", "GET", "/api/shops", "name"), alike(44, 45), nil, 60},
		{"two records with the same name on two pages", endpoint("x.shops", "GET", "/api/shops", "name"), alike(5, 55), nil, 60},
		{"two records with the same name, and no key in the catalogue", own(endpoint("x.shops", "GET", "/api/shops")), alike(5, 55), nil, 60},
		{"names that differ, and no key in the catalogue", own(endpoint("x.shops", "GET", "/api/shops")), alike(), nil, 60},
		{"codes, and no key in the catalogue", own(endpoint("x.shops", "GET", "/api/shops")), manyOf(60, func(i int) any { return m{"code": fmt.Sprint("S", i), "city": i} }), []string{"code"}, 60},
		{"two equal codes, and no key in the catalogue", own(endpoint("x.shops", "GET", "/api/shops")), manyOf(60, func(i int) any { return m{"code": fmt.Sprint("S", max(i, 1)), "city": i} }), nil, 60},
		{"two equal codes at the end, and no key in the catalogue", own(endpoint("x.shops", "GET", "/api/shops")), manyOf(60, func(i int) any { return m{"code": fmt.Sprint("S", min(i, 58)), "city": i} }), nil, 60},
		{"ids of two languages", endpoint("x.shops", "GET", "/api/shops", "id"),
			manyOf(60, func(i int) any {
				return m{"id": i / 2, "lang": []string{"de", "en"}[i%2], "text": fmt.Sprint("t", i)}
			}), []string{"lang", "id"}, 60},
		{"one record twice", endpoint("x.shops", "GET", "/api/shops", "id"), append(ids(59, func(i int) int { return i }), m{"id": 3, "city": 3}), []string{"id"}, 59},
		{"each id twice", endpoint("x.shops", "GET", "/api/shops", "id"), ids(60, func(i int) int { return i % 30 }), nil, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveAPI(t, map[string]http.HandlerFunc{"/api/shops": inPages(20, func() []any { return tt.records })}, nil, tt.stream)
			rep, err := s.run(context.Background())
			require.NoError(t, err)
			got := rep.Streams[0]
			require.Equal(t, tt.key, s.key("x_shops"), "%v", got.Err)
			require.Len(t, s.values("x_shops", "city"), tt.rows)
			require.Zero(t, s.rejected())
			if tt.name != "one record twice" {
				require.Equal(t, Proven, got.Verdict, "%s %v", got.Reasons, got.Err)
				require.Equal(t, StatusComplete, got.Status, "%v", got.Err)
			}
			noticed := slices.ContainsFunc(got.Notices, func(n drift.Notice) bool { return n.Kind == drift.NoticeKey && strings.Contains(n.Reason, "the key") })
			changed := len(tt.stream.Key) > 0 && !slices.Equal(tt.key, tt.stream.Key) || strings.HasPrefix(tt.name, "two equal codes at the end")
			require.Equal(t, changed, noticed, "%v", got.Notices)

			rep = s.again()
			require.Zero(t, rep.Streams[0].Counts.Written, "the convention is stored")
			require.Empty(t, rep.Streams[0].Notices)
			if tt.name != "one record twice" {
				want := Proven
				if tt.key == nil {
					want = Consistent
				}
				require.Equal(t, want, rep.Streams[0].Verdict, rep.Streams[0].Reasons)
				require.LessOrEqual(t, s.requests(), 5, "requests for the pages, and two more")
			}
		})
	}
}

// The key of a table with rows turns out not to be unique. The run rejects records that the key cannot distinguish,
// and deletes nothing.
func TestKeyOfATableWithRowsIsKept(t *testing.T) {
	for _, stated := range []bool{false, true} {
		t.Run(fmt.Sprintf("stated=%t", stated), func(t *testing.T) {
			n := 1
			stream := endpoint("x.shops", "GET", "/api/shops", "name")
			if stated {
				stream.Stated = map[string]string{"key": schemas.StatedConfigured}
			}
			s := serveAPI(t, map[string]http.HandlerFunc{"/api/shops": inPages(20, func() []any {
				return append(manyOf(30, func(i int) any { return m{"name": fmt.Sprint("Shop ", i), "city": i} }), m{"name": fmt.Sprint("Shop ", 30/n), "city": 99})
			})}, nil, stream)
			require.Equal(t, Proven, s.must(StatusComplete).Streams[0].Verdict)
			n = 2
			for range 2 {
				rep := s.again()
				got := rep.Streams[0]
				require.Equal(t, 75, rep.ExitCode())
				require.Equal(t, Unproven, got.Verdict, got.Reasons)
				require.Contains(t, got.Reasons, "Shop 15")
				require.NotZero(t, s.rejected())
				require.Len(t, s.values("x_shops", "name"), 31, "nothing is deleted")
				require.True(t, slices.ContainsFunc(got.Notices, func(n drift.Notice) bool {
					return n.Kind == drift.NoticeKey && strings.Contains(n.Reason, "name") && strings.Contains(n.Reason, "pipelines.yaml") == stated
				}), "%v", got.Notices)
			}
		})
	}
}

// A record that changes while the list is read appears on two pages.
func TestChangedRecordDoesNotRefuteTheKey(t *testing.T) {
	for _, timed := range []bool{true, false} {
		t.Run(fmt.Sprintf("timed=%t", timed), func(t *testing.T) {
			reads := 0
			record := func(i, version int) any {
				r := m{"id": i, "city": version}
				if timed {
					r["updated_at"] = "2024-01-01T00:00:00Z"
					if version > 0 {
						r["updated_at"] = time.Now().UTC().Format(time.RFC3339)
					}
				}
				return r
			}
			s := serveAPI(t, map[string]http.HandlerFunc{"/api/shops": func(w http.ResponseWriter, r *http.Request) {
				all := manyOf(40, func(i int) any { return record(i, 0) })
				if r.URL.Query().Get("page") == "2" {
					if reads++; reads == 1 {
						all = slices.Insert(all, 20, record(3, 1))
					}
				}
				inPages(20, func() []any { return all })(w, r)
			}}, nil, endpoint("x.shops", "GET", "/api/shops", "id"))
			rep, err := s.run(context.Background())
			require.NoError(t, err)
			require.Equal(t, []string{"id"}, s.key("x_shops"))
			require.Len(t, s.values("x_shops", "id"), 40)
			require.Zero(t, s.rejected())
			require.Equal(t, Proven, s.again().Streams[0].Verdict, "%v", rep.Streams[0].Err)
		})
	}
}

func TestBoardsThatRepeatTheirStages(t *testing.T) {
	catalogue, err := schemas.Load()
	require.NoError(t, err)
	projects, _ := catalogue.Find("taskly.project_list")
	board, _ := catalogue.Find("taskly.taskboard")
	answer := func(place string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Project int `json:"project_id"`
			}
			require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
			stages := manyOf(4, func(i int) any {
				return m{"id": i + 1, "name": fmt.Sprint("Stage ", i+1), place: manyOf(2, func(j int) any {
					return m{"id": 100*body.Project + 10*i + j, "title": fmt.Sprint("Task ", j), "project_id": body.Project}
				})}
			})
			if body.Project < 1 || body.Project > 9 {
				stages = []any{}
			}
			out, _ := json.Marshal(m{"status": 1, "data": m{"project": m{"name": "P"}, "task_stages": stages}})
			_, _ = w.Write(out)
		}
	}
	list := text(`{"status":1,"data":[{"id":1},{"id":2},{"id":3},{"id":4},{"id":5},{"id":6},{"id":7},{"id":8},{"id":9}]}`)
	for place, want := range map[string]struct {
		rows  int
		tasks string
		key   []string
	}{
		"tasks": {72, "taskly_taskboard", []string{"id"}},
		"cards": {36, "taskly_taskboard__cards", []string{"_context__project_id", "id"}},
	} {
		t.Run(place, func(t *testing.T) {
			s := serveAPI(t, map[string]http.HandlerFunc{projects.Path: list, board.Path: answer(place)}, nil, projects, board)
			rep, err := s.run(context.Background())
			require.NoError(t, err)
			require.Equal(t, Proven, rep.Streams[1].Verdict, "%s %v", rep.Streams[1].Reasons, rep.Streams[1].Err)
			require.Equal(t, want.key, s.key("taskly_taskboard"))
			require.Len(t, s.values("taskly_taskboard", "id"), want.rows)
			require.Len(t, s.values(want.tasks, "title"), 72, "no task is lost")
			rep = s.again()
			require.Equal(t, StatusComplete, rep.Status, "%v", rep.Streams[1].Err)
			require.Zero(t, rep.Streams[1].Counts.Written)
		})
	}
}

func TestParentsThatShareRecords(t *testing.T) {
	parent := endpoint("x.teams", "GET", "/api/teams", "id")
	child := endpoint("x.members", "GET", "/api/teams/{id}/members", "id")
	child.Parent, child.Params = "x.teams", []schemas.Param{{Name: "id", In: "path", From: "/id"}}
	s := serveAPI(t, map[string]http.HandlerFunc{
		"/api/teams":  text(`{"data":[{"id":1},{"id":2}],"total":2}`),
		"/api/teams/": text(`{"data":[{"id":7,"name":"Ann"},{"id":8,"name":"Bob"}],"total":2}`),
	}, nil, parent, child)
	rep := s.must(StatusComplete)
	require.Equal(t, Proven, rep.Streams[1].Verdict, rep.Streams[1].Reasons)
	require.Equal(t, []string{"7", "8"}, s.values("x_members", "id"))
	require.Equal(t, []string{"id"}, s.key("x_members"))
}

func monthlyList() schemas.Stream {
	s := endpoint("x.attendance", "GET", "/api/attendance", "id")
	s.Window = true
	s.Months = schemas.Months{Month: "month", Year: "year", First: time.Now().UTC().AddDate(0, -5, 0)}
	return s
}

func TestMonthsWithRepeatedIDs(t *testing.T) {
	days := func(r *http.Request) []any {
		q := r.URL.Query()
		return manyOf(7, func(i int) any {
			return m{"id": i + 1, "date": fmt.Sprintf("%s-%s-%02d", q.Get("year"), q.Get("month"), i+1)}
		})
	}
	for _, unique := range []bool{false, true} {
		t.Run(fmt.Sprintf("unique=%t", unique), func(t *testing.T) {
			s := serveAPI(t, map[string]http.HandlerFunc{"/api/attendance": func(w http.ResponseWriter, r *http.Request) {
				all := days(r)
				if year, _ := strconv.Atoi(r.URL.Query().Get("year")); year < 2000 {
					all = []any{}
				}
				for i := range all {
					if unique {
						month, _ := strconv.Atoi(r.URL.Query().Get("month"))
						all[i].(m)["id"] = 100*month + i
					}
				}
				out, _ := json.Marshal(m{"data": all})
				_, _ = w.Write(out)
			}}, nil, monthlyList())
			rep := s.must(StatusComplete)
			dates := s.values("x_attendance", "date")
			require.GreaterOrEqual(t, len(dates), 42)
			require.Len(t, slices.Compact(dates), len(s.values("x_attendance", "id")), "each day is a row")
			require.Equal(t, Consistent, rep.Streams[0].Verdict)
			want := []string{"_context__month", "_context__year", "id"}
			if unique {
				want = []string{"id"}
			}
			require.Equal(t, want, s.key("x_attendance"))
			rep = s.again()
			require.Equal(t, StatusComplete, rep.Status)
			require.Zero(t, rep.Streams[0].Counts.Written)
		})
	}
}

func TestMonthsThatTheServerIgnores(t *testing.T) {
	s := serveAPI(t, map[string]http.HandlerFunc{"/api/attendance": inPages(50, func() []any {
		return manyOf(39, func(i int) any { return m{"id": i + 1, "date": fmt.Sprintf("2024-01-%02d", i%28+1)} })
	})}, nil, monthlyList())
	rep := s.must(StatusComplete)
	require.Len(t, s.values("x_attendance", "id"), 39)
	require.Len(t, rep.Streams[0].Notices, 1)
	require.Equal(t, drift.NoticeHypothesis, rep.Streams[0].Notices[0].Kind)
	require.Contains(t, rep.Streams[0].Notices[0].Reason, "ignores month and year")
	rep = s.again()
	require.Equal(t, StatusComplete, rep.Status)
	require.Empty(t, rep.Streams[0].Notices, "reported once")
	require.LessOrEqual(t, s.requests(), 3, "the convention is stored")
	require.Len(t, s.values("x_attendance", "id"), 39)
}

func kindsOf() (meetings, kinds schemas.Stream) {
	meetings = endpoint("x.meetings", "GET", "/api/meetings", "id")
	kinds = endpoint("x.kinds", "POST", "/api/kinds", "_context__parent", "id")
	kinds.Class, kinds.Parent = schemas.ClassLookup, "x.meetings"
	kinds.Params = []schemas.Param{{Name: "parent", In: "body", From: "/parent"}}
	return meetings, kinds
}

// If the server ignores the parameter with the parent's value, rows are not loaded once per parent. If no parent has
// a value, the table is still created.
func TestParentsThatTheServerIgnores(t *testing.T) {
	const used = `{"data":[{"id":1,"parent":"Lead"},{"id":2,"parent":"Account"},{"id":3,"parent":"Deal"}],"total":3}`
	const unused = `{"data":[{"id":1,"parent":null},{"id":2,"parent":null}],"total":2}`
	all := text(fmt.Sprintf(`{"data":[{"id":5,"name":"a"},{"id":6,"name":%q}]}`, strings.Repeat("long ", 40_000)))
	read := func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Parent string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		if body.Parent != "Lead" && body.Parent != "Account" && body.Parent != "Deal" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"message":"The parent field is required."}`)
			return
		}
		fmt.Fprintf(w, `{"data":[{"id":5,"name":"a of %s"},{"id":6,"name":"b of %s"}]}`, body.Parent, body.Parent)
	}
	for _, tt := range []struct {
		name     string
		meetings string
		kinds    http.HandlerFunc
		rows     int
		key      []string
	}{
		{"the server reads the parameter", used, read, 6, []string{"_context__parent", "id"}},
		{"the server ignores the parameter", used, all, 2, []string{"id"}},
		{"no parent has a value", unused, all, 2, []string{"id"}},
		{"no parent has a value, and the server requires one", unused, read, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			meetings, kinds := kindsOf()
			s := serveAPI(t, map[string]http.HandlerFunc{"/api/meetings": text(tt.meetings), "/api/kinds": tt.kinds}, nil, meetings, kinds)
			rep := s.must(StatusComplete)
			require.Equal(t, Proven, rep.Streams[1].Verdict, rep.Streams[1].Reasons)
			require.Len(t, s.values("x_kinds", "id"), tt.rows)
			require.Equal(t, tt.key, s.key("x_kinds"))
			require.Zero(t, s.rejected())
			rep = s.again()
			require.Equal(t, StatusComplete, rep.Status, "%v", rep.Streams[1].Err)
			require.Equal(t, Proven, rep.Streams[1].Verdict, rep.Streams[1].Reasons)
			require.Zero(t, rep.Streams[1].Counts.Written)
			require.Len(t, s.values("x_kinds", "id"), tt.rows)
		})
	}
}

// If the server refuses the value of one parent, the records of the other parents are loaded, but the stream is not
// proven.
func TestParentThatTheRouteRefuses(t *testing.T) {
	parent := endpoint("x.shelves", "GET", "/api/shelves", "id")
	child := endpoint("x.books", "GET", "/api/shelves/{id}/books", "id")
	child.Parent, child.Params = "x.shelves", []schemas.Param{{Name: "id", In: "path", From: "/id"}}
	for _, tt := range []struct {
		name, id string
		refused  bool
	}{
		{"plain", "c", false}, {"question mark", "a?b", false}, {"hash", "a#b", false}, {"space", "a b", false}, {"umlaut", "ä", false},
		{"slash", "a/b", true}, {"dots", "..", true}, {"percent", "a%2fb", true},
		{"bad request", "400", true}, {"no route", "404", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, _ := json.Marshal(tt.id)
			s := serveAPI(t, map[string]http.HandlerFunc{
				"/api/shelves": text(fmt.Sprintf(`{"data":[{"id":"x"},{"id":%s},{"id":"z"}],"total":3}`, id)),
				"/api/shelves/": func(w http.ResponseWriter, r *http.Request) {
					shelf := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/shelves/"), "/books")
					switch shelf {
					case "400":
						w.WriteHeader(http.StatusBadRequest)
						fmt.Fprint(w, `{"message":"The id is not valid."}`)
					case "404":
						w.WriteHeader(http.StatusNotFound)
						fmt.Fprint(w, `{"message":"The route api/shelves/404/books could not be found."}`)
					default:
						out, _ := json.Marshal(m{"data": []any{m{"id": shelf + "-1"}, m{"id": shelf + "-2"}}, "total": 2})
						_, _ = w.Write(out)
					}
				},
			}, nil, parent, child)
			rep, err := s.run(context.Background())
			require.NoError(t, err)
			got := rep.Streams[1]
			books := s.values("x_books", "id")
			if !tt.refused {
				require.Equal(t, Proven, got.Verdict, got.Reasons)
				require.Len(t, books, 6)
				require.Contains(t, books, tt.id+"-1")
				return
			}
			require.Equal(t, []string{"x-1", "x-2", "z-1", "z-2"}, books)
			require.Equal(t, Unproven, got.Verdict, got.Reasons)
			require.Contains(t, got.Reasons, tt.id, "the parent is named")
			require.Equal(t, 75, rep.ExitCode())
		})
	}
}

// The parent stream is not selected, but its list is read for the child stream. That reading decides the verdict.
func TestChildSelectedWithoutItsParent(t *testing.T) {
	parent := endpoint("x.shelves", "GET", "/api/shelves", "id")
	child := endpoint("x.books", "GET", "/api/shelves/{id}/books", "id")
	child.Parent, child.Params = "x.shelves", []schemas.Param{{Name: "id", In: "path", From: "/id"}}
	books := func(w http.ResponseWriter, r *http.Request) {
		shelf := strings.Split(r.URL.Path, "/")[3]
		fmt.Fprintf(w, `{"data":[{"id":"%s-1"}],"total":1}`, shelf)
	}
	reads := 0
	for _, tt := range []struct {
		name    string
		shelves http.HandlerFunc
		want    Verdict
	}{
		{"the list states its total", text(`{"data":[{"id":1},{"id":2},{"id":3}],"total":3}`), Proven},
		{"the list states another total", text(`{"data":[{"id":1},{"id":2},{"id":3}],"total":4,"last_page":1}`), Unproven},
		{"two readings of the list agree", text(`{"data":[{"id":1},{"id":2},{"id":3}]}`), Proven},
		{"the list may have been cut", func(w http.ResponseWriter, _ *http.Request) {
			out, _ := json.Marshal(m{"data": manyOf(50, func(i int) any { return m{"id": i} })})
			_, _ = w.Write(out)
		}, Consistent},
		{"the list changes", func(w http.ResponseWriter, _ *http.Request) {
			reads++
			fmt.Fprintf(w, `{"data":[{"id":1},{"id":2},{"id":%d}],"next":null}`, reads)
		}, Unproven},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveAPI(t, map[string]http.HandlerFunc{"/api/shelves": tt.shelves, "/api/shelves/": books}, []schemas.Stream{parent}, child)
			rep, err := s.run(context.Background())
			require.NoError(t, err)
			require.Equal(t, tt.want, rep.Streams[0].Verdict, rep.Streams[0].Reasons)
		})
	}
}

func TestKeyOfTheTableAppliesWithoutAConvention(t *testing.T) {
	for name, record := range map[string]func(i int) any{
		"a wider key": func(i int) any { return m{"id": i / 2, "lang": []string{"de", "en"}[i%2], "city": i} },
		"no key":      func(i int) any { return m{"id": i / 2, "city": i} },
	} {
		t.Run(name, func(t *testing.T) {
			stream := endpoint("x.shops", "GET", "/api/shops", "id")
			s := serveAPI(t, map[string]http.HandlerFunc{"/api/shops": inPages(50, func() []any { return manyOf(40, record) })}, nil, stream)
			s.must(StatusComplete)
			key := s.key("x_shops")
			require.NotEqual(t, stream.Key, key)
			config := s.config
			config.Destinations = []Destination{{Name: "warehouse", Destination: s.memory}}
			empty := extract.Convention{LearnedAt: time.Now()}.About(stream)
			require.NoError(t, Remember(context.Background(), config, map[string]extract.Convention{"x.shops": empty}))
			for range 2 {
				rep := s.again()
				require.Equal(t, StatusComplete, rep.Status, "%v", rep.Streams[0].Err)
				require.Zero(t, rep.Streams[0].Counts.Written)
				require.Equal(t, key, s.key("x_shops"))
			}
		})
	}
}
