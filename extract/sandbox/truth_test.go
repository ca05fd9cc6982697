package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/schemas"
)

type harness struct {
	*sandbox.Server
	t         *testing.T
	url       string
	client    *http.Client
	catalogue *schemas.Catalogue
	requests  int
}

func open(t *testing.T, o sandbox.Options) *harness {
	t.Helper()
	s, err := sandbox.New(o)
	require.NoError(t, err)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	catalogue, err := schemas.Load()
	require.NoError(t, err)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &harness{Server: s, t: t, url: server.URL, client: client, catalogue: catalogue}
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (d *harness) call(method, path, token string, body any) answer {
	d.t.Helper()
	a, err := d.try(method, path, token, body)
	require.NoError(d.t, err, "%s %s", method, path)
	return a
}

func (d *harness) try(method, path, token string, body any) (answer, error) {
	d.t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(d.t, err)
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, reader)
	require.NoError(d.t, err)
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	d.requests++
	response, err := d.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, content}, err
}

func (a answer) json(t *testing.T) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	var v any
	require.NoError(t, decoder.Decode(&v), "%s", a.body)
	return v
}

func tokenOf(s schemas.Stream) string {
	switch {
	case s.Auth == schemas.AuthNone:
		return ""
	case s.Auth == schemas.AuthWhiteLabel:
		return sandbox.WhiteLabelToken
	case s.Surface == schemas.SurfaceV2:
		return sandbox.ReadOnlyKey
	}
	return sandbox.ReadOnlyToken
}

func (d *harness) truth(stream string) []any {
	d.t.Helper()
	records, err := d.Truth(stream)
	require.NoError(d.t, err)
	all := []any{}
	for _, r := range records {
		all = append(all, answer{body: r}.json(d.t))
	}
	return all
}

func (d *harness) read(s schemas.Stream) []any {
	d.t.Helper()
	all := []any{}
	for _, values := range d.paramsOf(s) {
		query, body, path := url.Values{}, map[string]any{}, s.Path
		context := map[string]any{}
		params := s.Params
		if s.Months.Set() {
			params = append(slices.Clone(params), schemas.Param{Name: s.Months.Month, In: "body"}, schemas.Param{Name: s.Months.Year, In: "body"})
		}
		for _, p := range params {
			v, ok := values[p.Name]
			if !ok {
				continue
			}
			if s.Parent != "" {
				context[p.Name] = v
			}
			switch p.In {
			case "path":
				path = strings.ReplaceAll(path, "{"+p.Name+"}", fmt.Sprint(v))
			case "query":
				query.Set(p.Name, fmt.Sprint(v))
			default:
				body[p.Name] = v
			}
		}
		all = append(all, d.pages(s, path, query, body, context)...)
	}
	return all
}

func (d *harness) paramsOf(s schemas.Stream) []map[string]any {
	if s.Months.Set() {
		var all []map[string]any
		for back := range 12 {
			at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).AddDate(0, -back, 0)
			all = append(all, map[string]any{"type": "monthly", s.Months.Month: int(at.Month()), s.Months.Year: at.Year()})
		}
		return all
	}
	if s.Parent == "" {
		return []map[string]any{{}}
	}
	parent, ok := d.catalogue.Find(s.Parent)
	require.True(d.t, ok)
	var all []map[string]any
	seen := map[string]bool{}
	for _, record := range d.truth(parent.Name) {
		for _, set := range combine(s.Params, record) {
			if key := fmt.Sprint(set); !seen[key] {
				seen[key] = true
				all = append(all, set)
			}
		}
	}
	return all
}

func combine(params []schemas.Param, record any) []map[string]any {
	sets := []map[string]any{{}}
	for _, p := range params {
		var next []map[string]any
		for _, set := range sets {
			for _, v := range at(record, p.From) {
				more := map[string]any{p.Name: v}
				for name, value := range set {
					more[name] = value
				}
				next = append(next, more)
			}
		}
		sets = next
	}
	return sets
}

func at(v any, pointer string) []any {
	var values []any
	for _, p := range placed(v, pointer, nil) {
		values = append(values, p.value)
	}
	return values
}

type place struct{ value, container any }

func placed(v any, pointer string, container any) []place {
	if pointer == "" {
		return []place{{v, container}}
	}
	name, rest, _ := strings.Cut(pointer[1:], "/")
	if rest != "" {
		rest = "/" + rest
	}
	var all []place
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if name == key {
				all = append(all, placed(value, rest, container)...)
			} else if name == "*" {
				all = append(all, placed(value, rest, key)...)
			}
		}
	case []any:
		for _, value := range v {
			if name == "*" {
				all = append(all, placed(value, rest, value)...)
			}
		}
	}
	return all
}

func (d *harness) pages(s schemas.Stream, path string, query url.Values, body map[string]any, context map[string]any) []any {
	d.t.Helper()
	var all []any
	for page := 1; page < 200; page++ {
		target := path
		if len(query) > 0 {
			target += "?" + query.Encode()
		}
		var sent any
		if s.Method == http.MethodPost {
			sent = body
		}
		a := d.call(s.Method, target, tokenOf(s), sent)
		if a.status == http.StatusNotFound && s.Class == schemas.ClassDetail {
			return nil
		}
		require.Equal(d.t, http.StatusOK, a.status, "%s: %s", s.Name, a.body)
		document := a.json(d.t)
		records := recordsOf(s, document, context)
		all = append(all, records...)
		if s.Class == schemas.ClassDetail || len(records) == 0 || !advance(query, document, a.header, records) {
			return all
		}
	}
	d.t.Fatalf("%s: pages without end", s.Name)
	return nil
}

func recordsOf(s schemas.Stream, document any, context map[string]any) []any {
	candidates := s.Records
	if o, ok := document.(map[string]any); ok && o["results"] != nil {
		candidates = []string{"/results"}
	}
	for _, pointer := range candidates {
		found := placed(document, pointer, nil)
		if len(found) == 0 || (plural(s) && !isList(found[0].value)) {
			continue
		}
		var all []any
		for _, f := range found {
			for _, v := range rowsIn(f.value, s.Class) {
				all = append(all, inContext(s, v, f.container, context))
			}
		}
		return all
	}
	return nil
}

func plural(s schemas.Stream) bool {
	return s.Class != schemas.ClassDetail && s.Class != schemas.ClassSingleton && s.Class != schemas.ClassReport
}

func isList(v any) bool {
	o, ok := v.(map[string]any)
	if !ok {
		_, ok = v.([]any)
		return ok
	}
	for key := range o {
		if strings.Trim(key, "0123456789") != "" {
			return false
		}
	}
	return len(o) > 0
}

func rowsIn(v any, class schemas.Class) []any {
	switch v := v.(type) {
	case []any:
		return v
	case map[string]any:
		var rows []any
		for key, value := range v {
			if strings.Trim(key, "0123456789") == "" {
				rows = append(rows, value)
			}
		}
		if len(rows) > 0 && class == schemas.ClassList {
			return rows
		}
		return []any{v}
	}
	return nil
}

func inContext(s schemas.Stream, v, container any, context map[string]any) any {
	record, ok := v.(map[string]any)
	if !ok {
		return v
	}
	all := map[string]any{}
	if s.Context != "" && container != nil {
		all[s.Context] = scalarsOf(container)
	}
	for name, value := range context {
		all[name] = value
	}
	if len(all) > 0 {
		record["_context"] = all
	}
	return record
}

func scalarsOf(container any) any {
	o, ok := container.(map[string]any)
	if !ok {
		return container
	}
	scalars := map[string]any{}
	for name, value := range o {
		switch value.(type) {
		case map[string]any, []any:
		default:
			scalars[name] = value
		}
	}
	return scalars
}

func advance(query url.Values, document any, header http.Header, records []any) bool {
	if link := header.Get("Link"); link != "" {
		next := strings.Contains(link, `rel="next"`)
		query.Set("page", fmt.Sprint(pageIn(query)+1))
		return next
	}
	envelope, _ := document.(map[string]any)
	data, _ := envelope["data"].(map[string]any)
	pagination, _ := data["pagination"].(map[string]any)
	meta, _ := envelope["meta"].(map[string]any)
	fractal, _ := meta["pagination"].(map[string]any)
	for _, m := range []map[string]any{pagination, fractal, meta, data, envelope} {
		if v, ok := m["next_cursor"]; ok {
			query.Set("cursor", fmt.Sprint(v))
			return v != nil
		}
		if m["has_more"] == true {
			query.Set("starting_after", fmt.Sprint(records[len(records)-1].(map[string]any)["id"]))
			return true
		}
		if next, ok := m["next"].(string); ok {
			u, err := url.Parse(next)
			if err != nil {
				return false
			}
			query.Set("offset", u.Query().Get("offset"))
			return true
		}
		last, ok := m["last_page"]
		if !ok {
			last, ok = m["total_pages"]
		}
		if ok {
			more := fmt.Sprint(last) != fmt.Sprint(pageIn(query))
			query.Set("page", fmt.Sprint(pageIn(query)+1))
			return more
		}
		if v, ok := m["next_page_url"]; ok {
			query.Set("page", fmt.Sprint(pageIn(query)+1))
			return v != nil
		}
	}
	return false
}

func pageIn(query url.Values) int {
	page := 1
	_, _ = fmt.Sscan(query.Get("page"), &page)
	return page
}

func TestEveryStreamYieldsItsTruth(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true})
	total := 0
	for _, s := range d.catalogue.Ordered() {
		if s.Class == schemas.ClassFile || !s.Enabled {
			continue
		}
		got, want := d.read(s), d.truth(s.Name)
		require.Empty(t, difference(texts(t, want), texts(t, got)), s.Name)
		total += len(want)
		if s.Name != "integrations.todo_service" { // the service is not connected, so it has no records
			require.NotEmpty(t, want, s.Name)
		}
	}
	t.Logf("%d records in %d requests", total, d.requests)
	require.Less(t, d.requests, 1700)
	stats := d.Stats()
	require.Zero(t, stats.OutsideSum)
	require.Empty(t, stats.Outside)
}

func difference(want, got []string) string {
	count := map[string]int{}
	for _, w := range want {
		count[w]++
	}
	for _, g := range got {
		if count[g]--; count[g] < 0 {
			return "extra: " + g
		}
	}
	for w, n := range count {
		if n > 0 {
			return "missing: " + w
		}
	}
	return ""
}

func texts(t *testing.T, values []any) []string {
	t.Helper()
	all := make([]string, len(values))
	for i, v := range values {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		all[i] = string(text)
	}
	return all
}
