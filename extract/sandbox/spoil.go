package sandbox

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The type spoiled makes the answer to a request that a fault affects.
type spoiled struct {
	server  *Server
	r       *http.Request
	t       target
	e       *endpoint // nil: none
	f       Fault
	p       params
	genuine func() reply
}

func (s *Server) spoil(r *http.Request, t target, f Fault, p params, genuine func() reply) reply {
	return spoiled{s, r, t, s.endpoints[t.method+" "+t.template], f, p, genuine}.answer()
}

func (s spoiled) answer() reply {
	f, d := s.f, s.server.dialectOf(s.t, s.e)
	switch f.Kind {
	case FaultStatus:
		return f.status(s.r, d, s.t)
	case FaultHTML:
		return htmlReply(http.StatusOK, loginPage)
	case FaultModuleOff:
		module, _, _ := strings.Cut(s.t.stream, ".")
		return d.fail(&refusal{kind: moduleOff, what: module})
	case FaultRedirect:
		answer := htmlReply(http.StatusFound, "")
		answer.header.Set("Location", orText(f.Location, "https://elsewhere.example.test/login"))
		return answer
	case FaultEmpty:
		return s.empty()
	case FaultShuffle:
		return s.shuffled()
	case FaultPoison:
		if s.pageContains(f.ID) {
			return f.status(s.r, d, s.t)
		}
		return s.genuine()
	case FaultStale:
		return s.stale()
	case FaultReset:
		return reply{send: reset}
	case FaultGzipBomb:
		return reply{status: http.StatusOK, send: func(w http.ResponseWriter) { bomb(w, f.Bytes) }}
	}
	answer := s.genuine()
	switch f.Kind {
	case FaultLost:
		return reply{send: reset}
	case FaultField:
		answer.body = f.refield(answer.body)
	case FaultMalformed:
		answer.body = append(bytes.TrimSuffix(answer.body, []byte("}")), ",}"...)
	case FaultCut:
		answer.body = answer.body[:f.bytesSent(len(answer.body))]
	case FaultTruncate:
		answer.send = func(w http.ResponseWriter) { truncate(w, answer, f.bytesSent(len(answer.body))) }
	case FaultSlow:
		answer.send = func(w http.ResponseWriter) { drip(w, s.r, answer, time.Duration(f.Delay)) }
	}
	return answer
}

func (s spoiled) stale() reply {
	if s.e == nil || s.e.idParam == "" {
		return s.genuine()
	}
	outdated := *s.e
	outdated.stale = true
	return s.server.read(&outdated, s.p)
}

func orText(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func (f Fault) bytesSent(of int) int {
	if f.Bytes > 0 {
		return min(f.Bytes, of)
	}
	return of * 2 / 3
}

func (f Fault) status(r *http.Request, d dialect, t target) reply {
	status := f.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	var answer reply
	switch {
	case status == http.StatusUnauthorized:
		answer = *unauthenticated(r, t.surface)
	case status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusForbidden:
		kind := map[int]refusalKind{400: wentWrong, 404: missing, 403: denied}[status]
		answer = d.fail(&refusal{kind: kind, what: "Record"})
		answer.status = status
	case d == dV2:
		answer = v2Error(status, "server_error", http.StatusText(status))
	case status == http.StatusInternalServerError:
		answer = jsonReply(status, obj("message", "Server Error"))
	case status == http.StatusTooManyRequests:
		answer = jsonReply(status, obj("message", "Too Many Attempts."))
	default:
		answer = jsonReply(status, obj("message", http.StatusText(status)))
	}
	if f.RetryAfter != "" {
		answer.header.Set("Retry-After", f.RetryAfter)
		answer.wait = gateOf(f.RetryAfter)
	}
	return answer
}

func gateOf(retryAfter string) time.Duration {
	if n, err := strconv.Atoi(retryAfter); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(retryAfter); err == nil {
		return time.Until(at)
	}
	return 0
}

func (s spoiled) empty() reply {
	if s.e == nil || s.e.from == "" || s.e.idParam != "" {
		return jsonReply(http.StatusOK, s.server.dialectOf(s.t, s.e).wrap("", served{data: list{}}))
	}
	emptied := *s.e
	emptied.required = ""
	// This condition is false for every row. It compares the id with a missing parameter, and no id is empty.
	emptied.conds = append(emptied.conds[:len(emptied.conds):len(emptied.conds)], condition{column: "id", param: "_none"})
	return s.server.read(&emptied, params{})
}

func (s spoiled) shuffled() reply {
	if s.e == nil || s.e.from == "" {
		return s.genuine()
	}
	reordered := *s.e
	reordered.shuffle = rand.Shuffle
	return s.server.read(&reordered, s.p)
}

func (s spoiled) pageContains(id string) bool {
	if s.e == nil || s.e.from == "" {
		return false
	}
	s.server.mu.RLock()
	defer s.server.mu.RUnlock()
	watched := *s.e
	watched.shuffle = func(int, func(i, j int)) {} // keeps the result out of the cache
	if all := watched.render(s.server.world, s.p); id == "" && len(all) > 0 {
		id = all[len(all)/2].key
	}
	hit := false
	watched.shown = func(key string) { hit = hit || key == id }
	_, err := s.server.payload(&watched, s.p)
	return err == nil && hit
}

func reset(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func truncate(w http.ResponseWriter, r reply, keep int) {
	copyHeader(w.Header(), r.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body[:keep])
	flush(w)
	panic(http.ErrAbortHandler)
}

func drip(w http.ResponseWriter, r *http.Request, answer reply, pause time.Duration) {
	if pause <= 0 {
		pause = 50 * time.Millisecond
	}
	copyHeader(w.Header(), answer.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
	w.WriteHeader(answer.status)
	for part := range chunks(answer.body, len(answer.body)/10+1) {
		flush(w)
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
			return
		}
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

func chunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

func bomb(w http.ResponseWriter, n int) {
	if n <= 0 {
		n = 1 << 30
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Encoding", "gzip")
	blanks := packed(bytes.Repeat([]byte{' '}, 1<<20))
	_, _ = w.Write(packed([]byte(`{"data":[`)))
	for sent := 0; sent < n; sent += 1 << 20 {
		if _, err := w.Write(blanks); err != nil {
			return
		}
	}
	_, _ = w.Write(packed([]byte(`]}`)))
}

func packed(b []byte) []byte {
	var buffer bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	_, _ = z.Write(b)
	_ = z.Close()
	return buffer.Bytes()
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = values
	}
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, answer reply) {
	if answer.send != nil {
		answer.send(w)
		return
	}
	body := answer.body
	copyHeader(w.Header(), answer.header)
	if s.options.Skew != 0 {
		w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	}
	if s.options.Gzip && len(body) > 1024 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var buffer bytes.Buffer
		z, _ := gzip.NewWriterLevel(&buffer, gzip.BestSpeed)
		_, _ = z.Write(body)
		_ = z.Close()
		body = buffer.Bytes()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answer.status)
	_, _ = w.Write(body)
	if answer.release != nil {
		answer.release()
	}
}
