package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// protocols are lists of n records in pages of ten, as in public APIs. It is easy to misread their next page, end or
// position.
func protocols(n int) map[string]http.HandlerFunc {
	part := func(r *http.Request, param string) (page, next string) {
		from := token(r, param)
		if from+10 < n {
			next = strconv.Quote(fmt.Sprintf("tok-%d", from+10))
		}
		return rows(from, from+10, n), next
	}
	optional := func(member, value string) string {
		if value == "" {
			return ""
		}
		return `,"` + member + `":` + value
	}
	return map[string]http.HandlerFunc{
		"a token in an object of another name": func(w http.ResponseWriter, r *http.Request) {
			page, next := part(r, "cursor")
			fmt.Fprintf(w, `{"success":true,"data":%s,"extras":{"kind":"x"%s}}`, page, optional("next_cursor", next))
		},
		"a token beside counts": func(w http.ResponseWriter, r *http.Request) {
			page, next := part(r, "cursor")
			fmt.Fprintf(w, `{"records":{"totalRecords":%d,"currentPageSize":10%s},"calls":%s}`, n, optional("cursor", next), page)
		},
		"a token with an unusual name": func(w http.ResponseWriter, r *http.Request) {
			page, next := part(r, "stream_position")
			fmt.Fprintf(w, `{"entries":%s%s}`, page, optional("next_stream_position", next))
		},
		"a token that is named like a key": func(w http.ResponseWriter, r *http.Request) {
			page, next := part(r, "page_key")
			link := ""
			if next != "" {
				link = optional("next_page_url", strconv.Quote("/v2/sales?page_key="+strings.Trim(next, `"`)))
			}
			fmt.Fprintf(w, `{"sales":%s%s}`, page, link)
		},
		"a token beside the token of the page before": func(w http.ResponseWriter, r *http.Request) {
			page, next := part(r, "page[after]")
			fmt.Fprintf(w, `{"users":%s,"meta":{"has_more":%t,"before_cursor":"b-%d"%s}}`, page, next != "", token(r, "page[after]"), optional("after_cursor", next))
		},
		"a token and an estimate": func(w http.ResponseWriter, r *http.Request) {
			page, next := part(r, "pageToken")
			fmt.Fprintf(w, `{"messages":%s,"resultSizeEstimate":201%s}`, page, optional("nextPageToken", next))
		},
		"paged by time, with a flag on the last page": func(w http.ResponseWriter, r *http.Request) {
			from := max(number(r, "since", 0)-1_700_000_000_000, 0)
			to := min(from+10, n)
			next := ""
			if to < n {
				next = fmt.Sprintf(`"nextPage":"http://h/x?since=%d",`, to+1_700_000_000_000)
			}
			fmt.Fprintf(w, `{"values":%s,%s"until":%d,"lastPage":%t}`, rows(from, to, n), next, to+1_700_000_000_000, to == n)
		},
		"a link with the relation next-page": func(w http.ResponseWriter, r *http.Request) {
			page, next := part(r, "token")
			if next != "" {
				w.Header().Set("Link", fmt.Sprintf(`<http://h/x?token=%s>; rel="next-page"`, strings.Trim(next, `"`)))
			}
			fmt.Fprint(w, page)
		},
		"a link with an unusual name": func(w http.ResponseWriter, r *http.Request) {
			from, to, more := window(r, "from_row", n)
			link := ""
			if more {
				link = optional("more_topics_url", fmt.Sprintf(`"/latest?page=1&from_row=%d"`, to))
			}
			fmt.Fprintf(w, `{"can_create":true,"topics":%s%s}`, rows(from, to, n), link)
		},
		"an array of two elements: paging and records": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			fmt.Fprintf(w, `[{"page":%d,"pages":%d,"per_page":"10","total":%d},%s]`, p, (n+9)/10, n, rows((p-1)*10, p*10, n))
		},
		"an array of two elements: a status and records": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			fmt.Fprintf(w, `[{"status":"ok"},%s]`, rows((p-1)*10, p*10, n))
		},
		"an offset that counts pages": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "offset", 1)
			fmt.Fprintf(w, `{"total":%d,"pageSize":10,"offset":%d,"_embedded":{"elements":%s}}`, n, p, rows((p-1)*10, p*10, n))
		},
		"an offset called first": func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "first", 0)
			fmt.Fprint(w, rows(from, from+10, n))
		},
		"an empty list is left out": func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "offset", 0)
			list := ""
			if from < n {
				list = optional("campaigns", rows(from, from+10, n))
			}
			fmt.Fprintf(w, `{"count":%d%s}`, n, list)
		},
		"the status 0 is a success": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			fmt.Fprintf(w, `{"status":0,"body":{"groups":%s}}`, rows((p-1)*10, p*10, n))
		},
		"members named after the records": func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "offset", 0)
			fmt.Fprintf(w, `{"release-count":%d,"release-offset":%d,"releases":%s}`, n, from, rows(from, from+10, n))
		},
	}
}

func TestProtocols(t *testing.T) {
	for _, n := range []int{37, 40} {
		for name, h := range protocols(n) {
			t.Run(fmt.Sprintf("%s, of %d", name, n), func(t *testing.T) { readsWhole(t, h, n) })
		}
	}
}

func TestFirstTokenInThePath(t *testing.T) {
	for value, reads := range map[string]bool{"*": true, "initial": true, "tok-10": false} {
		s := own("x.things")
		s.Params = []schemas.Param{{Name: "cursor", In: "query", Value: value}}
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			from := token(r, "cursor")
			next := "null"
			if from+10 < 35 {
				next = fmt.Sprintf(`"tok-%d"`, from+10)
			}
			fmt.Fprintf(w, `{"items":%s,"next_cursor":%s}`, rows(from, from+10, 35), next)
		}, s)
		if !reads {
			_, err := f.Negotiate(t.Context(), s)
			require.ErrorContains(t, err, "more than its first page")
			continue
		}
		_, r := learn(t, f, s)
		require.Equal(t, wanted(35), r.ids())
	}
}

func TestNextPageOfAPost(t *testing.T) {
	s := own("x.things")
	s.Method = http.MethodPost
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Pagination struct {
				StartingAfter string `json:"starting_after"`
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		from, _ := strconv.Atoi(strings.TrimPrefix(body.Pagination.StartingAfter, "tok-"))
		next := ""
		if from+10 < 35 {
			next = fmt.Sprintf(`"next":{"page":%d,"starting_after":"tok-%d"},`, from/10+2, from+10)
		}
		fmt.Fprintf(w, `{"data":%s,"total_count":35,"pages":{%s"page":%d,"per_page":10,"total_pages":4}}`, rows(from, from+10, 35), next, from/10+1)
	}, s)
	_, r := learn(t, f, s)
	require.Equal(t, wanted(35), r.ids())
}

func TestConstantTextIsNotAToken(t *testing.T) {
	s, learned := own("x.things"), false
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); learned && q.Get("page") != "" && number(r, "page", -1) < 0 {
			t.Errorf("requested page %q", q.Get("page"))
		}
		p := number(r, "page", 1)
		fmt.Fprintf(w, `{"data":%s,"session":{"resume_token":"r-1"}}`, rows((p-1)*10, p*10, 35))
	}, s)
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	learned = true
	r, err := read(f.Client, c.Apply(s), "")
	require.NoError(t, err)
	require.Equal(t, wanted(35), r.ids())
	require.Empty(t, r.end.Unexplained)
}

func TestKeysStartAgainLater(t *testing.T) {
	page := func(w http.ResponseWriter, p int, again bool) {
		var out []string
		for i := (p - 1) * 10; i < min(p*10, 60); i++ {
			id := i
			if again {
				id = i % 40
			}
			out = append(out, fmt.Sprintf(`{"id":%d,"name":"r%d"}`, id+1, i+1))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(out, ","))
	}
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, r *http.Request) { page(w, number(r, "page", 1), true) }, s)
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	_, err = read(f.Client, c.Apply(s), "")
	require.ErrorContains(t, err, "have the keys of the first")

	f = serve(t, func(w http.ResponseWriter, r *http.Request) {
		p := number(r, "page", 1)
		if p > 6 {
			p = 1
		}
		page(w, p, false)
	}, s)
	_, r := learn(t, f, s)
	require.Equal(t, wanted(60), r.ids())
}

func TestShortPageInTheMiddle(t *testing.T) {
	requested := map[int]int{}
	for name, tt := range map[string]struct {
		third      func() string
		incomplete string
	}{
		"some hidden records": {func() string { return rows(20, 26, 60) }, ""},
		"only hidden records": {func() string { return "[]" }, ""},
		"empty once":          {func() string { return rows(20, 30*min(requested[3]-1, 1), 60) }, "page 3 held 0 records, but 10 when"},
		"short once":          {func() string { return rows(20, 24+6*min(requested[3]-1, 1), 60) }, "page 3 held 4 records, but 10 when"},
		"null":                {func() string { return "null" }, "page 3 has no list of records"},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				p := number(r, "page", 1)
				requested[p]++
				page := rows((p-1)*10, p*10, 60)
				if p == 3 {
					page = tt.third()
				}
				fmt.Fprintf(w, `{"data":%s}`, page)
			}, s)
			c, err := f.Negotiate(t.Context(), s)
			require.NoError(t, err)
			clear(requested)
			r, err := read(f.Client, c.Apply(s), "")
			require.NoError(t, err)
			if tt.incomplete == "" {
				require.Empty(t, r.end.Incomplete)
				return
			}
			require.Len(t, r.end.Incomplete, 1)
			require.Contains(t, r.end.Incomplete[0], tt.incomplete)
		})
	}
}
