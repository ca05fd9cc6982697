package servers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var markIn = regexp.MustCompile(`record -?\d+ version \d+`)

type reader struct {
	*List
	t    *testing.T
	seen []string
}

func (r *reader) ask(query url.Values, header http.Header) *httptest.ResponseRecorder {
	r.t.Helper()
	target, body := "/s", ""
	if r.spec.Method == http.MethodPost {
		m := map[string]string{}
		for name := range query {
			m[name] = query.Get(name)
		}
		body = string(asJSON(m))
	} else {
		target += "?" + query.Encode()
	}
	method := http.MethodGet
	if r.spec.Method != "" {
		method = r.spec.Method
	}
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	for name, v := range header {
		req.Header[name] = v
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	r.seen = append(r.seen, markIn.FindAllString(w.Body.String(), -1)...)
	return w
}

func (r *reader) read() {
	g, rows := r.spec.Paging, slices.Clone(r.rows)
	if r.spec.Records.sort(rows); g.Kind != KindPage && g.Kind != KindOffset {
		rows = r.shown(rows)
	}
	n := len(rows)
	size := r.spec.Size.Default
	switch g.Kind {
	case KindWhole, KindCap:
		r.ask(nil, nil)
	case KindRange:
		for at := 0; at == 0 || at < n; at += size {
			r.ask(nil, http.Header{"Range": {fmt.Sprintf("items=%d-%d", at, at+size-1)}})
		}
	default:
		for at := 0; at == 0 || at < n; at += size {
			q := url.Values{}
			if at > 0 {
				q.Set(g.Param, r.token(at, part{allRows: rows, size: size}))
			}
			r.ask(q, nil)
		}
	}
}

func TestListsAreReadable(t *testing.T) {
	for seed := range uint64(3000) {
		s := draw(seed).Spec
		if s.Moves, s.Faults = nil, nil; s.Paging.Kind == KindCap {
			continue
		}
		l := New(s)
		for run := range 2 {
			l.Begin()
			r := &reader{List: l, t: t}
			r.read()
			want := l.Truth().Now
			slices.Sort(want)
			slices.Sort(r.seen)
			if s.Records.Form == FormKeyed || s.Records.Form == FormNumbered {
				r.seen = slices.Compact(r.seen)
			}
			require.Equal(t, want, r.seen, "seed %d, run %d: %s", seed, run+1, asJSON(s))
		}
	}
}

func TestSignalsLeadOn(t *testing.T) {
	for seed := range uint64(3000) {
		s := draw(seed).Spec
		i := slices.IndexFunc(s.Signals, func(g Signal) bool { return strings.HasPrefix(g.Says, "next") })
		if s.Moves, s.Faults = nil, nil; i < 0 || s.Signals[i].End == "self" {
			continue
		}
		l := New(s)
		l.Begin()
		r := &reader{List: l, t: t}
		q := url.Values{}
		for range 40 {
			w := r.ask(q, nil)
			more := follow(s, s.Signals[i], w)
			if more == nil {
				break
			}
			q = more
		}
		want := l.Truth().Now
		slices.Sort(want)
		slices.Sort(r.seen)
		require.Equal(t, want, r.seen, "seed %d: %s", seed, asJSON(s))
	}
}

func follow(s Spec, sig Signal, w *httptest.ResponseRecorder) url.Values {
	var v any
	if name, ok := strings.CutPrefix(sig.At, "header "); ok {
		v = w.Header().Get(name)
	} else {
		_ = json.Unmarshal(bytes.ReplaceAll(w.Body.Bytes(), []byte("\t"), []byte(" ")), &v) // a list may contain a raw tab
		for _, name := range strings.Split(sig.At[1:], "/") {
			m, _ := v.(map[string]any)
			v = m[name]
		}
	}
	if all, ok := v.([]any); ok {
		v = nil
		for _, link := range all {
			if m := link.(map[string]any); m["rel"] == "next" {
				v = m
			}
		}
	}
	if m, ok := v.(map[string]any); ok {
		v = m["href"]
	}
	if v == nil || v == "" || v == false || v == "0" {
		return nil
	}
	text := fmt.Sprint(v)
	if _, query, ok := strings.Cut(strings.Trim(strings.TrimSuffix(text, `; rel="next"`), "<>"), "?"); ok {
		q, _ := url.ParseQuery(query)
		return q
	}
	return url.Values{s.Paging.Param: {text}}
}

func TestSpecIsData(t *testing.T) {
	for seed := range uint64(200) {
		var back Spec
		require.NoError(t, json.Unmarshal(asJSON(Draw(seed)), &back))
		require.Equal(t, string(asJSON(Draw(seed))), string(asJSON(back)))
	}
}

func TestNamedLists(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range Lists() {
		require.False(t, seen[n.Name], n.Name)
		seen[n.Name] = true
		l := New(n.Spec)
		l.Begin()
		first := &reader{List: l, t: t}
		require.Less(t, first.ask(nil, nil).Code, 300, n.Name)
		if slices.ContainsFunc(n.Spec.Faults, func(f Fault) bool { return f.Run == 2 }) {
			first.seen = nil
			first.read()
			require.Len(t, first.seen, len(l.Truth().Now), n.Name)
			l.Begin()
			second := &reader{List: l, t: t}
			second.read()
			if n.Spec.Faults[0].Kind == FaultMoved {
				require.Regexp(t, `^{"answer":`, second.ask(nil, nil).Body.String())
			} else {
				require.Less(t, len(second.seen), len(l.Truth().Now), n.Name)
			}
		}
	}
}
