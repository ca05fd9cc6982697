package extract

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

func TestNegotiateCosts(t *testing.T) {
	for name, tt := range map[string]struct {
		n, most int
		h       http.HandlerFunc
	}{
		"whole": {7, 2, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"data":%s}`, rows(0, 7, 7)) }},
		"pages": {95, 6, func(w http.ResponseWriter, r *http.Request) {
			p, size := number(r, "page", 1), number(r, "per_page", 10)
			items(w, rows((p-1)*size, p*size, 95), 95, p, (95+size-1)/size)
		}},
		"a paged list with one page": {7, 2, func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			items(w, rows((p-1)*10, p*10, 7), 7, p, 1)
		}},
		"paged by the last id": {250, 5, func(w http.ResponseWriter, r *http.Request) {
			from, size := number(r, "starting_after", 0), min(number(r, "limit", 10), 100)
			fmt.Fprintf(w, `{"has_more":%t,"data":%s}`, from+size < 250, rows(from, from+size, 250))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			c, r := learn(t, serve(t, tt.h, s), s)
			require.Equal(t, wanted(tt.n), r.ids())
			require.LessOrEqual(t, c.Requests, tt.most, "%+v", c.Facts)
			for _, f := range c.Facts {
				require.NotEmpty(t, append(f.Evidence, f.Refuted...), f.About)
			}
		})
	}
	s := own("x.things")
	s.Parent, s.Params = "x.parents", []schemas.Param{{Name: "id", In: "query", From: "/id"}}
	parent := list("x.parents", "id")
	f := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("Negotiate sent a request") }, parent, s)
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	require.True(t, c.Fits(s))
	require.Zero(t, c.Requests)
}

func TestNegotiateSize(t *testing.T) {
	for name, tt := range map[string]struct {
		param string
		most  int
		n     int
		want  schemas.Pagination
	}{
		"no cap":                      {"limit", 1 << 20, 2500, schemas.Pagination{Type: "page", Page: "page", Size: "limit", Limit: 1000}},
		"a cap":                       {"pageSize", 100, 2500, schemas.Pagination{Type: "page", Page: "page", Size: "pageSize", Limit: 100}},
		"a small cap":                 {"take", 40, 2500, schemas.Pagination{Type: "page", Page: "page", Size: "take", Limit: 40}},
		"no size parameter":           {"nothing", 10, 250, schemas.Pagination{Type: "page", Page: "page"}},
		"a size larger than the list": {"pagination[limit]", 1 << 20, 57, schemas.Pagination{Type: "page", Page: "page", Size: "pagination[limit]", Limit: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				p, size := number(r, "page", 1), min(number(r, tt.param, 10), tt.most)
				fmt.Fprintf(w, `{"data":%s,"total":%d}`, rows((p-1)*size, p*size, tt.n), tt.n)
			}, s)
			c, r := learn(t, f, s)
			require.Equal(t, tt.want, c.Pagination, "%+v", c.Facts)
			require.Equal(t, wanted(tt.n), r.ids())
		})
	}
}

func TestNegotiateKey(t *testing.T) {
	row := func(f func(i int) string, n int) string {
		var all []string
		for i := range n {
			all = append(all, f(i))
		}
		return `{"data":[` + strings.Join(all, ",") + `]}`
	}
	for name, tt := range map[string]struct {
		body string
		want []string
	}{
		"id":                              {row(func(i int) string { return fmt.Sprintf(`{"name":"a","id":%d}`, i) }, 3), []string{"id"}},
		"one id in two records":           {row(func(i int) string { return fmt.Sprintf(`{"id":%d,"uuid":"u%d"}`, i/2, i) }, 4), []string{"uuid"}},
		"one record twice":                {row(func(i int) string { return fmt.Sprintf(`{"id":%d,"name":"n%d"}`, i/2, i/2) }, 4), []string{"id"}},
		"id that is null":                 {row(func(i int) string { return fmt.Sprintf(`{"id":null,"thing_id":%d}`, i) }, 4), []string{"thing_id"}},
		"ID":                              {row(func(i int) string { return fmt.Sprintf(`{"Name":"a","ID":%d}`, i) }, 3), []string{"id"}},
		"thingId":                         {row(func(i int) string { return fmt.Sprintf(`{"thingId":"o%d","note":"n"}`, i) }, 12), []string{"thing_id"}},
		"ID beside id":                    {row(func(i int) string { return fmt.Sprintf(`{"id":%d,"ID":%d}`, i/2, i) }, 4), nil},
		"a pair":                          {row(func(i int) string { return fmt.Sprintf(`{"warehouse_id":%d,"product_id":%d,"n":%d}`, i/4, i%4, i) }, 16), []string{"product_id", "warehouse_id"}},
		"a pair that is unique by chance": {row(func(i int) string { return fmt.Sprintf(`{"a_id":%d,"b_id":%d}`, i/2, i%2) }, 4), nil},
		"a name, few records":             {row(func(i int) string { return fmt.Sprintf(`{"name":"n%d","url":"u%d"}`, i, i) }, 12), nil},
		"a name, many records":            {row(func(i int) string { return fmt.Sprintf(`{"name":"n%d","url":"u%d"}`, i, i) }, 60), []string{"name"}},
		"a code, few records":             {row(func(i int) string { return fmt.Sprintf(`{"code":"n%d"}`, i) }, 3), nil},
		"a code, many records":            {row(func(i int) string { return fmt.Sprintf(`{"code":"n%d"}`, i) }, 12), []string{"code"}},
		"values that identify nothing":    {row(func(i int) string { return fmt.Sprintf(`{"name":"x","start_date":"2026-01-%02d"}`, i+1) }, 12), nil},
		"a dictionary by id":              {`{"data":{"17":{"n":1},"18":{"n":1},"20":{"n":2}}}`, []string{"id"}},
		"a list by position":              {`{"data":{"0":{"n":1},"1":{"n":1},"3":{"n":2}}}`, nil},
		"the key of the map":              {`{"data":{"a":{"n":1,"m":1},"b":{"n":1,"m":2},"c":{"n":1,"m":3}}}`, []string{"_context__key"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			c, r := learn(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.body) }, s), s)
			require.Equal(t, tt.want, c.Key, "%+v", c.Facts)
			require.NotNil(t, r.end)
			_, found := c.Fact(FactKey)
			require.True(t, found)
		})
	}
}

func TestNegotiateRecognisesVolatileFields(t *testing.T) {
	for name, tt := range map[string]struct {
		record func(i, answer int) string
		want   []string
	}{
		"a random image host": {func(i, answer int) string {
			return fmt.Sprintf(`{"id":%d,"name":"n%d","img":"https://cdn%d.images.example/%s/%d.png"}`, i, i, answer, strings.Repeat("x", 80), i)
		}, []string{"img"}},
		"an object with a time":   {func(i, answer int) string { return fmt.Sprintf(`{"id":%d,"name":"n","meta":{"read":%d}}`, i, answer) }, []string{"meta"}},
		"nothing differs":         {func(i, _ int) string { return fmt.Sprintf(`{"id":%d,"name":"n","img":"a"}`, i) }, nil},
		"one record is edited":    {func(i, answer int) string { return fmt.Sprintf(`{"id":%d,"name":"n","img":%d}`, i, answer*(i/11)) }, nil},
		"other records, same ids": {func(i, answer int) string { return fmt.Sprintf(`{"id":%d,"name":"n%d","img":%d}`, i, answer, answer) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			answers := 0
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				answers++
				var all []string
				for i := 1; i < 12; i++ {
					all = append(all, tt.record(i, answers))
				}
				fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(all, ","))
			}, s)
			c, err := f.Negotiate(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, tt.want, c.Volatile, "%+v", c.Facts)
			fact, found := c.Fact(FactVolatile)
			require.Equal(t, tt.want != nil, found)
			require.Equal(t, strings.Join(tt.want, ", "), fact.Value)
			require.Equal(t, tt.want, c.Apply(c.Apply(s)).Volatile)
		})
	}
}

func TestNegotiateOffersATypeForDecimals(t *testing.T) {
	s := own("x.things")
	c, _ := learn(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":1,"netAmount":"1.50","v":"1.5","n":1.50,"c":"007.50"},{"id":2,"netAmount":"-12.00","v":"1.25","n":2.50,"c":"1.50"},{"id":3,"netAmount":null},
			{"id":4,"netAmount":"0.01","v":"1.5","n":1.50,"c":"1.50"}]}`)
	}, s), s)
	f, _ := c.Fact(FactUnits)
	require.Equal(t, []string{"netAmount is a decimal in quotes in every record; use `columns: {net_amount: decimal}` for a decimal column"}, f.Evidence)
}

func TestRecordsOfADictionaryGetTheirIDs(t *testing.T) {
	for name, tt := range map[string]struct{ body, want string }{
		"ids as names":     {`{"data":{"17":{"n":1},"18":{ },"020":{"n":2}}}`, `{"n":1,"id":17} {"id":18} {"n":2,"id":"020"}`},
		"ids of their own": {`{"data":{"1":{"id":17,"n":1},"2":{"ID":18,"n":1}}}`, `{"id":17,"n":1} {"ID":18,"n":1}`},
		"positions":        {`{"data":{"0":{"n":1},"2":{"n":2}}}`, `{"n":1} {"n":2}`},
		"a list":           {`{"data":[{"n":1}]}`, `{"n":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			s.Key, s.Stated["key"] = []string{"id"}, "configured"
			_, r := learn(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.body) }, s), s)
			var got []string
			for _, record := range r.records {
				got = append(got, string(record))
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}

func TestKeyMembersAreFoundByTheirColumn(t *testing.T) {
	for _, name := range []string{"id", "ID", "Id", "thing-id", "thingId"} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			s.Key, s.Stated["key"] = schemas.KeyColumns([]string{name}), "configured"
			c, r := learn(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
				p := number(req, "page", 1)
				from, to := min(10*(p-1), 25), min(10*p, 25)
				all := []string{}
				for i := from; i < to; i++ {
					all = append(all, fmt.Sprintf(`{"a":1,%q:%d}`, name, i))
				}
				fmt.Fprintf(w, `{"data":[%s],"total":25}`, strings.Join(all, ","))
			}, s), s)
			key, _ := c.Fact(FactKey)
			require.Empty(t, key.Refuted)
			require.NotEmpty(t, key.Evidence)
			require.Equal(t, name, c.Order.Field, "the list is ordered by a field of the source")
			require.Len(t, r.records, 25)
		})
	}
}

func TestNegotiateStated(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		p := number(r, "page", 1)
		fmt.Fprintf(w, `{"data":%s,"others":[{"id":5,"a":1},{"id":5,"a":2}],"total":30}`, rows((p-1)*10, p*10, 30))
	}
	s := own("x.things")
	s.Records, s.Key = []string{"/others"}, []string{"id"}
	s.Stated["records"], s.Stated["key"] = "configured", "imported"
	f := serve(t, h, s)
	_, err := f.Negotiate(t.Context(), s)
	require.ErrorContains(t, err, "more than its first page")

	s.Pagination, s.Stated["pagination"] = schemas.Pagination{Type: "none"}, "configured"
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	key, _ := c.Fact(FactKey)
	require.Equal(t, Imported, key.From)
	require.Equal(t, "id", key.Value)
	require.NotEmpty(t, key.Refuted)
	r, err := read(f.Client, c.Apply(s), "")
	require.NoError(t, err)
	require.Equal(t, "5,5", r.ids())
	require.Equal(t, int64(30), r.end.LastTotal)
}

func TestNegotiateWrongPlace(t *testing.T) {
	s := own("x.things")
	s.Records, s.Stated["records"] = []string{"/data/items"}, "configured"
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"data":%s}`, rows(0, 3, 3)) }, s)
	_, err := f.Negotiate(t.Context(), s)
	require.ErrorContains(t, err, `no records at ["/data/items"] (configured)`)
	var unsettled *UnsettledError
	require.ErrorAs(t, err, &unsettled)
	require.Contains(t, unsettled.YAML, "records: /data")
}

type changes struct {
	n       int
	filter  string // parameter that filters; "" for none
	sort    string // parameter that sorts, together with the parameter direction; "" for none
	unix    bool   // times are in seconds
	strange bool   // the filter leaves out newer records, not older ones
}

func (c changes) serve(w http.ResponseWriter, r *http.Request) {
	base := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	q := r.URL.Query()
	type rec struct {
		id int
		at time.Time
	}
	var all []rec
	for i := range c.n {
		all = append(all, rec{1 + i*37%c.n, base.Add(time.Duration(c.n-i) * time.Hour)})
	}
	if bound := q.Get(c.filter); c.filter != "" && bound != "" {
		at, ok := records.Moment(bound, records.UnitRFC3339)
		if c.unix {
			at, ok = records.Moment(bound, records.UnitSeconds)
		}
		if !ok {
			http.Error(w, `{"message":"The date is invalid."}`, http.StatusUnprocessableEntity)
			return
		}
		all = slices.DeleteFunc(all, func(r rec) bool { return r.at.Before(at) != c.strange })
	}
	if c.sort != "" && q.Get(c.sort) == "id" && q.Get("direction") == "asc" {
		sort.Slice(all, func(i, j int) bool { return all[i].id < all[j].id })
	}
	p := number(r, "page", 1)
	var out []string
	for _, r := range all[min((p-1)*10, len(all)):min(p*10, len(all))] {
		at := `"` + r.at.Format(time.RFC3339) + `"`
		if c.unix {
			at = fmt.Sprint(r.at.Unix())
		}
		out = append(out, fmt.Sprintf(`{"id":%d,"updated_at":%s,"amount":1200,"currency":"usd"}`, r.id, at))
	}
	fmt.Fprintf(w, `{"data":[%s],"meta":{"current_page":%d,"last_page":%d}}`, strings.Join(out, ","), p, max(1, (len(all)+9)/10))
}

func TestNegotiateThorough(t *testing.T) {
	for name, tt := range map[string]struct {
		list  changes
		want  *Filter
		order string
	}{
		"no parameter is used":                   {list: changes{n: 40}},
		"a filter":                               {list: changes{n: 40, filter: "modified_since"}, want: &Filter{Param: "modified_since", Field: "updated_at", Format: records.UnitRFC3339, ByChange: true}},
		"a filter in seconds":                    {list: changes{n: 40, filter: "updated_at[gte]", unix: true}, want: &Filter{Param: "updated_at[gte]", Field: "updated_at", Format: records.UnitSeconds, ByChange: true}},
		"a filter that leaves out newer records": {list: changes{n: 40, filter: "since", strange: true}},
		"an order":                               {list: changes{n: 40, sort: "sort"}, order: "sort=id&direction=asc"},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, tt.list.serve, s)
			c, err := f.Explore(t.Context(), s)
			require.NoError(t, err)
			r, err := read(f.Client, c.Apply(s), "")
			require.NoError(t, err)
			require.Len(t, r.records, tt.list.n)
			require.Equal(t, tt.want, c.Filter, "%+v", c.Facts)
			require.Equal(t, tt.order, c.Pagination.Order)
			require.Equal(t, &Order{Field: "updated_at", Desc: true, ByChange: true}, c.Order)
			require.NotEmpty(t, c.Units["updated_at"])
			require.LessOrEqual(t, c.Requests, 20)
		})
	}
}

func TestNegotiateKeyThatRepeatsOnEachPage(t *testing.T) {
	const pages, size = 3, 17
	requested := 0
	page := func(of int, row func(i int) string) string {
		var all []string
		for i := (of - 1) * size; i < of*size && of <= pages; i++ {
			all = append(all, row(i))
		}
		return strings.Join(all, ",")
	}
	numbered := func(i int) string { return fmt.Sprintf(`{"id":%d,"title":"t%d"}`, i%size+1, i) }
	for _, tt := range []struct {
		name    string
		body    func(page int) string
		refuted bool
		rows    int
	}{
		{"no total", func(p int) string { return fmt.Sprintf(`{"data":[%s]}`, page(p, numbered)) }, true, pages * size},
		{"a total", func(p int) string { return fmt.Sprintf(`{"data":[%s],"total":%d}`, page(p, numbered), pages*size) }, true, pages * size},
		{"ids that continue", func(p int) string {
			return fmt.Sprintf(`{"data":[%s]}`, page(p, func(i int) string { return fmt.Sprintf(`{"id":%d}`, i) }))
		}, false, pages * size},
		{"one page", func(int) string { return fmt.Sprintf(`{"data":[%s]}`, page(1, numbered)) }, false, size},
		{"one page whose records change on every reading", func(int) string {
			requested++
			return fmt.Sprintf(`{"data":[%s]}`, page(1, func(i int) string { return fmt.Sprintf(`{"id":%d,"seen":%d}`, i, requested) }))
		}, false, size},
	} {
		for _, owned := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/owned=%t", tt.name, owned), func(t *testing.T) {
				s := own("x.things")
				if !owned {
					s = list("x.things", "id")
				}
				f := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, tt.body(number(r, "page", 1))) }, s)
				c, err := f.Negotiate(t.Context(), s)
				require.NoError(t, err)
				r, err := read(f.Client, c.Apply(s), "")
				require.NoError(t, err)
				require.Len(t, r.records, tt.rows)
				require.Equal(t, tt.refuted, c.Refuted([]string{"id"}), "%+v", c.Facts)
				if tt.refuted {
					require.Empty(t, c.Apply(s).Key)
				} else {
					require.Equal(t, []string{"id"}, c.Apply(s).Key)
				}
			})
		}
	}
}

func TestNegotiateEnlargesUsualPages(t *testing.T) {
	for _, tt := range []struct{ usual, most, want int }{{100, 500, 500}, {500, 1000, 1000}, {100, 100, 0}, {1000, 5000, 0}} {
		s, sizes := own("x.things"), 0
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("limit") != "" {
				sizes++
			}
			from, size := number(r, "offset", 0), min(number(r, "limit", tt.usual), tt.most)
			var all []string
			for i := from; i < min(from+size, 2300); i++ {
				all = append(all, fmt.Sprintf(`{"id":%d}`, i+1))
			}
			fmt.Fprintf(w, `{"data":[%s],"total":2300}`, strings.Join(all, ","))
		}, s)
		c, err := f.Negotiate(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, tt.want, c.Pagination.Limit, "%+v", c.Facts)
		if tt.usual == 1000 {
			require.Zero(t, sizes)
		}
	}
}
