package extract

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func TestSignalsThatAreEasilyMissed(t *testing.T) {
	for _, sign := range []string{
		`"more":30`, `"more":"/api/x?blatt=2"`, `"cursor":12000`, `"last_id":1200`, `"next_blatt":2`, `"tableState":{"totalPages":4}`,
		`"tableState":{"cursor":"h5c3z"}`, `"numItems":42`, `"listing":{"id":"x","nextToken":"h5","total":42}`, `"pagination":[{"total":42,"next":"/x?blatt=2"}]`,
		`"total":"42+"`, `"total":"1,042"`,
	} {
		t.Run(sign, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{%s,"data":%s}`, sign, rows(0, 12, 42)) }, s)
			_, err := f.Negotiate(t.Context(), s)
			require.ErrorContains(t, err, "more than its first page")
		})
	}
}

func TestAnswersThatAreEasilyMisread(t *testing.T) {
	part := func(r *http.Request, param string, n int) (from, to int) {
		from = number(r, param, 0)
		return from, min(from+10, n)
	}
	for name, h := range map[string]http.HandlerFunc{
		"the stated offset belongs to the next page": func(w http.ResponseWriter, r *http.Request) {
			from, to := part(r, "offset", 35)
			fmt.Fprintf(w, `{"hasMore":%t,"offset":%d,"results":%s}`, to < 35, to, rows(from, to, 35))
		},
		"the stated offset never changes": func(w http.ResponseWriter, r *http.Request) {
			from, to := part(r, "offset", 35)
			fmt.Fprintf(w, `{"offset":0,"limit":10,"data":%s}`, rows(from, to, 35))
		},
		"the number of pages is stated, but pages are requested by offset": func(w http.ResponseWriter, r *http.Request) {
			from, to := part(r, "skip", 35)
			fmt.Fprintf(w, `{"total":35,"pages":4,"limit":10,"data":%s}`, rows(from, to, 35))
		},
		"every page states a next page": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			fmt.Fprintf(w, `{"next_page":%d,"data":%s}`, p+1, rows((p-1)*10, p*10, 35))
		},
		"the member `pending` is not about paging": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			fmt.Fprintf(w, `{"pending":3,"data":%s}`, rows((p-1)*10, p*10, 35))
		},
		"an empty page in the middle has a next link": func(w http.ResponseWriter, r *http.Request) {
			pages := []string{rows(0, 10, 35), rows(10, 20, 35), "[]", rows(20, 30, 35), rows(30, 35, 35)}
			at, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get("$skiptoken"), "tok-"))
			next := ""
			if at+1 < len(pages) {
				next = fmt.Sprintf(`,"@odata.nextLink":"https://h/x?$skiptoken=tok-%d"`, at+1)
			}
			fmt.Fprintf(w, `{"value":%s%s}`, pages[at], next)
		},
		"a header with a flag": func(w http.ResponseWriter, r *http.Request) {
			from := token(r, "cursor")
			if from+10 < 35 {
				w.Header().Set("X-Has-More", "yes")
				w.Header().Set("X-Next-Cursor", fmt.Sprintf("tok-%d", from+10))
			}
			fmt.Fprint(w, rows(from, from+10, 35))
		},
		"a link header is about something else": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<https://h/wp-json/>; rel="https://api.w.org/"`)
			p := number(r, "page", 1)
			fmt.Fprint(w, rows((p-1)*10, p*10, 35))
		},
		"the only link leads to the page itself": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			fmt.Fprintf(w, `{"links":[{"rel":"self","href":"/x"}],"data":%s}`, rows((p-1)*10, p*10, 35))
		},
	} {
		t.Run(name, func(t *testing.T) { readsWhole(t, h, 35) })
	}
}

func TestShortPageBeforeAnEmptyOne(t *testing.T) {
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		pages := []string{rows(0, 10, 35), rows(10, 20, 35), rows(20, 25, 35), "[]", rows(25, 35, 35)}
		p := number(r, "page", 1)
		if p > len(pages) {
			p, pages = 1, []string{"[]"}
		}
		fmt.Fprintf(w, `{"data":%s}`, pages[p-1])
	}, s)
	_, r := learn(t, f, s)
	require.Equal(t, wanted(35), r.ids())
}

func TestTotalThatIsALowerBound(t *testing.T) {
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from := number(r, "from", 0)
		fmt.Fprintf(w, `{"hits":{"total":{"value":40,"relation":"gte"},"hits":%s}}`, rows(from, min(from+10, 40), 65))
	}, s)
	_, r := learn(t, f, s)
	require.Equal(t, int64(-1), r.end.LastTotal)
	require.Equal(t, []string{"/hits/total: at least 40"}, r.end.Unexplained)
}

func TestLostPermissionIsNotTheEnd(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		lost := false
		s := own("x.things")
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			if lost {
				w.WriteHeader(status)
				fmt.Fprint(w, `{"message":"no"}`)
				return
			}
			fmt.Fprint(w, rows((p-1)*20, p*20, 115))
		}, s)
		c, whole := learn(t, f, s)
		require.Equal(t, wanted(115), whole.ids())
		lost = true
		for _, from := range whole.cursors[:2] {
			r, err := read(f.Client, c.Apply(s), from)
			require.Error(t, err)
			require.Nil(t, r.end)
		}
	}
}

func TestPagesThatOverlapWithoutAKey(t *testing.T) {
	for hidden, doubt := range map[bool]bool{true: true, false: false} {
		s := own("x.things")
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "offset", 0)
			var out []string
			for i := from; i < min(from+10, 41); i++ {
				if !hidden || i%2 == 1 {
					out = append(out, fmt.Sprintf(`{"city":"c%d"}`, i))
				}
			}
			fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(out, ","))
		}, s)
		c, err := f.Negotiate(t.Context(), s)
		require.NoError(t, err)
		r, err := read(f.Client, c.Apply(s), "")
		require.Equal(t, doubt, err != nil || r.end.Drift.Alike > 0, "%v %+v", err, r.end)
	}
}

func TestFirstPageInThePath(t *testing.T) {
	s := own("x.things")
	s.Params = []schemas.Param{{Name: "_page", In: "query", Value: "1"}, {Name: "start", In: "query", Value: "2024-01-01"}}
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("start") != "2024-01-01" {
			t.Errorf("start=%q", r.URL.Query().Get("start"))
		}
		p := number(r, "_page", 1)
		if p*10 < 35 {
			w.Header().Set("Link", fmt.Sprintf(`<http://h/x?_page=%d>; rel="next"`, p+1))
		}
		fmt.Fprint(w, rows((p-1)*10, p*10, 35))
	}, s)
	_, r := learn(t, f, s)
	require.Equal(t, wanted(35), r.ids())
}

func TestRefusalExplainsNoSignal(t *testing.T) {
	for sign, want := range map[string][]string{
		`"bericht":{"gesamtzahl_alt":900}`:      {"/bericht/gesamtzahl_alt: 900"},
		`"total":{"value":40,"relation":"gte"}`: {"/total: at least 40"},
		`"took":3`:                              nil,
	} {
		s := own("x.things")
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			if p > 4 {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"message":"no such page"}`)
				return
			}
			fmt.Fprintf(w, `{%s,"data":%s}`, sign, rows((p-1)*10, p*10, 37))
		}, s)
		_, r := learn(t, f, s)
		require.Equal(t, wanted(37), r.ids())
		require.Equal(t, want, r.end.Unexplained)
	}
}

func TestConfiguredPagingResolvesDoubts(t *testing.T) {
	s := own("x.things")
	h := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"gesamtanzahl":100,"data":%s}`, rows(0, 24, 24))
	}
	_, err := serve(t, h, s).Negotiate(t.Context(), s)
	require.ErrorContains(t, err, "gesamtanzahl")
	s.Pagination, s.Stated["pagination"] = schemas.Pagination{Type: "none"}, string(Configured)
	_, r := learn(t, serve(t, h, s), s)
	require.Equal(t, wanted(24), r.ids())
	require.Empty(t, r.end.Unexplained)
}

func TestIncompleteListOfOneParent(t *testing.T) {
	for _, said := range []bool{true, false} {
		parent, child := list("x.parents", "id"), list("x.items", "id")
		child.Path, child.Parent = "/api/x/parents/{parent}/items", "x.parents"
		child.Params = []schemas.Param{{Name: "parent", In: "path", From: "/id"}}
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/items") {
				fmt.Fprintf(w, `{"data":%s,"total":3}`, rows(0, 3, 3))
				return
			}
			fmt.Fprintf(w, `{"partial":%t,"total":2,"data":%s}`, said && strings.Contains(r.URL.Path, "/2/"), rows(0, 2, 2))
		}, parent, child)
		_, err := read(f.Client, parent, "")
		require.NoError(t, err)
		r, err := read(f.Client, child, "")
		require.NoError(t, err)
		require.Equal(t, said, len(r.end.Incomplete) == 1, "%+v", r.end)
	}
}

func TestProbeWithABrokenAnswer(t *testing.T) {
	for _, broken := range []bool{true, false} {
		s := own("x.things")
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			if broken && q.Has("offset") && q.Has("page_size") {
				fmt.Fprint(w, `{"code":17}`)
				return
			}
			fmt.Fprintf(w, `{"data":%s}`, rows(0, number(r, "page_size", 10), 37))
		}, s)
		_, r := learn(t, f, s)
		require.Equal(t, wanted(37), r.ids())
	}
}

func TestOffsetOriginWithDuplicateKey(t *testing.T) {
	s := own("x.things")
	s.Key = []string{"id"}
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from := number(r, "startAt", 0)
		var out []string
		for i := from; i < min(from+10, 15); i++ {
			id := i
			if i == 10 {
				id = 0
			}
			out = append(out, fmt.Sprintf(`{"id":%d,"city":"c%d"}`, id, i))
		}
		fmt.Fprintf(w, `{"data":[%s],"has_more":%t}`, strings.Join(out, ","), from+10 < 15)
	}, s)
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	require.False(t, c.Pagination.One)
}

func TestRepeatedCountedPagesWithoutKey(t *testing.T) {
	s := list("x.things")
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"last_page":2,"data":[{"city":"a"},{"city":"b"}]}`)
	}, s)
	_, err := read(f.Client, s, "")
	require.Error(t, err)
}

func TestBaseOfPagesWithABrokenPage(t *testing.T) {
	for _, broken := range []string{`{"code":17,"message":"rebuilt"}`, `[]`, "500", ""} {
		s := own("x.things")
		s.Key = []string{"id"}
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "page", 0) * 10
			if from == 10 && broken == "500" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			if from == 10 && broken != "" {
				fmt.Fprint(w, broken)
				return
			}
			var out []string
			for i := from; i < min(from+10, 26); i++ {
				out = append(out, fmt.Sprintf(`{"id":%d,"city":"c%d"}`, i+1, i))
			}
			fmt.Fprintf(w, `[%s]`, strings.Join(out, ","))
		}, s)
		r, err := read(f.Client, s, "")
		if broken != "" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, wanted(26), r.ids())
	}
}

func TestObjectBesideNull(t *testing.T) {
	for body, refused := range map[string]bool{
		`{"value":{"cus_7f":{"city":"a"}},"next_page":null,"error":null,"message":"ok"}`:                            true,
		`{"results":{"cus_7f":{"city":"a"},"cus_80":{"city":"b"}},"next_page":null,"rows":null}`:                    true,
		`{"response":{"links":[{"rel":"self","href":"/things"}]}}`:                                                  true,
		`{"data":null,"records":[{"id":1}]}`:                                                                        false,
		`{"customers":null,"pagination":{"page":1,"pages":0},"next_page":null,"error":null,"message":"ok"}`:         false,
		`{"results":{"cus_7f":{"id":1},"cus_80":{"id":2}},"next_page":null,"error":null,"message":"ok","code":200}`: false,
	} {
		s := own("x.things")
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, s)
		r, err := read(f.Client, s, "")
		require.Equal(t, refused, err != nil, "%s: %v", body, err)
		require.Equal(t, strings.Count(body, `"id"`), len(r.records), "%s", body)
	}
}

func TestEmptyPageByUnknownParameter(t *testing.T) {
	s := own("x.things")
	s.Key, s.RecordsKnown, s.Pagination = []string{"id"}, true, schemas.Pagination{Type: "page", Page: "page"}
	for i := range 4 {
		known, more := i%2 == 1, []string{`"has_more":%t`, `"last_page":2,"full":%t`}[i/2]
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			from := 0
			if known {
				from = 10 * (number(r, "page", 1) - 1)
			} else if r.URL.RawQuery != "" {
				from = 99
			}
			var out []string
			for i := from; i < min(from+10, 11); i++ {
				out = append(out, fmt.Sprintf(`{"id":%d,"city":"c"}`, i+1))
			}
			fmt.Fprintf(w, `{"results":[%s],"paging":{"current_page":1,`+more+`}}`, strings.Join(out, ","), from == 0)
		}, s)
		r, err := read(f.Client, s, "")
		if !known {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, wanted(11), r.ids())
	}
}

func TestPagesThatOverlapByOneRecordWithoutAKey(t *testing.T) {
	s := list("x.things")
	s.Pagination = schemas.Pagination{Type: "offset", Page: "offset"}
	for _, twins := range []bool{false, true} {
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			at := number(r, "offset", 0)
			var out []string
			for i := at; i < min(at+5, 13); i++ {
				switch {
				case twins && (i == 2 || i == 3 || i == 5):
					out = append(out, `{"city":"c"}`)
				case !twins && i == 5:
					out = append(out, `{"city":"4"}`)
				default:
					out = append(out, fmt.Sprintf(`{"city":"%d"}`, i))
				}
			}
			fmt.Fprintf(w, `[%s]`, strings.Join(out, ","))
		}, s)
		r, err := read(f.Client, s, "")
		require.NoError(t, err)
		require.Len(t, r.records, 13)
		require.Equal(t, twins, r.end.Drift.Alike == 0)
	}
}

func TestPageThatIsNotFoundOnce(t *testing.T) {
	s := own("x.things")
	s.Key, s.RecordsKnown, s.Pagination = []string{"id"}, true, schemas.Pagination{Type: "offset", Page: "offset"}
	for _, often := range []int{1, 99} {
		refused := 0
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "offset", 0)
			if from >= 10 && (from >= 15 || refused < often) {
				if from == 10 {
					refused++
				}
				w.WriteHeader(http.StatusNotFound)
				return
			}
			var out []string
			for i := from; i < from+5; i++ {
				out = append(out, fmt.Sprintf(`{"id":%d,"city":"c"}`, i+1))
			}
			fmt.Fprintf(w, `[%s]`, strings.Join(out, ","))
		}, s)
		r, err := read(f.Client, s, "")
		require.Equal(t, often == 1, err != nil, "%v", err)
		require.Len(t, r.records, 10)
	}
}

func TestSharedKeysAreNotRereadings(t *testing.T) {
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		page := len(r.FormValue("from_token")) + 1
		if r.URL.RawQuery != "" && page == 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var out []string
		for i := 10 * (page - 1); i < min(10*page, 20); i++ {
			id := i
			if i >= 17 {
				id -= 17
			}
			out = append(out, fmt.Sprintf(`{"id":%d,"name":"n","city":"c","kind":"k","status":"s","remark":"r%d"}`, id, i))
		}
		next := ""
		if page == 1 {
			next = "http://" + r.Host + r.URL.Path + "?from_token=x"
		}
		fmt.Fprintf(w, `{"data":[%s],"next_link":%q}`, strings.Join(out, ","), next)
	}, s)
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	require.Empty(t, c.Volatile)
}

func TestRefusedPageOfAListThatHasMore(t *testing.T) {
	s := own("x.things")
	s.Key, s.RecordsKnown, s.Pagination = []string{"id"}, true, schemas.Pagination{Type: "cursor", Page: "cursor"}
	for _, more := range []bool{true, false} {
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("cursor") != "" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			fmt.Fprintf(w, `{"data":[{"id":1},{"id":2}],"total":2,"has_more":%t,"cursor":"x"}`, more)
		}, s)
		_, err := read(f.Client, s, "")
		require.Equal(t, more, err != nil, "%v", err)
	}
}

func TestPageNumberEqualsPageCount(t *testing.T) {
	for base, uneven := range map[int]int{0: 0, 1: 1} {
		s := own("x.things")
		s.Key, s.RecordsKnown, s.Pagination = []string{"id"}, true, schemas.Pagination{Type: "page", Page: "page", Zero: base == 0}
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			from := 10 * (number(r, "page", base) - base)
			var out []string
			for i := from; i < min(from+10, 30-10*uneven); i++ {
				out = append(out, fmt.Sprintf(`{"id":%d}`, i+1))
			}
			fmt.Fprintf(w, `{"data":[%s],"totalPages":3}`, strings.Join(out, ","))
		}, s)
		r, err := read(f.Client, s, "")
		require.NoError(t, err)
		require.Equal(t, wanted(30-10*uneven), r.ids())
		require.Equal(t, uneven, r.end.Drift.Uneven, "pages from %d", base)
	}
}

func TestConstantTokenWithNewRecords(t *testing.T) {
	at := 0
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if at += 7; r.URL.Query().Get("scroll_ref") != "abc" {
			at = 0
		}
		fmt.Fprintf(w, `{"data":%s,"extras":{"scroll_ref":"abc"}}`, rows(at, at+7, 60))
	}, s)
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	_, err = read(f.Client, c.Apply(s), "")
	require.ErrorContains(t, err, "the token never changes")
}
