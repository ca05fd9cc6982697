package signal

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

func hook(t *testing.T, refuse int) (url wire.Secret, bodies <-chan string) {
	t.Helper()
	ch := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if refuse > 0 {
			refuse--
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		ch <- r.URL.Path + " " + string(text)
	}))
	t.Cleanup(func() {
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return wire.Secret("generic://" + strings.TrimPrefix(srv.URL, "http://") + "/hooks/s3cretpath?disabletls=yes"), ch
}

func TestDeliver(t *testing.T) {
	url, bodies := hook(t, 0)
	require.NoError(t, CheckTarget(url))
	require.NoError(t, deliver(url, "penstock\npipeline nightly: failed"))
	require.Equal(t, "/hooks/s3cretpath penstock\npipeline nightly: failed", <-bodies)
}

// If an error quotes a URL, no part of the URL appears.
func TestDeliverConceals(t *testing.T) {
	refused, _ := hook(t, 1)
	srv := httptest.NewServer(nil)
	gone := wire.Secret("generic://user:hunter22@" + strings.TrimPrefix(srv.URL, "http://") + "/hooks/s3cretpath?disabletls=yes&$token=tokentoken&@X-Key=keykeykey")
	srv.Close()
	for _, u := range []wire.Secret{refused, gone, "generic://127.0.0.1:1/s3cretpath%zz", "slack://hunter22/s3cretpath/tokentoken"} {
		err := deliver(u, "text")
		require.Error(t, err)
		for _, secret := range []string{"s3cretpath", "hunter22", "tokentoken", "keykeykey"} {
			require.NotContains(t, err.Error(), secret) // Invariant 5
		}
	}
}

func TestCheckTarget(t *testing.T) {
	for url, want := range map[wire.Secret]string{
		"generic+https://example.com/hooks/s3cret":                             "",
		"smtp://user:s3cret@mail.example:587/?from=a@b.example&to=c@d.example": "",
		"discord://s3crettoken@123456789":                                      "",
		"ntfy://ntfy.sh/s3cret":                                                "",
		"matrix://user:s3cret@matrix.invalid/":                                 "",
		"":                                                                     "not a URL",
		"https://s3cret.example":                                               `unknown service "https"`,
		"slack:s3cret":                                                         "not a URL",
		"slack://s3cret":                                                       "slack: the URL does not have the form that the service requires",
		"logger://":                                                            "the service logger sends no message",
		"generic://%zz:s3cret":                                                 "generic: not a URL",
	} {
		err := CheckTarget(url)
		if want == "" {
			require.NoError(t, err, url.Reveal())
			continue
		}
		require.ErrorContains(t, err, want, url.Reveal())
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestAlertsOverHTTP(t *testing.T) {
	url, bodies := hook(t, 0)
	a, err := OpenAlerts(t.Context(), AlertOptions{Notes: (&state.Folder{Dir: t.TempDir()}).Notes(), Log: slog.New(slog.DiscardHandler), Redact: wire.NewRedactor("hunter22").Redact})
	require.NoError(t, err)
	r := nightlyRouting
	r.To, r.Digest = []wire.Secret{url}, time.Millisecond
	a.Route(r)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { a.Run(ctx) })
	a.Observe(fails("401 for hunter22"))
	require.Equal(t, "/hooks/s3cretpath penstock\npipeline nightly: failed\n  crm.leads in warehouse: 401 for [redacted]", <-bodies)
	cancel()
	done.Wait()
}
