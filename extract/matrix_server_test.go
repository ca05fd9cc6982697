package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The matrix serves one list in every combination of envelope, paging, length and page size. Each combination has its
// own path.

type members []string

func (m members) with(name string, v any) members {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(slices.Clone(m), fmt.Sprintf("%q:%s", name, b))
}

func (m members) object() string { return "{" + strings.Join(m, ",") + "}" }

func (m members) beside() string {
	if len(m) == 0 {
		return ""
	}
	return "," + strings.Join(m, ",")
}

func matrixRow(i int) string {
	return fmt.Sprintf(`{"id":%d,"name":"r%d","status":0,"created_at":"2026-01-%02dT%02d:%02d:00Z"}`, 1000+i, i, 1+i/1440%28, i/60%24, i%60)
}

func joined(rows []string) string { return "[" + strings.Join(rows, ",") + "]" }

var matrixEnvelopes = map[string]func(rows []string, from int, meta members) string{
	"bare": func(rows []string, _ int, _ members) string { return joined(rows) },
	"data": func(rows []string, _ int, meta members) string {
		return `{"data":` + joined(rows) + meta.beside() + `}`
	},
	"d1 items": func(rows []string, _ int, meta members) string {
		return `{"success":true,"message":"ok","data":{"items":` + joined(rows) + `,"pagination":` + meta.object() + `}}`
	},
	"d2 list": func(rows []string, _ int, meta members) string {
		return `{"status":"success","data":` + joined(rows) + meta.beside() + `}`
	},
	"d2 named": func(rows []string, _ int, meta members) string {
		return `{"status":"success","data":{"things":` + joined(rows) + meta.beside() + `}}`
	},
	"d3 paginator": func(rows []string, _ int, meta members) string {
		return `{"status":1,"data":{"data":` + joined(rows) + `,"links":[{"url":null,"label":"&laquo;","active":false}]` + meta.beside() + `}}`
	},
	"d4 meta": func(rows []string, _ int, meta members) string {
		return `{"is_success":true,"message":null,"data":` + joined(rows) + `,"meta":` + meta.object() + `}`
	},
	"payload under message": func(rows []string, _ int, meta members) string {
		return `{"status":"success","message":{"things":` + joined(rows) + meta.beside() + `}}`
	},
	"results": func(rows []string, _ int, meta members) string {
		return `{"results":` + joined(rows) + meta.beside() + `}`
	},
	"fractal": func(rows []string, _ int, meta members) string {
		return `{"data":` + joined(rows) + `,"meta":{"pagination":` + meta.object() + `}}`
	},
	"numeric keys from the second page on": func(rows []string, from int, meta members) string {
		list := joined(rows)
		if from > 0 && len(rows) > 0 {
			var m members
			for i, r := range rows {
				m = append(m, fmt.Sprintf(`"%d":%s`, from+i, r))
			}
			list = m.object()
		}
		return `{"success":true,"data":{"data":` + list + meta.beside() + `}}`
	},
	"board": func(rows []string, _ int, meta members) string {
		half := len(rows) / 2
		return `{"status":"success","data":{"pipeline":{"id":1,"name":"Sales"},"stages":[{"id":4,"name":"New","order":0,"things":` + joined(rows[:half]) +
			`},{"id":5,"name":"Old","order":1,"things":` + joined(rows[half:]) + `},{"id":6,"name":"Gone","order":2,"things":[]}]` + meta.beside() + `}}`
	},
	"map of records": func(rows []string, from int, meta members) string {
		var m members
		for i, r := range rows {
			m = append(m, fmt.Sprintf(`"k%d":%s`, from+i, r))
		}
		list := m.object()
		if len(rows) == 0 {
			list = "[]"
		}
		return `{"success":true,"data":` + list + `,"meta":` + meta.object() + `}`
	},
	"map of lists": func(rows []string, _ int, meta members) string {
		if len(rows) == 0 {
			return `{"status":"success","data":[],"meta":` + meta.object() + `}`
		}
		half := (len(rows) + 1) / 2
		return `{"status":"success","data":{"Sales":` + joined(rows[:half]) + `,"Marketing":` + joined(rows[half:]) + `},"meta":` + meta.object() + `}`
	},
	"bait beside": func(rows []string, _ int, meta members) string {
		return `{"success":true,"links":[{"url":null}],"filters":[{"id":1,"name":"all"}],"data":{"statusClass":["a"],"labels":[{"id":9}],"chartData":[{"id":3}],"items":` +
			joined(rows) + `},"meta":` + meta.object() + `}`
	},
	"embedded": func(rows []string, _ int, meta members) string {
		return `{"_embedded":{"things":` + joined(rows) + `}` + meta.beside() + `}`
	},
	"value": func(rows []string, _ int, meta members) string {
		return `{"@odata.context":"x","value":` + joined(rows) + meta.beside() + `}`
	},
	"collapsed": func(rows []string, from int, meta members) string {
		if len(rows) == 1 && from == 0 {
			return `{"success":true,"data":` + rows[0] + `}`
		}
		return `{"success":true,"data":` + joined(rows) + `,"meta":` + meta.object() + `}`
	},
}

type matrixList struct {
	n    int
	size string // one of matrixSizes
	get  func(name string) string
}

const (
	matrixPage = 10
	matrixCap  = 25
)

// matrixSizes are the ways in which a server handles a requested page size. With "capped uncounted", the server limits
// the number of records on a page, but calculates the positions of pages with the requested size.
var matrixSizes = []string{"honoured", "capped", "capped uncounted", "ignored"}

func (l matrixList) rows(names ...string) (rows, counted int) {
	for _, name := range names {
		requested, err := strconv.Atoi(l.get(name))
		if err != nil || requested < 1 || l.size == "ignored" {
			continue
		}
		switch l.size {
		case "capped":
			return min(requested, matrixCap), min(requested, matrixCap)
		case "capped uncounted":
			return min(requested, matrixCap), requested
		}
		return requested, requested
	}
	return matrixPage, matrixPage
}

func (l matrixList) int(name string, otherwise int) int {
	if i, err := strconv.Atoi(l.get(name)); err == nil && i >= 0 {
		return i
	}
	return otherwise
}

type matrixAnswer struct {
	from, to int
	meta     members
	header   http.Header
}

func (l matrixList) pages(counted int) int { return max(1, (l.n+counted-1)/counted) }

func (l matrixList) byPage(param string, first int, sizes ...string) (a matrixAnswer, page, last int) {
	rows, counted := l.rows(sizes...)
	page = max(l.int(param, first), first)
	a.from = (page - first) * counted
	a.to = a.from + rows
	return a, page, l.pages(counted)
}

func (l matrixList) byOffset(param string, sizes ...string) matrixAnswer {
	rows, _ := l.rows(sizes...)
	from := l.int(param, 0)
	return matrixAnswer{from: from, to: from + rows}
}

func (l matrixList) after(id string) int {
	i, err := strconv.Atoi(strings.Trim(id, `"`))
	if err != nil {
		return 0
	}
	return max(i-1000+1, 0)
}

func (l matrixList) byCursor(param string, sizes ...string) (a matrixAnswer, next any) {
	rows, _ := l.rows(sizes...)
	a.from, _ = strconv.Atoi(strings.TrimPrefix(l.get(param), "tok-"))
	if a.to = a.from + rows; a.to < l.n {
		next = fmt.Sprintf("tok-%d", a.to)
	}
	return a, next
}

var matrixPagers = map[string]func(l matrixList) matrixAnswer{
	"whole": func(l matrixList) matrixAnswer { return matrixAnswer{to: l.n} },
	"cut at a limit": func(l matrixList) matrixAnswer {
		rows, _ := l.rows("limit")
		return matrixAnswer{to: rows}
	},
	"last_page and total": func(l matrixList) matrixAnswer {
		a, page, last := l.byPage("page", 1, "per_page")
		a.meta = a.meta.with("total", l.n).with("current_page", page).with("last_page", last)
		return a
	},
	"total_pages": func(l matrixList) matrixAnswer {
		a, page, last := l.byPage("page", 1, "per_page")
		a.meta = a.meta.with("page", page).with("total_pages", last)
		return a
	},
	"total_pages without the page": func(l matrixList) matrixAnswer {
		a, _, last := l.byPage("page", 1, "per_page")
		a.meta = a.meta.with("total_pages", last)
		return a
	},
	"total_pages from 0": func(l matrixList) matrixAnswer {
		a, page, last := l.byPage("page", 0, "size")
		a.meta = a.meta.with("page", page).with("total_pages", last)
		return a
	},
	"total_pages from 0 without the page": func(l matrixList) matrixAnswer {
		a, _, last := l.byPage("page", 0, "size")
		a.meta = a.meta.with("total_pages", last)
		return a
	},
	"total": func(l matrixList) matrixAnswer {
		a, _, _ := l.byPage("page", 1, "limit")
		a.meta = a.meta.with("total", strconv.Itoa(l.n))
		return a
	},
	"total of the page": func(l matrixList) matrixAnswer {
		a, _, _ := l.byPage("page", 1, "per_page")
		a.meta = a.meta.with("total", max(min(a.to, l.n)-a.from, 0))
		return a
	},
	"silent": func(l matrixList) matrixAnswer {
		a, _, _ := l.byPage("page", 1, "per_page")
		return a
	},
	"silent from 0": func(l matrixList) matrixAnswer {
		a, _, _ := l.byPage("page", 0, "size")
		return a
	},
	"silent clamped": func(l matrixList) matrixAnswer {
		a, page, last := l.byPage("page", 1, "per_page")
		if page > last {
			a.to -= (page - last) * (a.from / (page - 1))
			a.from = (last - 1) * (a.from / (page - 1))
		}
		return a
	},
	"pageNumber": func(l matrixList) matrixAnswer {
		a, page, last := l.byPage("pageNumber", 1, "pageSize")
		a.meta = a.meta.with("pageNumber", page).with("totalPages", last)
		return a
	},
	"page[number] silent": func(l matrixList) matrixAnswer {
		a, _, _ := l.byPage("page[number]", 1, "page[size]")
		return a
	},
	"spring": func(l matrixList) matrixAnswer {
		a, page, last := l.byPage("page", 0, "size")
		a.meta = a.meta.with("number", page).with("totalPages", last).with("totalElements", l.n).with("last", page+1 >= last)
		return a
	},
	"offset and total": func(l matrixList) matrixAnswer {
		a := l.byOffset("offset", "limit")
		a.meta = a.meta.with("total", l.n).with("offset", a.from)
		return a
	},
	"offset silent": func(l matrixList) matrixAnswer { return l.byOffset("offset", "limit") },
	"skip and take": func(l matrixList) matrixAnswer { return l.byOffset("skip", "take") },
	"start and count": func(l matrixList) matrixAnswer {
		a := l.byOffset("start", "count")
		a.meta = a.meta.with("total", l.n)
		return a
	},
	"offset in pages": func(l matrixList) matrixAnswer { a, _, _ := l.byPage("offset", 0, "limit"); return a },
	"has_more and page": func(l matrixList) matrixAnswer {
		a, _, _ := l.byPage("page", 1, "per_page")
		a.meta = a.meta.with("has_more", a.to < l.n)
		return a
	},
	"next link, foreign host": func(l matrixList) matrixAnswer {
		a, page, _ := l.byPage("page", 1, "per_page")
		var next any
		if a.to < l.n {
			next = fmt.Sprintf("http://inner.example:8080/else?page=%d", page+1)
		}
		a.meta = a.meta.with("next_page_url", next)
		return a
	},
	"next link with an unusual parameter": func(l matrixList) matrixAnswer {
		a, next := l.byCursor("from_token", "per_page")
		var link any
		if next != nil {
			link = fmt.Sprintf("/x?per_page=10&from_token=%s", next)
		}
		a.meta = a.meta.with("links", map[string]any{"next": link, "prev": nil})
		return a
	},
	"next_cursor": func(l matrixList) matrixAnswer {
		a, next := l.byCursor("cursor", "limit")
		a.meta = a.meta.with("next_cursor", next)
		return a
	},
	"paging.next.after": func(l matrixList) matrixAnswer {
		a, next := l.byCursor("after", "limit")
		if next != nil {
			a.meta = a.meta.with("paging", map[string]any{"next": map[string]any{"after": next}})
		} else {
			a.meta = a.meta.with("paging", nil)
		}
		return a
	},
	"nextPageToken": func(l matrixList) matrixAnswer {
		a, next := l.byCursor("pageToken", "maxResults")
		if next != nil {
			a.meta = a.meta.with("nextPageToken", next)
		} else {
			a.meta = a.meta.with("nextPageToken", "")
		}
		return a
	},
	"next_cursor by another name": func(l matrixList) matrixAnswer {
		a, next := l.byCursor("start_cursor", "page_size")
		a.meta = a.meta.with("next_cursor", next).with("has_more", next != nil)
		return a
	},
	"starting_after": func(l matrixList) matrixAnswer {
		rows, _ := l.rows("limit")
		from := l.after(l.get("starting_after"))
		return matrixAnswer{from: from, to: from + rows, meta: members{}.with("object", "list").with("has_more", from+rows < l.n)}
	},
	"after_id": func(l matrixList) matrixAnswer {
		rows, _ := l.rows("limit")
		from := l.after(l.get("after_id"))
		return matrixAnswer{from: from, to: from + rows, meta: members{}.with("has_more", from+rows < l.n)}
	},
	"since_id silent": func(l matrixList) matrixAnswer {
		rows, _ := l.rows("limit")
		from := l.after(l.get("since_id"))
		return matrixAnswer{from: from, to: from + rows}
	},
	"link header": func(l matrixList) matrixAnswer {
		a, page, last := l.byPage("page", 1, "per_page")
		link := fmt.Sprintf(`<http://inner.example/x?page=%d>; rel="last"`, last)
		if a.to < l.n {
			link = fmt.Sprintf(`<http://inner.example/x?page=%d>; rel="next", %s`, page+1, link)
		}
		a.header = http.Header{"Link": {link}}
		return a
	},
	"total header": func(l matrixList) matrixAnswer {
		a, _, _ := l.byPage("_page", 1, "_limit")
		a.header = http.Header{"X-Total-Count": {strconv.Itoa(l.n)}}
		return a
	},
}

var bodiless = []string{
	"whole", "cut at a limit", "silent", "silent from 0", "silent clamped", "page[number] silent", "offset silent", "skip and take",
	"offset in pages", "since_id silent", "link header", "total header",
}

func (l matrixList) serve(w http.ResponseWriter, envelope, pager string) {
	a := matrixPagers[pager](l)
	from, to := min(a.from, l.n), min(a.to, l.n)
	rows := []string{}
	for i := from; i < to; i++ {
		rows = append(rows, matrixRow(i))
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	fmt.Fprint(w, matrixEnvelopes[envelope](rows, from, a.meta))
}

func matrixValues(r *http.Request, place string) func(string) string {
	query := r.URL.Query()
	if r.Method == http.MethodGet || place == "query" {
		return query.Get
	}
	body := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&body)
	values := url.Values{}
	for name, v := range body {
		inner, _ := v.(map[string]any)
		for member, v := range inner {
			values.Set(name+"["+member+"]", strings.TrimSuffix(fmt.Sprint(v), ".0"))
		}
		values.Set(name, strings.TrimSuffix(fmt.Sprint(v), ".0"))
	}
	return values.Get
}
