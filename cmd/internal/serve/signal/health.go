package signal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Health answers /healthz, whether the process lives, and /readyz, whether it can
// do its work: 200 if so, else 503, with each check's outcome as JSON. The first
// is for whoever restarts it, the second for whoever sends it deliveries: a full
// disk is no reason to start again.
type Health struct {
	alive  Check
	redact func(string) string
	checks atomic.Pointer[[]Check]
}

// Check is one thing that readiness needs.
type Check struct {
	Name string
	Ask  func(context.Context) error // nil: ready. It must not take long
}

// checkTimeout bounds all checks of one answer.
const checkTimeout = 3 * time.Second

var errStarting = errors.New("not started yet")

// NewHealth makes the health of a process that lives for as long as alive gives
// no error. redact takes the secrets out of what is told; nil leaves texts as
// they are.
func NewHealth(alive func() error, redact func(string) string) *Health {
	h := &Health{alive: Check{Name: "alive", Ask: func(context.Context) error { return alive() }}, redact: redact}
	if h.redact == nil {
		h.redact = func(s string) string { return s }
	}
	h.Ready(Check{Name: "started", Ask: func(context.Context) error { return errStarting }})
	return h
}

// Ready says what readiness needs from now on. Before the first call nothing is
// ready.
func (h *Health) Ready(checks ...Check) { h.checks.Store(&checks) }

// health is what both answers look like.
type health struct {
	Status string            `json:"status"` // ok or failing
	Checks map[string]string `json:"checks"` // ok, or what is wrong
}

// ServeHTTP answers a path that ends in /readyz with the readiness, any other
// with whether the process lives.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	checks := []Check{h.alive}
	if strings.HasSuffix(r.URL.Path, "/readyz") {
		checks = *h.checks.Load()
	}
	names, errs := make([]string, len(checks)), make([]error, len(checks))
	for i, c := range checks {
		names[i], errs[i] = c.Name, c.Ask(ctx)
	}
	h.answer(w, names, errs)
}

func (h *Health) answer(w http.ResponseWriter, names []string, errs []error) {
	a, code := health{Status: "ok", Checks: map[string]string{}}, http.StatusOK
	for i, name := range names {
		a.Checks[name] = "ok"
		if errs[i] != nil {
			a.Status, code = "failing", http.StatusServiceUnavailable
			a.Checks[name] = h.brief(errs[i])
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(a) // whoever asked has gone
}

// brief is the first line of an error, without secrets and of a bounded length:
// whoever may ask for the health may read it.
func (h *Health) brief(err error) string {
	const most = 200
	line, _, _ := strings.Cut(h.redact(err.Error()), "\n")
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}
