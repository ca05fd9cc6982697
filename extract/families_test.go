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

func window(r *http.Request, param string, n int) (from, to int, more bool) {
	from = max(number(r, param, 0), 0)
	return from, min(from+10, n), from+10 < n
}

func token(r *http.Request, param string) int {
	i, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get(param), "tok-"))
	return i
}

func families(n int) map[string]http.HandlerFunc {
	byToken := func(param, format string, end string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			from := token(r, param)
			next := end
			if from+10 < n {
				next = fmt.Sprintf(`"tok-%d"`, from+10)
			}
			fmt.Fprintf(w, format, rows(from, from+10, n), next)
		}
	}
	byLink := func(format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			from, to, more := window(r, "offset", n)
			link := ""
			if more {
				link = fmt.Sprintf("https://inner.host/list?offset=%d&limit=10", to)
			}
			fmt.Fprintf(w, format, rows(from, to, n), link)
		}
	}
	byPage := func(param string, beyond func(w http.ResponseWriter, page int) bool, format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			p := number(r, param, 1)
			if (p-1)*10 >= n && beyond(w, p) {
				return
			}
			fmt.Fprintf(w, format, rows((p-1)*10, p*10, n))
		}
	}
	status := func(code int) func(http.ResponseWriter, int) bool {
		return func(w http.ResponseWriter, _ int) bool {
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				fmt.Fprint(w, `{"message":"invalid page"}`)
			}
			return true
		}
	}
	return map[string]http.HandlerFunc{
		"links array": func(w http.ResponseWriter, r *http.Request) {
			from, to, more := window(r, "skip", n)
			link := ""
			if more {
				link = fmt.Sprintf(`,{"rel":"next","href":"http://h/x?skip=%d"}`, to)
			}
			fmt.Fprintf(w, `{"items":%s,"links":[{"rel":"self","href":"http://h/x"}%s]}`, rows(from, to, n), link)
		},
		"link in a header": func(w http.ResponseWriter, r *http.Request) {
			from, to, more := window(r, "offset", n)
			w.Header().Set("Link", fmt.Sprintf(`<http://h/x?offset=%d>; rel="next"; results="%t"`, to, more))
			fmt.Fprint(w, rows(from, to, n))
		},
		"token in a header": func(w http.ResponseWriter, r *http.Request) {
			from := token(r, "cursor")
			if from+10 < n {
				w.Header().Set("X-Next-Cursor", fmt.Sprintf("tok-%d", from+10))
			}
			fmt.Fprint(w, rows(from, from+10, n))
		},
		"next page in a header; unknown parameters are filters": func(w http.ResponseWriter, r *http.Request) {
			for name := range r.URL.Query() {
				if name != "pageNumber" {
					fmt.Fprint(w, "[]")
					return
				}
			}
			p := number(r, "pageNumber", 1)
			if p*10 < n {
				w.Header().Set("X-Next-Page", strconv.Itoa(p+1))
			}
			fmt.Fprint(w, rows((p-1)*10, p*10, n))
		},
		"object in a header": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "pageNumber", 1)
			w.Header().Set("X-Pagination", fmt.Sprintf(`{"TotalCount":%d,"PageSize":10,"CurrentPage":%d,"HasNext":%t}`, n, p, p*10 < n))
			fmt.Fprint(w, rows((p-1)*10, p*10, n))
		},
		"range headers": func(w http.ResponseWriter, r *http.Request) {
			from, _ := strconv.Atoi(strings.TrimPrefix(r.Header.Get("Range"), "id ]"))
			if from+10 < n {
				w.Header().Set("Next-Range", fmt.Sprintf("id ]%d", from+10))
				w.WriteHeader(http.StatusPartialContent)
			}
			fmt.Fprint(w, rows(from, from+10, n))
		},
		"marker":                        byToken("Marker", `{"NextMarker":%[2]s,"Functions":%[1]s}`, "null"),
		"marker of a truncated list":    byToken("marker", `{"result":{"users":%s,"is_truncated":true,"marker":%s}}`, `null,"is_truncated":false`),
		"continue":                      byToken("continue", `{"kind":"PodList","metadata":{"resourceVersion":"1","continue":%[2]s},"items":%[1]s}`, `""`),
		"the last token is null":        byToken("cursor", `{"data":%s,"next_cursor":%s}`, "null"),
		"the last token is false":       byToken("cursor", `{"data":%s,"next_cursor":%s}`, "false"),
		"the last token is 0":           byToken("cursor", `{"data":%s,"next_cursor":%s}`, `"0"`),
		"the last token is empty":       byToken("cursor", `{"data":%s,"next_cursor":%s}`, `""`),
		"token nextPageToken":           byToken("nextPageToken", `{"issues":%s,"nextPageToken":%s}`, "null"),
		"token named offset":            byToken("offset", `{"records":%s,"offset":%s}`, "null"),
		"token parameter with brackets": byToken("pagination[cursor]", `{"data":{"sources":%s,"pagination":{"next":%s}}}`, "null"),
		"one of several tokens": func(w http.ResponseWriter, r *http.Request) {
			from := token(r, "apcontinue")
			more := ""
			if from+10 < n {
				more = fmt.Sprintf(`"continue":{"apcontinue":"tok-%d","continue":"-||"},`, from+10)
			}
			fmt.Fprintf(w, `{%s"query":{"allpages":%s}}`, more, rows(from, from+10, n))
		},
		"a token that points to its own page": func(w http.ResponseWriter, r *http.Request) {
			from := token(r, "cursor")
			fmt.Fprintf(w, `{"data":%s,"next_cursor":"tok-%d"}`, rows(from, from+10, n), min(from+10, (n-1)/10*10))
		},
		"link in next_page": byLink(`{"tickets":%s,"next_page":%q,"page":1}`),
		"link to an empty last page": func(w http.ResponseWriter, r *http.Request) {
			from, to, _ := window(r, "offset", n)
			fmt.Fprintf(w, `{"data":%s,"links":{"next":"/x?offset=%d"},"meta":{"has_more":%t}}`, rows(from, to, n), from+10, from < n)
		},
		"link with several parameters": func(w http.ResponseWriter, r *http.Request) {
			from, to, more := window(r, "place", n)
			if r.URL.Query().Get("view") != "v1" && r.URL.RawQuery != "" {
				from, to, more = 0, 10, true
			}
			link := "null"
			if more {
				link = fmt.Sprintf(`"http://h/x?view=v1&place=%d"`, to)
			}
			fmt.Fprintf(w, `{"data":%s,"next":%s}`, rows(from, to, n), link)
		},
		"offsets from 1": func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "startIndex", 1) - 1
			fmt.Fprintf(w, `{"totalResults":%d,"startIndex":%d,"itemsPerPage":10,"Resources":%s}`, n, from+1, rows(from, from+10, n))
		},
		"offsets from 1, not stated": func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "start", 1) - 1
			fmt.Fprintf(w, `{"data":%s}`, rows(from, from+10, n))
		},
		"flag for an exceeded limit": byLimit(n),
		"total in another language":  byPage("page", nothing, `{"gesamtanzahl":`+strconv.Itoa(n)+`,"daten":%s}`),
		"total in an object":         byPage("page", nothing, `{"took":3,"timed_out":false,"hits":{"total":{"value":`+strconv.Itoa(n)+`,"relation":"eq"},"hits":%s}}`),
		"204 after the last page":    byPage("page", status(http.StatusNoContent), `{"data":%s}`),
		"400 after the last page":    byPage("page", status(http.StatusBadRequest), `{"data":%s}`),
		"404 after the last page":    byPage("page", status(http.StatusNotFound), `{"data":%s}`),
		"the first page again after the last": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			if (p-1)*10 >= n {
				p = 1
			}
			fmt.Fprintf(w, `{"data":%s}`, rows((p-1)*10, p*10, n))
		},
		"the last page again after the last": func(w http.ResponseWriter, r *http.Request) {
			p := min(number(r, "page", 1), (n+9)/10)
			fmt.Fprintf(w, `{"data":%s}`, rows((p-1)*10, p*10, n))
		},
		"a page number that never changes": byPage("page", nothing, `{"current_page":1,"data":%s}`),
		"an envelope with an id":           byPage("page", nothing, `{"id":"b1","kind":"list","entry":%s}`),
		"records beside another array":     byPage("page", nothing, `{"fields":[{"id":"name"},{"id":"mail"}],"employees":%s}`),
		"records two levels down":          byPage("page", nothing, `{"QueryResponse":{"Customer":%s,"kind":"c"},"time":"2024-05-01T00:00:00Z"}`),
	}
}

func nothing(http.ResponseWriter, int) bool { return false }

func byLimit(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, to, more := window(r, "resultOffset", n)
		fmt.Fprintf(w, `{"fields":[{"name":"a"},{"name":"b"}],"exceededTransferLimit":%t,"features":%s}`, more, rows(from, to, n))
	}
}

func TestFamilies(t *testing.T) {
	for _, n := range []int{37, 40} {
		for name, h := range families(n) {
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) { readsWhole(t, h, n) })
		}
	}
}

func readsWhole(t *testing.T, h http.HandlerFunc, n int) {
	t.Helper()
	s := own("x.things")
	f := serve(t, h, s)
	c, r := learn(t, f, s)
	require.Equal(t, wanted(n), r.ids(), "%+v", c)
	require.Empty(t, r.end.Unexplained)
	require.Empty(t, r.end.Incomplete)
	before := f.requests.Load()
	again, err := read(f.Client, c.Apply(s), "")
	require.NoError(t, err)
	require.Equal(t, wanted(n), again.ids())
	require.LessOrEqual(t, f.requests.Load()-before, int64((n+9)/10+4), "requests for a second reading")
}

func TestFamiliesOfPosts(t *testing.T) {
	for name, place := range map[string]func(body map[string]any) any{
		"flat":   func(b map[string]any) any { return b["page"] },
		"nested": func(b map[string]any) any { p, _ := b["page"].(map[string]any); return p["number"] },
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			s.Method = http.MethodPost
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body := map[string]any{}
				_ = json.NewDecoder(r.Body).Decode(&body)
				p, ok := place(body).(float64)
				if !ok {
					p = 1
				}
				fmt.Fprintf(w, `{"data":%s}`, rows((int(p)-1)*20, int(p)*20, 57))
			}, s)
			_, r := learn(t, f, s)
			require.Equal(t, wanted(57), r.ids())
		})
	}
}

func TestUnexplainedSignals(t *testing.T) {
	for sign, name := range map[string]string{
		`"metadata":{"remaining":63}`:            "a flag for more",
		`"fortsetzung":{"next_ref":"abc"}`:       "/fortsetzung/next_ref",
		`"gesamtanzahl":100`:                     "/gesamtanzahl: 100",
		`"hits":{"total":{"value":100}}`:         "a total of 100",
		`"is_truncated":true`:                    "a flag for more",
		`"continuation_ref":"abcdef"`:            "/continuation_ref",
		`"links":[{"rel":"next","href":"/x/2"}]`: "a next link",
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"data":%s,%s}`, rows(0, 24, 24), sign) }, s)
			_, err := f.Negotiate(t.Context(), s)
			require.ErrorContains(t, err, name)

			f = serve(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"data":%s,"took":1700}`, rows(0, 24, 24))
			}, s)
			_, r := learn(t, f, s)
			require.Equal(t, wanted(24), r.ids())
			require.Empty(t, r.end.Unexplained)
		})
	}
}

func TestStatementsOfIncompleteness(t *testing.T) {
	for _, said := range []string{`"partial":true`, `"timed_out":true`, `"errors":[{"message":"shard 3"}]`, `"complete":false`, `"meta":{"status":"partial"}`, `"incomplete_results":true`} {
		s := own("x.things")
		beside := `"partial":false,"timed_out":false,"errors":[],"complete":true,"status":"ok"`
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"data":%s,%s}`, rows(0, 24, 24), beside)
		}, s)
		c, r := learn(t, f, s)
		require.Empty(t, r.end.Incomplete)
		beside = said
		r, err := read(f.Client, c.Apply(s), "")
		require.NoError(t, err)
		require.Len(t, r.end.Incomplete, 1, said)
	}
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, rows(0, 24, 24))
	}, s)
	_, r := learn(t, f, s)
	require.Equal(t, []string{"status 206"}, r.end.Incomplete)
}

func TestConfiguredPagingWins(t *testing.T) {
	s := own("x.things")
	s.Pagination = schemas.Pagination{Type: "page", Page: "page"}
	s.Stated["pagination"] = string(Configured)
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		p, err := strconv.Atoi(r.URL.Query().Get("page"))
		if r.URL.Query().Has("page") && err != nil {
			t.Errorf("requested page=%s, want a number", r.URL.Query().Get("page"))
		}
		p = max(p, 1)
		next := "null"
		if p*10 < 37 {
			next = `"opaque"`
		}
		fmt.Fprintf(w, `{"data":%s,"next_cursor":%s}`, rows((p-1)*10, p*10, 37), next)
	}, s)
	c, r := learn(t, f, s)
	require.Equal(t, wanted(37), r.ids())
	require.LessOrEqual(t, c.Requests, 1)
}

func TestUsualSizeOfAPage(t *testing.T) {
	for n, doubt := range map[int]bool{20: true, 23: false} {
		s := own("x.things")
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, rows(0, n, n)) }, s)
		_, r := learn(t, f, s)
		require.True(t, r.end.PathOnly)
		require.Equal(t, doubt, r.end.Round, n)
	}
}
