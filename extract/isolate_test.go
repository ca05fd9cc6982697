package extract

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

type broken struct {
	n      int
	ids    []int
	status int
	body   string
	size   string // page size parameter that the server accepts
	total  bool
}

func (b broken) serve(w http.ResponseWriter, r *http.Request) {
	size := number(r, b.size, 10)
	from := (number(r, "page", 1) - 1) * size
	if r.URL.Query().Has("offset") {
		from = number(r, "offset", 0)
	}
	for _, id := range b.ids {
		if id > from && id <= from+size {
			w.WriteHeader(b.status)
			fmt.Fprint(w, b.body)
			return
		}
	}
	page := rows(min(from, b.n), min(from+size, b.n), b.n)
	if b.total {
		fmt.Fprintf(w, `{"data":%s,"total":%d}`, page, b.n)
		return
	}
	fmt.Fprintf(w, `{"data":%s}`, page)
}

const serverError = `{"message":"Server Error"}`

func without(n int, gone ...int) string {
	var out string
next:
	for id := 1; id <= n; id++ {
		for _, g := range gone {
			if g == id {
				continue next
			}
		}
		if out != "" {
			out += ","
		}
		out += strconv.Itoa(id)
	}
	return out
}

func TestBrokenRecordIsIsolated(t *testing.T) {
	byPage := schemas.Pagination{Type: "page", Page: "page", Size: "per_page", Limit: 10}
	byOffset := schemas.Pagination{Type: "offset", Page: "offset", Size: "limit", Limit: 10}
	for _, tt := range []struct {
		name     string
		list     broken
		Progress schemas.Pagination
		gaps     []string
	}{
		{"in the middle", broken{n: 57, ids: []int{17}, size: "per_page", total: true}, byPage,
			[]string{"record 17 of the list (page 2), after key 16, before key 18: 500: Server Error"}},
		{"no size configured", broken{n: 57, ids: []int{17}, size: "per_page", total: true}, schemas.Pagination{},
			[]string{"record 17 of the list (page 2), after key 16, before key 18: 500: Server Error"}},
		{"without a total", broken{n: 57, ids: []int{17}, size: "per_page"}, byPage,
			[]string{"record 17 of the list (page 2), after key 16, before key 18: 500: Server Error"}},
		{"the last of a page", broken{n: 57, ids: []int{20}, size: "per_page"}, byPage,
			[]string{"record 20 of the list (page 2), after key 19, before key 21: 500: Server Error"}},
		{"the first of the list", broken{n: 57, ids: []int{1}, size: "per_page", total: true}, byPage,
			[]string{"record 1 of the list (page 1), before key 2: 500: Server Error"}},
		{"the last of the list", broken{n: 57, ids: []int{57}, size: "per_page", total: true}, byPage,
			[]string{"record 57 of the list (page 6), after key 56: 500: Server Error"}},
		{"two side by side, and one more", broken{n: 57, ids: []int{20, 21, 33}, size: "per_page", total: true}, byPage,
			[]string{"record 20 of the list (page 2), after key 19, before key 22: 500: Server Error",
				"record 21 of the list (page 3), after key 19, before key 22: 500: Server Error",
				"record 33 of the list (page 4), after key 32, before key 34: 500: Server Error"}},
		{"by offset", broken{n: 57, ids: []int{17, 18}, size: "limit", total: true}, byOffset,
			[]string{"records 17 to 18 of the list (offset 10), after key 16, before key 19: 500: Server Error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.list.status, tt.list.body = 500, serverError
			s := list("x.things", "id")
			s.Pagination = tt.Progress
			c := serve(t, tt.list.serve, s)
			c.parallel = 1
			r, err := read(c.Client, s, "")
			require.NoError(t, err)
			require.Equal(t, without(57, tt.list.ids...), r.ids())
			require.LessOrEqual(t, c.requests.Load(), int64(10+20*len(tt.list.ids)))
			var gaps []string
			for _, g := range r.end.Gaps {
				gaps = append(gaps, g.String())
			}
			require.Equal(t, tt.gaps, gaps)
			if tt.Progress.Type == "" {
				return // a later process would continue with the paging that this process has learned, not with tt.Progress
			}
			for i, at := range r.cursors[:len(r.cursors)-1] {
				again, err := read(c.Client, s, at)
				require.NoError(t, err)
				require.Len(t, again.end.Gaps, len(r.end.Gaps), "resumed after page %d: gaps of earlier pages must be reported", i+1)
			}
		})
	}
}

func TestBrokenRecordByErrorText(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
	}{
		{400, `{"success":false,"message":"Something went wrong","errors":null}`},
		{200, `{"status":0,"message":"something went wrong!!!"}`},
		{500, `{"message":"Malformed UTF-8 characters, possibly incorrectly encoded"}`},
		{400, `{"message":"Malformed UTF-8 characters, possibly incorrectly encoded"}`},
	} {
		s := list("x.things", "id")
		s.Pagination = schemas.Pagination{Type: "page", Page: "page", Size: "per_page", Limit: 10}
		c := serve(t, broken{n: 25, ids: []int{17}, status: tt.status, body: tt.body, size: "per_page", total: true}.serve, s)
		r, err := read(c.Client, s, "")
		require.NoError(t, err, tt.body)
		require.Equal(t, without(25, 17), r.ids())
		require.Len(t, r.end.Gaps, 1)
	}
}

func TestBrokenRecordCannotBeIsolated(t *testing.T) {
	byPage := schemas.Pagination{Type: "page", Page: "page", Size: "per_page", Limit: 10}
	for _, tt := range []struct {
		name string
		list broken
		want string
	}{
		{"a server in trouble", broken{n: 57, ids: []int{17}, status: 503, body: serverError, size: "per_page", total: true}, "503 service unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := list("x.things", "id")
			s.Pagination = byPage
			c := serve(t, tt.list.serve, s)
			c.parallel = 1
			r, err := read(c.Client, s, "")
			classIs(t, err, wire.Transient)
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, r.end)
			require.Equal(t, wanted(10), r.ids())
			require.LessOrEqual(t, c.requests.Load(), int64(40))
		})
	}
	s := list("x.things", "id")
	c := serve(t, broken{n: 7, ids: []int{3}, status: 500, body: serverError, size: "_none"}.serve, s)
	_, err := read(c.Client, s, "")
	classIs(t, err, wire.Transient)
	require.ErrorContains(t, err, "Server Error")
}

func TestPageThatAlwaysFailsIsAGap(t *testing.T) {
	byPage := schemas.Pagination{Type: "page", Page: "page", Size: "per_page", Limit: 10}
	byOffset := schemas.Pagination{Type: "offset", Page: "offset", Size: "limit", Limit: 10}
	third := []int{21, 22, 23, 24, 25, 26, 27, 28, 29, 30}
	last := []int{51, 52, 53, 54, 55, 56, 57}
	for _, tt := range []struct {
		name     string
		list     broken
		Progress schemas.Pagination
		gone     []int
		gaps     []string
	}{
		{"nothing is broken", broken{n: 57, size: "per_page", total: true}, byPage, nil, nil},
		{"no record of the page can be read", broken{n: 57, ids: third, size: "per_page", total: true}, byPage, third,
			[]string{"records 21 to 30 of the list (page 3), after key 20, before key 31: 500: Server Error"}},
		{"one record, and the page size is fixed", broken{n: 57, ids: []int{27}, size: "_none", total: true}, byPage, third,
			[]string{"records 21 to 30 of the list (page 3), after key 20, before key 31: 500: Server Error"}},
		{"no size configured", broken{n: 57, ids: third, size: "per_page"}, schemas.Pagination{}, third,
			[]string{"records 21 to 30 of the list (page 3), after key 20, before key 31: 500: Server Error"}},
		{"without a total", broken{n: 57, ids: third, size: "_none"}, byPage, third,
			[]string{"records 21 to 30 of the list (page 3), after key 20, before key 31: 500: Server Error"}},
		{"the last page", broken{n: 57, ids: last, size: "_none", total: true}, byPage, last,
			[]string{"records 51 to 57 of the list (page 6), after key 50: 500: Server Error"}},
		{"by offset", broken{n: 57, ids: []int{27}, size: "_none", total: true}, byOffset, third,
			[]string{"records 21 to 30 of the list (offset 20), after key 20, before key 31: 500: Server Error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.list.status, tt.list.body = 500, serverError
			s := list("x.things", "id")
			s.Pagination = tt.Progress
			c := serve(t, tt.list.serve, s)
			c.parallel = 1
			r, err := read(c.Client, s, "")
			require.NoError(t, err)
			require.Equal(t, without(57, tt.gone...), r.ids())
			require.LessOrEqual(t, c.requests.Load(), int64(30))
			var gaps []string
			for _, g := range r.end.Gaps {
				gaps = append(gaps, g.String())
			}
			require.Equal(t, tt.gaps, gaps)
		})
	}
}

func TestIsolationWithoutPageSize(t *testing.T) {
	s := list("x.things", "id")
	s.Pagination = schemas.Pagination{Type: "page", Page: "page"}
	c := serve(t, broken{n: 45, ids: []int{23}, size: "_none", status: 500, body: serverError}.serve, s)
	c.parallel = 1
	r, err := read(c.Client, s, "")
	require.NoError(t, err)
	require.Equal(t, without(45, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30), r.ids())
	require.Len(t, r.end.Gaps, 1)
}

func TestFailingServerIsNotAGap(t *testing.T) {
	s := list("x.things", "id")
	s.Pagination = schemas.Pagination{Type: "page", Page: "page"}
	var all []int
	for id := 21; id <= 90; id++ {
		all = append(all, id)
	}
	c := serve(t, broken{n: 90, ids: all, status: 500, body: serverError, size: "_none", total: true}.serve, s)
	c.parallel = 1
	_, err := read(c.Client, s, "")
	classIs(t, err, wire.Transient)
	require.ErrorContains(t, err, "Server Error")
	require.LessOrEqual(t, c.requests.Load(), int64(60))

	down := false
	c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if down = down || number(r, "page", 1) == 3; down {
			w.WriteHeader(500)
			fmt.Fprint(w, serverError)
			return
		}
		broken{n: 57, size: "_none", total: true}.serve(w, r)
	}, s)
	c.parallel = 1
	r, err := read(c.Client, s, "")
	classIs(t, err, wire.Transient)
	require.Equal(t, wanted(20), r.ids())
}

func TestIsolationIsBounded(t *testing.T) {
	var ids []int
	for id := 5; id <= 5000; id += 10 {
		ids = append(ids, id)
	}
	s := list("x.things", "id")
	s.Pagination = schemas.Pagination{Type: "page", Page: "page", Size: "per_page", Limit: 10}
	c := serve(t, broken{n: 5000, ids: ids, status: 500, body: serverError, size: "per_page", total: true}.serve, s)
	c.parallel = 16 // the pages requested in advance are not part of the bound
	r, err := read(c.Client, s, "")
	classIs(t, err, wire.Transient)
	require.Nil(t, r.end)
	require.Less(t, c.requests.Load(), int64(maxIsolating+100))
}
