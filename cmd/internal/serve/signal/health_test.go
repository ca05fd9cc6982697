package signal

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
)

func ask(t *testing.T, h http.Handler, path string) (int, health) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	var a health
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	return w.Code, a
}

func TestHealthLive(t *testing.T) {
	var stuck error
	h := NewHealth(func() error { return stuck }, slog.New(slog.DiscardHandler))
	code, _ := ask(t, h, "/healthz")
	require.Equal(t, http.StatusOK, code)

	stuck = errors.New("pipeline nightly: worker silent for 3m")
	code, a := ask(t, h, "/healthz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, health{Status: "failing", Checks: map[string]string{"alive": "failing"}}, a)
}

func TestHealthReadiness(t *testing.T) {
	var log strings.Builder
	h := NewHealth(func() error { return nil }, slog.New(Redacted(slog.NewTextHandler(&log, nil), wire.NewRedactor("hunter22").Redact)))
	code, a := ask(t, h, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, map[string]string{"started": "failing"}, a.Checks)

	full := errors.New("open /var/lib/penstock/inbox.db with hunter22: " + strings.Repeat("x", 300) + "\nmore")
	h.Ready(
		Check{Name: "configuration", Ready: func(context.Context) error { return nil }},
		Check{Name: "inbox", Ready: func(context.Context) error { return full }},
	)
	for range 3 {
		code, a = ask(t, h, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Equal(t, map[string]string{"configuration": "ok", "inbox": "failing"}, a.Checks, "the response has no path, no name, no error")
	}
	require.Equal(t, 1, strings.Count(log.String(), "/var/lib/penstock/inbox.db"), "the error is logged once: %s", log.String())
	require.NotContains(t, log.String(), "hunter22")

	full = nil
	h.Ready(Check{Name: "inbox", Ready: func(context.Context) error { return full }})
	code, a = ask(t, h, "/readyz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, health{Status: "ok", Checks: map[string]string{"inbox": "ok"}}, a)
	require.Equal(t, 1, strings.Count(log.String(), "healthy again"))
}

func TestHealthReadinessIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(func() error { return nil }, slog.New(slog.DiscardHandler))
		h.Ready(Check{Name: "inbox", Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		start := time.Now()
		code, _ := ask(t, h, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Equal(t, checkTimeout, time.Since(start))
	})
}
