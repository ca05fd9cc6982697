package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	*Client
	requests atomic.Int64
}

func serve(t *testing.T, h http.HandlerFunc, streams ...schemas.Stream) *fixture {
	t.Helper()
	return serveTrying(t, 1, h, streams...)
}

func serveTrying(t *testing.T, attempts int, h http.HandlerFunc, streams ...schemas.Stream) *fixture {
	t.Helper()
	f := &fixture{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		h(w, r)
	}))
	t.Cleanup(srv.Close)
	var routes []wire.Route
	for _, s := range streams {
		routes = append(routes, wire.Route{Method: s.Method, Path: s.Path})
	}
	w, err := wire.New(wire.Options{Name: "test", BaseURL: srv.URL, Allow: routes, MaxAttempts: attempts, Rate: budget.Rate{Limit: 100_000, Window: time.Second}})
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	f.Client, err = New(Config{App: w, V2: w, Selected: streams, Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func list(name string, key ...string) schemas.Stream {
	return schemas.Stream{
		Table: schemas.Table{Key: key}, Name: name, Surface: schemas.SurfaceApp,
		Method: "GET", Path: "/api/" + strings.ReplaceAll(name, ".", "/"), Class: schemas.ClassList,
	}
}

type reading struct {
	records []json.RawMessage
	cursors []state.Cursor
	end     *End
	parents []Parent
	pages   int
	total   int64
}

func (r reading) ids() string {
	var ids []string
	for _, raw := range r.records {
		var v struct{ ID json.RawMessage }
		_ = json.Unmarshal(raw, &v)
		ids = append(ids, string(v.ID))
	}
	return strings.Join(ids, ",")
}

func read(c *Client, s schemas.Stream, from state.Cursor) (reading, error) {
	return readOf(c, s, from, nil)
}

func readOf(c *Client, s schemas.Stream, from state.Cursor, ask func(Parent, int) bool) (r reading, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for p, err := range c.PagesOf(ctx, s, from, ask) {
		if err != nil {
			return r, err
		}
		var records []json.RawMessage
		if err := json.Unmarshal(p.Records, &records); err != nil {
			return r, fmt.Errorf("records %s: %w", p.Records, err)
		}
		for _, rec := range records {
			r.records = append(r.records, append(json.RawMessage(nil), rec...))
		}
		r.cursors = append(r.cursors, p.Next)
		r.parents = append(r.parents, p.Parents...)
		r.pages++
		r.total = p.Total
		r.end = p.End
	}
	return r, nil
}

func classIs(t *testing.T, err error, want wire.Class) {
	t.Helper()
	e, ok := errors.AsType[*wire.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, want, e.Class, "%v", err)
}

func rows(from, to, n int) string {
	var out []string
	for i := from; i < min(to, n); i++ {
		out = append(out, fmt.Sprintf(`{"id":%d,"name":"r%d"}`, i+1, i+1))
	}
	return "[" + strings.Join(out, ",") + "]"
}

func number(r *http.Request, name string, otherwise int) int {
	if n, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

func wanted(n int) string {
	var ids []string
	for i := range n {
		ids = append(ids, strconv.Itoa(i+1))
	}
	return strings.Join(ids, ",")
}

func pagers(n int) map[string]struct {
	rule string
	h    http.HandlerFunc
} {
	type pager = struct {
		rule string
		h    http.HandlerFunc
	}
	last := max((n+9)/10, 1)
	page := func(f func(page int, rows, next string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			next := "null"
			if p < last {
				next = fmt.Sprintf(`"http://inner.host:9/elsewhere?page=%d"`, p+1)
			}
			fmt.Fprint(w, f(p, rows((p-1)*10, p*10, n), next))
		}
	}
	return map[string]pager{
		"d1 items": {RuleLastPage, page(func(p int, rows, _ string) string {
			return fmt.Sprintf(`{"success":true,"message":"ok","data":{"items":%s,"pagination":{"total":%d,"per_page":10,"current_page":%d,"last_page":%d}}}`, rows, n, p, last)
		})},
		"d3 paginator": {RuleLastPage, page(func(p int, rows, next string) string {
			return fmt.Sprintf(`{"status":1,"data":{"current_page":%d,"data":%s,"last_page":%d,"links":[{"url":null,"label":"x"}],"next_page_url":%s,"per_page":"10","total":"%d"}}`, p, rows, last, next, n)
		})},
		"simple paginator": {RuleNoNext, page(func(p int, rows, next string) string {
			return fmt.Sprintf(`{"status":"success","data":{"current_page":%d,"data":%s,"next_page_url":%s,"per_page":10}}`, p, rows, next)
		})},
		"resource": {RuleLastPage, page(func(p int, rows, next string) string {
			return fmt.Sprintf(`{"data":%s,"links":{"first":"x?page=1","last":"x?page=9","next":%s},"meta":{"current_page":%d,"last_page":%d,"links":[],"total":%d}}`, rows, next, p, last, n)
		})},
		"fractal": {RuleLastPage, page(func(p int, rows, _ string) string {
			return fmt.Sprintf(`{"data":%s,"meta":{"pagination":{"total":%d,"count":10,"per_page":10,"current_page":%d,"total_pages":%d,"links":[]}}}`, rows, n, p, last)
		})},
		"numbered": {RuleLastPage, page(func(p int, rows, _ string) string {
			return fmt.Sprintf(`{"page":%d,"total_pages":%d,"count":%d,"rows":%s}`, p, last, n, rows)
		})},
		"link header": {RuleNoNext, func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			link := fmt.Sprintf(`<http://x/y?page=%d&per_page=10>; rel="last"`, last)
			if p < last {
				link = fmt.Sprintf(`<http://x/y?per_page=10&page=%d>; rel="next", `, p+1) + link
			}
			w.Header().Set("Link", link)
			fmt.Fprint(w, rows((p-1)*10, p*10, n))
		}},
		"total only": {RuleTotal, page(func(_ int, rows, _ string) string {
			return fmt.Sprintf(`{"success":true,"data":%s,"total":%d}`, rows, n)
		})},
		"silent pages": {RuleEmptyPage, page(func(_ int, rows, _ string) string { return rows })},
		"offset": {RuleNoNext, func(w http.ResponseWriter, r *http.Request) {
			from, next := number(r, "offset", 0), "null"
			if from+10 < n {
				next = fmt.Sprintf(`"http://inner/x?limit=10&offset=%d"`, from+10)
			}
			fmt.Fprintf(w, `{"count":%d,"next":%s,"previous":null,"results":%s}`, n, next, rows(from, from+10, n))
		}},
		"stripe": {RuleNoNext, func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "starting_after", 0)
			fmt.Fprintf(w, `{"object":"list","has_more":%t,"data":%s}`, from+10 < n, rows(from, from+10, n))
		}},
		"next cursor": {RuleNoNext, func(w http.ResponseWriter, r *http.Request) {
			from, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get("cursor"), "c="))
			next := "null"
			if from+10 < n {
				next = fmt.Sprintf(`"c=%d"`, from+10)
			}
			fmt.Fprintf(w, `{"data":%s,"meta":{"next_cursor":%s}}`, rows(from, from+10, n), next)
		}},
		"cursor that disappears": {RuleNoNext, func(w http.ResponseWriter, r *http.Request) {
			from, next := number(r, "after", 0), ""
			if from+10 < n {
				next = fmt.Sprintf(`,"paging":{"next":{"after":"%d"}}`, from+10)
			}
			fmt.Fprintf(w, `{"results":%s%s}`, rows(from, from+10, n), next)
		}},
		"token of the next page in a link": {RuleNoNext, func(w http.ResponseWriter, r *http.Request) {
			from, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get("page"), "t"))
			next := "null"
			if from+10 < n {
				next = fmt.Sprintf(`"/v2/x?page=t%d"`, from+10)
			}
			fmt.Fprintf(w, `{"data":%s,"next_page_url":%s}`, rows(from, from+10, n), next)
		}},
		"whole": {RuleOnePage, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"status":"success","data":%s}`, rows(0, n, n))
		}},
	}
}

func TestPagesOfEveryDialect(t *testing.T) {
	for _, n := range []int{1, 9, 10, 11, 57, 100} {
		for name, p := range pagers(n) {
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) {
				s := list("x.things", "id")
				c := serve(t, p.h, s)
				r, err := read(c.Client, s, "")
				require.NoError(t, err)
				require.Equal(t, wanted(n), r.ids())
				require.NotNil(t, r.end)
				if n > 10 {
					require.Equal(t, p.rule, r.end.Rule)
				}
				seen := map[state.Cursor]bool{}
				for i, from := range r.cursors {
					require.False(t, seen[from], "cursor is repeated")
					seen[from] = true
					if i == len(r.cursors)-1 {
						continue
					}
					again, err := read(c.Client, s, from)
					require.NoError(t, err)
					require.True(t, again.end.Resumed)
					require.True(t, strings.HasSuffix(r.ids(), strings.TrimSuffix(","+again.ids(), ",")), "resumed after page %d: %s", i+1, again.ids())
					require.Equal(t, r.end.FirstTotal, again.end.FirstTotal)
					require.Equal(t, r.end.Pages, again.end.Pages)
				}
				next, err := read(c.Client, s, r.cursors[len(r.cursors)-1])
				require.NoError(t, err)
				require.Equal(t, wanted(n), next.ids())
				require.False(t, next.end.Resumed)
			})
		}
	}
}

func TestPagesEmpty(t *testing.T) {
	for _, body := range []string{
		`[]`, `{"data":[]}`, `{"success":true,"data":null}`, `{"status":"success","data":""}`, `{"status":1,"data":{}}`, `{"data":{"data":[]}}`,
		`{"success":true,"data":{"items":[],"pagination":{"total":0,"per_page":10,"current_page":1,"last_page":1}}}`,
		`{"object":"list","has_more":false,"data":[]}`,
	} {
		for _, candidates := range [][]string{nil, {"/data"}, {"/data/items", "/data/data", "/data"}, {"/data/*/things", "/data", ""}} {
			s := list("x.things", "id")
			s.Records = candidates
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, s)
			r, err := read(c.Client, s, "")
			if candidates != nil && body == `[]` && candidates[len(candidates)-1] != "" {
				require.NoError(t, err, "%s %q", body, candidates)
				continue
			}
			require.NoError(t, err, "%s %q", body, candidates)
			require.Empty(t, r.records)
			require.NotNil(t, r.end)
		}
	}
}

// If the last record has no id, the pass fails. A request with the text "null" as the id would not return the rest of
// the list.
func TestNullIDIsNotSent(t *testing.T) {
	s := list("x.things", "id")
	s.Pagination = schemas.Pagination{Type: "since_id", Page: "starting_after"}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("starting_after") != "" {
			fmt.Fprint(w, `{"data":[],"has_more":false}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":1},{"id":2},{"id":null}],"has_more":true}`)
	}, s)
	_, err := read(c.Client, s, "")
	require.Error(t, err)
}
