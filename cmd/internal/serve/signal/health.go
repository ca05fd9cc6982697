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

// Health answers /healthz, whether the process lives, and /readyz, whether it can
// do its work: 200 if so, else 503, with each check's outcome as JSON. The first
// is for whoever restarts it, the second for whoever sends it deliveries: a full
// disk is no reason to start again. Whoever reaches the daemon may ask, so that
// an answer holds fixed words alone; what is wrong stands in the log, once until
// it changes. // Invariant 5
type Health struct {
	alive  Check
	log    *slog.Logger
	checks atomic.Pointer[[]Check]

	mu   sync.Mutex
	told map[string]string // what was logged last, by check
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
// no error.
func NewHealth(alive func() error, log *slog.Logger) *Health {
	h := &Health{alive: Check{Name: "alive", Ask: func(context.Context) error { return alive() }}, log: log, told: map[string]string{}}
	h.Ready(Check{Name: "started", Ask: func(context.Context) error { return errStarting }})
	return h
}

// Ready says what readiness needs from now on. Before the first call nothing is
// ready.
func (h *Health) Ready(checks ...Check) { h.checks.Store(&checks) }

// health is what both answers look like.
type health struct {
	Status string            `json:"status"` // ok or failing
	Checks map[string]string `json:"checks"` // ok or failing
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
			a.Checks[name] = "failing"
		}
		h.tell(name, errs[i])
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(a) // whoever asked has gone
}

// tell logs what is wrong with a check once it is, when it is something else, and
// when it is over.
func (h *Health) tell(name string, err error) {
	text := ""
	if err != nil {
		text = withoutDigits(clip(err.Error(), mostWhy))
	}
	h.mu.Lock()
	was := h.told[name]
	h.told[name] = text
	h.mu.Unlock()
	switch {
	case text == was:
	case err == nil:
		h.log.Info("healthy again", "check", name)
	default:
		h.log.Warn("not healthy", "check", name, "error", clip(err.Error(), mostWhy))
	}
}
