package servers

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// List serves one Spec. It is safe for concurrent use.
type List struct {
	spec Spec

	mu             sync.Mutex
	rows           []row
	newest         int // number of the newest record at the end of the list
	before         int
	clock          int
	run            int
	requests       int
	detailRequests int
	swapped        map[int]int
	faultCounts    []int             // how often each fault has occurred, by its index in Spec.Faults
	cache          map[string]answer // answers of the previous run, by the query of the request
	nextCache      map[string]answer
	always         map[string]bool
	ever           map[string]bool
	log            []string
}

var _ http.Handler = (*List)(nil)

// New returns the list of a Spec, before its first run.
func New(spec Spec) *List {
	l := &List{spec: spec, rows: spec.Records.initialRows(), newest: spec.Records.Count, clock: 7 * spec.Records.Count, faultCounts: make([]int, len(spec.Faults))}
	l.begin()
	return l
}

// Begin starts the next run. At the second run, it makes the edits of the Spec.
func (l *List) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == 1 {
		l.edit(l.spec.Edits)
	}
	l.begin()
	l.run++
}

func (l *List) begin() {
	l.requests, l.always, l.ever = 0, map[string]bool{}, map[string]bool{}
	l.cache, l.nextCache = l.nextCache, map[string]answer{}
	l.log = nil
	for _, m := range l.marks() {
		l.always[m] = true
	}
	l.detailRequests = 0
	l.observe()
}

// Truth returns the records that the current run may find.
func (l *List) Truth() Truth {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Truth{Now: l.marks()}
	t.Always, t.Ever = slices.Sorted(maps.Keys(l.always)), slices.Sorted(maps.Keys(l.ever))
	return t
}

// Requests returns the requests of the current run, with the status of each answer.
func (l *List) Requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.log)
}

type request struct {
	values map[string]string
	header http.Header
	url    string // URL of the list, without the query
	query  string
	path   string
}

const maxBody = 1 << 20

func (l *List) read(r *http.Request) request {
	q := request{values: map[string]string{}, header: r.Header, url: "http://" + r.Host + r.URL.Path, path: r.URL.Path, query: r.URL.RawQuery}
	inBody := r.Method == http.MethodPost && l.spec.Paging.In != "query"
	for name, v := range r.URL.Query() {
		if !inBody {
			q.values[name] = v[len(v)-1]
		}
	}
	if !inBody {
		return q
	}
	var body map[string]any
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil || json.Unmarshal(b, &body) != nil {
		return q
	}
	q.flatten("", body)
	return q
}

func (q request) flatten(prefix string, body map[string]any) {
	for name, v := range body {
		switch v := v.(type) {
		case map[string]any:
			q.flatten(prefix+name+".", v)
		case string:
			q.values[prefix+name] = v
		case float64:
			q.values[prefix+name] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
}

// ServeHTTP serves a part of the list.
func (l *List) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := l.read(r)
	a := l.take(q, r)
	a.write(w)
}

// Twin returns a handler for a second list with the same records, but without faults.
func (l *List) Twin() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		t := &List{spec: l.spec, rows: slices.Clone(l.rows), run: l.run}
		t.spec.Faults, t.spec.Moves = nil, nil
		a := t.answer(r.Method, t.read(r))
		a.write(w)
	})
}

func (l *List) take(q request, r *http.Request) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.answer(r.Method, q)
	l.nextCache[r.URL.RawQuery] = a
	l.log = append(l.log, strings.TrimSpace(r.Method+" "+r.URL.RawQuery+" "+r.Header.Get("Range"))+" → "+strconv.Itoa(a.status))
	return a
}

type answer struct {
	status int
	header http.Header
	body   any
}

func (a answer) write(w http.ResponseWriter) {
	for name, v := range a.header {
		w.Header()[name] = v
	}
	var body []byte
	if a.status != http.StatusNoContent {
		w.Header().Set("Content-Type", "application/json")
		body = bytes.ReplaceAll(asJSON(a.body), []byte(rawTab), []byte("a\ttab"))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body)
}

func refuse(status int, message string) answer {
	return answer{status: status, header: http.Header{}, body: map[string]any{"error": map[string]any{"message": message}}}
}

type part struct {
	rows     []row
	allRows  []row
	from, to int // bounds of rows in allRows
	size     int
	page     int // page number, from 0
	end      bool
}

// answer answers a request. The caller holds l.mu.
func (l *List) answer(method string, q request) answer {
	s := l.spec
	l.requests++
	for _, m := range s.Moves {
		if m.Run == l.run && m.At == l.requests {
			l.move(m)
		}
	}
	want := http.MethodGet
	if s.Method != "" {
		want = s.Method
	}
	if method != want {
		return refuse(http.StatusMethodNotAllowed, "method not allowed")
	}
	l.spec.Records.sort(l.rows)
	all := slices.Clone(l.rows)
	for name := range q.values {
		if s.Unknown == "" || name == s.Paging.Param || name == s.Size.Param || name == s.Reader.Since {
			continue
		}
		if s.Unknown == UnknownRefuse {
			return refuse(http.StatusBadRequest, "unknown parameter: "+name)
		}
		all = nil
	}
	all = l.since(q, l.leaveOut(all))
	partial, incomplete := l.partial()
	if s.Records.Hidden > 0 && s.Paging.Kind != KindPage && s.Paging.Kind != KindOffset {
		all = l.shown(all) // positions do not count hidden records
	}
	if incomplete {
		all = slices.DeleteFunc(all, func(r row) bool { return r.n%3 == 2 })
	}
	p, refused := l.cut(q, all)
	if refused != nil {
		return *refused
	}
	return l.show(q, p, partial)
}

func (l *List) partial() (Fault, bool) {
	for i, f := range l.spec.Faults {
		if f.Kind == FaultPartial && l.applies(i, part{}) {
			return f, true
		}
	}
	return Fault{}, false
}

func (l *List) applies(i int, p part) bool {
	f := l.spec.Faults[i]
	if f.Run != 0 && f.Run != l.run || f.Count > 0 && l.faultCounts[i] >= f.Count || l.requests < f.From || f.To > 0 && l.requests > f.To {
		return false
	}
	if f.Row > 0 && (f.Row-1 < p.from || f.Row-1 >= p.to) {
		return false
	}
	l.faultCounts[i]++
	return true
}

func (l *List) show(q request, p part, partial Fault) answer {
	s := l.spec
	path, shown := s.Envelope.Path, l.shown(p.rows)
	a := answer{status: http.StatusOK, header: http.Header{}}
	for i, f := range s.Faults {
		if f.Kind == FaultPartial || f.Kind == FaultLeftOut || f.Kind == FaultDetail || !l.applies(i, p) {
			continue
		}
		switch f.Kind {
		case FaultStatus:
			a := refuse(max(f.Status, 400), "the server could not answer")
			if f.Status == 0 {
				a.status = http.StatusInternalServerError
			}
			if f.Status == http.StatusTooManyRequests {
				a.header.Set("Retry-After", "0")
			}
			return a
		case FaultObject:
			a.body = map[string]any{"message": "The list is being rebuilt.", "code": 17}
			return a
		case FaultHalf:
			shown = shown[:len(shown)/2]
		case FaultEmptied:
			shown = nil
		case FaultCached:
			if a, ok := l.cache[q.query]; ok {
				a.header = a.header.Clone()
				a.header.Set("Age", "3600")
				return a
			}
		case FaultMoved:
			path = append([]string{"answer"}, path...)
		}
	}
	body := l.envelope(path, shown, p.from)
	for _, sig := range s.Signals {
		if v, said := l.say(sig, q, p, len(shown)); said {
			a.place(&body, sig.At, v)
		}
	}
	if partial.At != "" {
		var v any
		if partial.Value != nil {
			v = partial.Value
		}
		a.place(&body, partial.At, v)
	}
	if partial.Status != 0 {
		a.status = partial.Status
	}
	if s.Paging.Kind == KindRange && len(p.rows) < len(p.allRows) {
		a.status = http.StatusPartialContent
	}
	a.body = body
	return a
}

func (l *List) envelope(path []string, rows []row, from int) any {
	s := l.spec.Envelope
	var body any = l.spec.Records.list(rows, from)
	if len(rows) == 0 && s.Empty == "null" {
		body = nil
	}
	for i := len(path) - 1; i >= 0; i-- {
		m := map[string]any{}
		if i < len(path)-1 || len(rows) > 0 || s.Empty != "absent" {
			m[path[i]] = body
		}
		body = m
	}
	if m, ok := body.(map[string]any); ok && len(path) > 0 {
		for name, v := range s.Beside {
			m[name] = v
		}
	}
	return body
}

func (a *answer) place(body *any, at string, v any) {
	if name, ok := strings.CutPrefix(at, "header "); ok {
		if v != nil {
			a.header.Set(name, textOf(v))
		}
		return
	}
	m, ok := (*body).(map[string]any)
	names := strings.Split(strings.TrimPrefix(at, "/"), "/")
	for i, name := range names {
		if !ok {
			return
		}
		if i == len(names)-1 {
			m[name] = v
			return
		}
		if _, there := m[name]; !there {
			m[name] = map[string]any{}
		}
		m, ok = m[name].(map[string]any)
	}
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.RawMessage:
		return strings.Trim(string(v), `"`)
	}
	return string(asJSON(v))
}
