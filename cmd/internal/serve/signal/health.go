package signal

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Health serves /healthz (liveness) and /readyz (readiness). The response is 200 or 503, with the outcome of each check
// as JSON. Liveness is for supervisors that restart the process, readiness for load balancers. A full disk, for
// example, makes the process not ready, but a restart would not help. The routes need no token, so the response has
// only fixed words. The errors are in the log. Each error is logged once, and again only after it has
// changed. // Invariant 5
type Health struct {
	alive  Check
	log    *slog.Logger
	checks atomic.Pointer[[]Check]

	mu     sync.Mutex
	logged map[string]string // the last logged error, by check
}

// Check is one condition for readiness.
type Check struct {
	Name  string
	Ready func(context.Context) error // returns nil if the condition holds; must return quickly
}

const checkTimeout = 3 * time.Second

var errStarting = errors.New("not started yet")

// NewHealth returns a Health. The process counts as alive while the given function returns nil.
func NewHealth(alive func() error, log *slog.Logger) *Health {
	h := &Health{alive: Check{Name: "alive", Ready: func(context.Context) error { return alive() }}, log: log, logged: map[string]string{}}
	h.Ready(Check{Name: "started", Ready: func(context.Context) error { return errStarting }})
	return h
}

// Ready replaces the checks for readiness. Before the first call, the process is not ready.
func (h *Health) Ready(checks ...Check) { h.checks.Store(&checks) }

type health struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// ServeHTTP serves readiness at a path that ends in /readyz, and liveness at any other path.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	checks := []Check{h.alive}
	if strings.HasSuffix(r.URL.Path, "/readyz") {
		checks = *h.checks.Load()
	}
	names, errs := make([]string, len(checks)), make([]error, len(checks))
	for i, c := range checks {
		names[i], errs[i] = c.Name, c.Ready(ctx)
	}
	h.answer(w, names, errs)
}

func (h *Health) answer(w http.ResponseWriter, names []string, errs []error) {
	a, code := health{Status: "ok", Checks: map[string]string{}}, http.StatusOK
	for i, name := range names {
		a.Checks[name] = "ok"
		if errs[i] != nil {
			a.Status, code = "failing", http.StatusServiceUnavailable
			a.Checks[name] = "failing"
		}
		h.logChange(name, errs[i])
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(a)
}

func (h *Health) logChange(name string, err error) {
	text := ""
	if err != nil {
		text = withoutDigits(clip(err.Error(), mostWhy))
	}
	h.mu.Lock()
	was := h.logged[name]
	h.logged[name] = text
	h.mu.Unlock()
	switch {
	case text == was:
	case err == nil:
		h.log.Info("healthy again", "check", name)
	default:
		h.log.Warn("not healthy", "check", name, "error", clip(err.Error(), mostWhy))
	}
}
