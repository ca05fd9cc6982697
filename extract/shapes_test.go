package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func own(name string) schemas.Stream {
	s := list(name)
	s.Stated = map[string]string{"path": "configured"}
	return s
}

func learn(t *testing.T, f *fixture, s schemas.Stream) (Convention, reading) {
	t.Helper()
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	// An answer can end the negotiation while other requests are on their way. These are cancelled. They count as
	// requests, although the server may not have seen them.
	require.GreaterOrEqual(t, int64(c.Requests), f.requests.Load(), "requests of the negotiation")
	require.LessOrEqual(t, int64(c.Requests), f.requests.Load()+2, "requests of the negotiation")
	kept, err := json.Marshal(c)
	require.NoError(t, err)
	var back Convention
	require.NoError(t, json.Unmarshal(kept, &back))
	require.Equal(t, c, back)
	r, err := read(f.Client, back.Apply(s), "")
	require.NoError(t, err)
	return c, r
}

func TestPlausibleShapes(t *testing.T) {
	const n = 40
	page := func(size int, f func(p, last int, rows string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			fmt.Fprint(w, f(p, (n+size-1)/size, rows((p-1)*size, p*size, n)))
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"pages without a link": page(10, func(p, last int, rows string) string {
			return fmt.Sprintf(`{"success":true,"message":"ok","data":{"items":%s,"pagination":{"total":40,"per_page":10,"current_page":%d,"last_page":%d}}}`, rows, p, last)
		}),
		"a paginator with links to its inner host": page(15, func(p, last int, rows string) string {
			next := "null"
			if p < last {
				next = fmt.Sprintf(`"http://10.0.0.7/api/quotes?page=%d"`, p+1)
			}
			return fmt.Sprintf(`{"status":1,"data":{"current_page":%d,"data":%s,"links":[{"url":null,"label":"&laquo;"}],"next_page_url":%s,"per_page":15}}`, p, rows, next)
		}),
		"a list without links": page(10, func(_, _ int, rows string) string { return rows }),
		"a board": func(w http.ResponseWriter, _ *http.Request) {
			var stages []string
			for i := range 4 {
				stages = append(stages, fmt.Sprintf(`{"id":%d,"name":"s%d","order":%d,"things":%s}`, i+1, i, i, rows(i*10, i*10+10, n)))
			}
			fmt.Fprintf(w, `{"status":"success","data":{"pipeline":{"id":1,"name":"Sales"},"lead_stages":[%s]}}`, strings.Join(stages, ","))
		},
		"a map with keys chosen by people": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"status":"success","data":{"Sales":%s,"After sales":%s,"Empty":[]}}`, rows(0, 30, n), rows(30, 40, n))
		},
		"paged by the last id": func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "starting_after", 0)
			fmt.Fprintf(w, `{"object":"list","url":"/v2/things","has_more":%t,"data":%s}`, from+10 < n, rows(from, from+10, n))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			c, r := learn(t, serve(t, h, s), s)
			require.Equal(t, wanted(n), r.ids())
			require.Equal(t, []string{"id"}, c.Key)
			require.LessOrEqual(t, c.Requests, 8, c.Facts)
		})
	}
}

func TestMisleadingLists(t *testing.T) {
	const n = 30
	cut := func(r *http.Request, name string, first int) string {
		p := number(r, name, first) - first
		return rows(p*10, p*10+10, n)
	}
	for name, tt := range map[string]struct {
		h    http.HandlerFunc
		stop string // part of the error; "" if the list is read
	}{
		"the last page is exactly full": {h: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"data":%s}`, cut(r, "page", 1))
		}},
		"has_more with no data": {stop: "which does not lead forward", h: func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "starting_after", 0)
			fmt.Fprintf(w, `{"data":%s,"has_more":true}`, rows(from, from+10, n))
		}},
		"has_more with no data, by page": {stop: "pages in a row were empty", h: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"data":%s,"has_more":true,"page":%d}`, cut(r, "page", 1), number(r, "page", 1))
		}},
		"an empty first page": {h: func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 0)
			fmt.Fprintf(w, `{"data":%s}`, rows(max(p-1, 0)*10, p*10, n))
		}},
		"pages from 0": {h: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"data":%s,"total":30}`, cut(r, "page", 0))
		}},
		"a next link that is a path": {stop: "more than its first page", h: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"records":%s,"nextUrl":"/query/01g-2000"}`, rows(0, 10, n))
		}},
		"a cursor that is repeated": {stop: "cursor", h: func(w http.ResponseWriter, r *http.Request) {
			next := map[string]string{"": "a", "a": "b", "b": "a"}[r.URL.Query().Get("cursor")]
			from := map[string]int{"": 0, "a": 10, "b": 20}[r.URL.Query().Get("cursor")]
			fmt.Fprintf(w, `{"data":%s,"next_cursor":%q}`, rows(from, from+10, n), next)
		}},
		"a stated last page that is not the last": {stop: "the page after it has other records", h: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"data":%s,"current_page":%d,"last_page":2}`, cut(r, "page", 1), number(r, "page", 1))
		}},
		"a stated end that is not the end": {stop: "but a request for more records returns some", h: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"data":%s,"has_more":false}`, cut(r, "page", 1))
		}},
		"two lists without usual names": {stop: "no records found", h: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"ok":true,"left":[{"id":1}],"right":[{"id":2}]}`)
		}},
		"an empty page in the middle": {h: func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			if p == 2 {
				fmt.Fprint(w, `{"data":[]}`)
				return
			}
			if p > 2 {
				p--
			}
			fmt.Fprintf(w, `{"data":%s}`, rows((p-1)*10, p*10, n))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, tt.h, s)
			c, err := f.Negotiate(t.Context(), s)
			var r reading
			if err == nil {
				r, err = read(f.Client, c.Apply(s), "")
			}
			if tt.stop != "" {
				require.ErrorContains(t, err, tt.stop)
				require.Nil(t, r.end)
				require.LessOrEqual(t, f.requests.Load(), int64(2*maxProbes))
				return
			}
			require.NoError(t, err)
			require.Equal(t, wanted(n), r.ids())
		})
	}
}

func TestOneRecord(t *testing.T) {
	for _, body := range []string{`{"success":true,"data":{"id":1,"name":"a","items":[{"id":9}]}}`, `{"id":1,"lines":[{"id":9}]}`, `[{"id":1}]`} {
		s := own("x.things")
		_, r := learn(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, s), s)
		require.Equal(t, "1", r.ids(), body)
	}
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":1,"items":[{"id":9}]}`) }, s)
	_, err := f.Negotiate(t.Context(), s)
	require.ErrorContains(t, err, "either one record, or holds the records in the list at /items", "the answer may be a record or a list")

	s = own("x.profile")
	s.Class = schemas.ClassSingleton
	f = serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":{"name":"a"}}`) }, s)
	c, r := learn(t, f, s)
	require.Len(t, r.records, 1)
	require.Equal(t, 1, c.Requests)
}

func TestErrShape(t *testing.T) {
	shapes := map[string]http.HandlerFunc{
		"items": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			items(w, rows((p-1)*10, p*10, 30), 30, p, 3)
		},
		"rows":  func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"rows":%s}`, rows(0, 30, 30)) },
		"whole": func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"data":{"items":%s}}`, rows(0, 30, 30)) },
		"by offset": func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "offset", 0)
			fmt.Fprintf(w, `{"data":{"items":%s}}`, rows(from, from+10, 30))
		},
		"by another page": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "pageNumber", 1)
			items(w, rows((p-1)*10, p*10, 30), 30, p, 3)
		},
	}
	for _, tt := range []struct {
		before, after string
		changed       bool
	}{
		{"items", "rows", true}, {"rows", "items", true}, {"items", "by another page", true}, {"whole", "by offset", false},
		{"items", "items", false}, {"items", "by offset", true}, {"by offset", "whole", true},
	} {
		t.Run(tt.before+" then "+tt.after, func(t *testing.T) {
			now := tt.before
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, r *http.Request) { shapes[now](w, r) }, s)
			c, _ := learn(t, f, s)
			now = tt.after
			r, err := read(f.Client, c.Apply(s), "")
			if !tt.changed {
				require.NoError(t, err)
				require.Equal(t, wanted(30), r.ids())
				return
			}
			require.ErrorIs(t, err, ErrShape)
			again, err := f.Negotiate(t.Context(), s)
			require.NoError(t, err)
			r, err = read(f.Client, again.Apply(s), "")
			require.NoError(t, err)
			require.Equal(t, wanted(30), r.ids())
		})
	}
}
