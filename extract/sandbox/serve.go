package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// ServeHTTP serves both surfaces and, under /_sandbox/, the controls.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sandbox/") {
		s.control(w, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, ListsPath) {
		s.list(w, r)
		return
	}
	if r.URL.Path == authorizePath || r.URL.Path == tokenPath {
		s.oauth(w, r)
		return
	}
	t, lost := s.findTarget(r)
	want := bearer
	if e := s.endpoints[t.method+" "+t.template]; e != nil {
		want = e.auth
	}
	want = requiredAuth(t, want)
	c, refused := s.admit(r, t.surface, want)
	s.counter.call(t.method, t.template, t.stream, t.class != "" && t.class.Readable())
	tally := s.counter.begin(c.name, time.Since(s.start))
	var answer reply
	defer func() { s.counter.end(tally, answer, time.Since(s.start)) }()
	answer = s.answer(w.Header(), r, t, c, refused, lost)
	s.write(w, r, answer)
}

func (s *Server) findTarget(r *http.Request) (target, *reply) {
	t := target{method: r.Method, surface: surfaceOf(r.URL.Path), template: r.URL.Path}
	m, ok := s.routes.find(r.Method, r.URL.Path)
	if ok && m.template == "" {
		answer := jsonReply(http.StatusMethodNotAllowed, obj("message", "The "+r.Method+" method is not supported for route "+
			strings.Trim(r.URL.Path, "/")+". Supported methods: "+strings.Join(m.others, ", ")+"."))
		return t, &answer
	}
	if !ok {
		answer := jsonReply(http.StatusNotFound, obj("message", "The route "+strings.Trim(r.URL.Path, "/")+" could not be found."))
		return t, &answer
	}
	stream := s.streams[r.Method+" "+m.template]
	t.template, t.path, t.stream, t.class = m.template, m.params(), stream.Name, stream.Class
	return t, nil
}

func surfaceOf(path string) string {
	if strings.HasPrefix(path, "/v2/") {
		return "v2"
	}
	return "app"
}

func requiredAuth(t target, want auth) auth {
	switch {
	case t.template == "/api/login", t.template == "/api/widget/lead", t.template == "/api/refresh": // refresh accepts expired tokens
		return public
	case strings.HasPrefix(t.template, "/api/wl/"):
		return whiteLabel
	}
	return want
}

func (s *Server) answer(h http.Header, r *http.Request, t target, c credential, refused, lost *reply) reply {
	if refused != nil {
		s.announce(h, c)
		return *refused
	}
	if !s.options.NoLimits && c.name != "public" {
		if full := s.throttle(h, c); full != nil {
			return *full
		}
	}
	s.wait(r)
	if lost != nil {
		return *lost
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return jsonReply(http.StatusBadRequest, obj("message", "The body could not be read."))
	}
	p := paramsOf(t.path, r.URL.Query(), body)
	fault, struck := s.faults.match(t, p["page"])
	if struck && fault.Kind == FaultDrift {
		s.shift(t, fault)
		struck = false
	}
	if struck {
		return s.spoil(r, t, fault, p, func() reply {
			if fault.Kind == FaultStuck {
				p = params{}
				maps.Copy(p, t.path)
			}
			return s.respond(r, t, c, p, body)
		})
	}
	return s.respond(r, t, c, p, body)
}

func (s *Server) wait(r *http.Request) {
	if s.options.Latency <= 0 {
		return
	}
	select {
	case <-time.After(s.options.Latency):
	case <-r.Context().Done():
	}
}

func (s *Server) respond(r *http.Request, t target, c credential, p params, body []byte) reply {
	route := t.method + " " + t.template
	module, _, _ := strings.Cut(t.stream, ".")
	e := s.endpoints[route]
	if on, listed := s.options.Modules[module]; listed && !on {
		return s.dialectOf(t, e).fail(&refusal{kind: moduleOff, what: module})
	}
	switch {
	case !c.allows(s.streams[route]):
		return v2Error(http.StatusForbidden, "insufficient_scope", "Insufficient scope: this needs "+s.streams[route].Scope+".")
	case s.contacts != nil && route == "GET /v2/contacts":
		return s.contacts.list(p)
	case s.contacts != nil && route == "GET /v2/contacts/{id}":
		return s.contacts.one(p["id"])
	case e != nil:
		return s.read(e, p)
	}
	if answer, ok := s.session(r, t.template, bodyOf(body)); ok {
		return answer
	}
	return s.change(route, t, c, p, bodyOf(body))
}

func (s *Server) dialectOf(t target, e *endpoint) dialect {
	if e != nil {
		return e.dialect
	}
	if t.surface == "v2" {
		return dV2
	}
	return d1
}

func (s *Server) read(e *endpoint, p params) reply {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var lacking []string
	for _, name := range strings.Fields(e.required) {
		if p[name] == "" {
			lacking = append(lacking, name)
		}
	}
	if lacking != nil {
		return e.dialect.fail(&refusal{kind: invalid, fields: lacking})
	}
	out, err := s.payload(e, p)
	if t, ok := errors.AsType[*refusal](err); ok {
		return e.dialect.fail(t)
	}
	if e.media != "" {
		text, _ := out.data.(string)
		return reply{status: http.StatusOK, header: http.Header{"Content-Type": {e.media}}, body: []byte(text)}
	}
	if e.wrap != nil {
		out.data = e.wrap(s.world, p, out.data)
	}
	body := e.style().append(nil, e.dialect.wrap(e.message, out))
	header := http.Header{"Content-Type": {"application/json"}}
	for name, values := range out.header {
		header[name] = values
	}
	return reply{status: http.StatusOK, header: header, body: body}
}

func (s *Server) payload(e *endpoint, p params) (served, error) {
	switch {
	case e.object != nil:
		data, err := e.object(s.world, p)
		return served{data: data}, err
	case e.lists != nil:
		return served{data: e.listsPayload(s.world)}, nil
	case e.board != nil:
		return served{data: e.boardPayload(s.world, p)}, nil
	case e.idParam != "":
		data, err := e.single(s.world, p)
		return served{data: data}, err
	}
	cut := e.pager
	if cut == nil {
		cut = whole
	}
	_, path, _ := strings.Cut(e.route, " ")
	out, t := cut(paging{items: s.items(e, p), p: p, size: e.size, fixed: e.fixed, keyed: e.keyed, path: path, url: innerHost + path, shown: e.shown})
	if t != nil {
		return served{}, t
	}
	return out, nil
}

// innerHost is the application's address behind its proxy. The application puts it into links, although clients
// cannot reach it.
const innerHost = "http://app.internal.example.test:8080"

// items returns the rendered records. It caches them until the data changes, unless they depend on the request.
func (s *Server) items(e *endpoint, p params) []item {
	if !e.plain() {
		return e.render(s.world, p)
	}
	s.cacheMu.Lock()
	defer s.cacheMu.Unlock()
	if c, ok := s.cache[e]; ok && c.version == s.world.version {
		return c.items
	}
	c := rendered{s.world.version, e.render(s.world, p)}
	s.cache[e] = c
	return c.items
}

func (e *endpoint) render(w *world, p params) []item {
	records := e.records(w, p)
	items := make([]item, len(records))
	for i, r := range records {
		items[i] = item{r.key, json.RawMessage(e.style().append(nil, r.object))}
	}
	return items
}
