package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

type running struct {
	*Daemon
	url  string
	stop func() error
}

func run(t *testing.T, c Config) *running {
	t.Helper()
	var err error
	c.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if c.Journal == nil {
		c.Journal, err = state.OpenJournal(t.Context(), t.TempDir())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Journal.Close()) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Daemon: New(c), url: "http://" + c.Listener.Addr().String()}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

func echo(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, name+" "+r.Method+" "+r.URL.EscapedPath())
	})
}

func get(t *testing.T, method, url, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	require.NoError(t, err)
	req.Host = host
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func TestMounted(t *testing.T) {
	d := run(t, Config{Hosts: []string{"penstock.example.org"}, Handlers: Handlers{
		Webhooks: echo("webhooks"), Health: echo("health"), Metrics: echo("metrics"), API: echo("api"), Board: echo("board"),
	}})
	for _, tt := range []struct {
		method, path, host string
		status             int
		body               string
	}{
		{"POST", "/webhooks/main", "hooks.example.com", 200, "webhooks POST /webhooks/main"},
		{"GET", "/webhooks/main", "", 200, "webhooks GET /webhooks/main"},
		{"POST", "/webhooks/main/", "", 200, "webhooks POST /webhooks/main/"}, // never redirected
		{"POST", "//webhooks//main", "", 200, "webhooks POST //webhooks//main"},
		{"POST", "/webhooks/x/../main", "", 200, "webhooks POST /webhooks/x/../main"},
		{"GET", "/healthz", "10-0-0-7.cluster.local", 200, "health GET /healthz"},
		{"GET", "/readyz", "", 200, "health GET /readyz"},
		{"GET", "/metrics", "", 200, "metrics GET /metrics"},
		{"GET", "/api/v1/runs", "penstock.example.org", 200, "api GET /api/v1/runs"},
		{"GET", "/", "PENSTOCK.example.org.:8080", 200, "board GET /"},
		{"GET", "/pipelines/x", "localhost:1", 200, "board GET /pipelines/x"},
		{"GET", "/", "[::1]:8080", 200, "board GET /"},
		{"GET", "/", "192.0.2.7", 200, "board GET /"},
		{"GET", "/events", "", 404, "404 page not found"},
		{"GET", "/", "evil.example", 403, ""},
		{"GET", "/metrics", "evil.example", 403, ""},
		{"POST", "/api/v1/pipelines/a/run", "localhost.evil.example", 403, ""},
		{"GET", "/", "127.0.0.1.evil.example", 403, ""},
	} {
		status, body := get(t, tt.method, d.url+tt.path, tt.host)
		require.Equal(t, tt.status, status, "%s %s", tt.path, tt.host)
		if tt.body != "" {
			require.Equal(t, tt.body, body)
		}
	}
}

// Run returns after runs, live updates and idle connections have ended. Run does not wait for slow requests.
func TestStop(t *testing.T) {
	begun := make(chan struct{})
	ended := false
	p := Pipeline{Name: "p", Run: func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
		close(begun)
		<-ctx.Done()
		ended = true
		return pipeline.Report{Status: pipeline.StatusStopped}, nil
	}}
	d := run(t, Config{Pipelines: []Pipeline{p}, Handlers: Handlers{Events: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})}})
	resp, err := http.Get(d.url + "/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "data: 1\n", line)
	_, err = d.RunNow("p", RunRequest{})
	require.NoError(t, err)
	<-begun
	slow, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	require.NoError(t, err)
	defer slow.Close()
	_, err = io.WriteString(slow, "GET / HTTP/1.1\r\nHost: ")
	require.NoError(t, err)
	require.NoError(t, d.stop())
	require.True(t, ended)
	_, err = d.RunNow("p", RunRequest{})
	require.ErrorIs(t, err, ErrStopping)
	http.DefaultClient.CloseIdleConnections()
}

func TestEventsGoOn(t *testing.T) {
	d := New(Config{Handlers: Handlers{Events: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 20 {
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			if !pause(r.Context(), 20*time.Millisecond) {
				return
			}
		}
		_, _ = io.WriteString(w, "data: end\n\n")
	})}})
	var err error
	d.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := d.server(t.Context())
	s.ReadTimeout, s.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	served := make(chan error, 1)
	go func() { served <- s.Serve(d.Listener) }()
	_, body := get(t, "GET", "http://"+d.Listener.Addr().String()+"/events", "")
	require.Contains(t, body, "data: end")
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

// A request for live updates announces a body but does not send the body. The deadline of the request ends the request.
func TestEventsWithBody(t *testing.T) {
	d := New(Config{Handlers: Handlers{Events: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
	})}})
	var err error
	d.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := d.server(t.Context())
	s.ReadTimeout = 100 * time.Millisecond
	served := make(chan error, 1)
	go func() { served <- s.Serve(d.Listener) }()
	c, err := net.Dial("tcp", d.Listener.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(c, "GET /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = io.ReadAll(c)
	require.NoError(t, err)
	require.NoError(t, errors.Join(c.Close(), s.Close()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

func TestSupervised(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd runs on Linux")
	}
	dir, err := os.MkdirTemp("", "penstock") // paths of sockets must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	hangup := make(chan struct{}, 1)
	d := run(t, Config{
		Supervisor: Supervisor{Socket: path, Watchdog: 40 * time.Millisecond}, Hangup: hangup,
		Reload: func(context.Context) ([]Pipeline, error) { return nil, nil },
	})
	next := func(want string) string {
		t.Helper()
		buf := make([]byte, 256)
		for range 1000 {
			n, err := conn.Read(buf)
			require.NoError(t, err)
			if got := string(buf[:n]); strings.HasPrefix(got, want) {
				return got
			}
		}
		t.Fatalf("no %s", want)
		return ""
	}
	next("READY=1")
	next("WATCHDOG=1")
	hangup <- struct{}{}
	require.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=[1-9]\d+$`, next("RELOADING=1"))
	next("READY=1")
	stopped := make(chan error, 1)
	go func() { stopped <- d.stop() }()
	next("STOPPING=1")
	require.NoError(t, <-stopped)
}

// A stopped daemon ends without an error, even if it notices the end of its listener before the end of its
// context.
func TestStoppedWhileNobodyAsks(t *testing.T) {
	d := New(Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	served := make(chan error)
	close(served)
	for range 64 {
		require.NoError(t, d.attend(ctx, Supervisor{}.connect(), served))
		require.True(t, d.settle(served))
	}
}

func TestFollow(t *testing.T) {
	h := NewHub()
	f := h.Follow()
	defer f.Close()
	for range 10_000 {
		h.update("a", func(s *Status) { s.Paused = !s.Paused })
		h.update("b", func(s *Status) {})
		h.Changed("webhooks")
	}
	names, err := f.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "webhooks"}, names)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRunning(t *testing.T) {
	release := make(chan struct{})
	p := Pipeline{Name: "p", Run: func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
		o.Rates(func() []Rate { return []Rate{{Surface: "app", Limit: "100/s"}} })
		for _, e := range []pipeline.Event{
			{Kind: pipeline.EventStart, Stream: "crm.leads", Total: -1},
			{Kind: pipeline.EventPage, Stream: "crm.leads", Records: 10, Bytes: 500, Requests: 2, Total: 30},
			{Kind: pipeline.EventPage, Stream: "crm.leads", Records: 10, Bytes: 500, Requests: 1, Total: -1},
			{Kind: pipeline.EventCommit, Stream: "crm.leads", Counts: pipeline.Counts{Fetched: 20, Written: 20}, Total: -1},
			{Kind: pipeline.EventEnd, Stream: "crm.leads", Total: -1, Report: &pipeline.StreamReport{Stream: "crm.leads", Destination: "w", Status: pipeline.StatusFailed, Err: io.ErrUnexpectedEOF}},
		} {
			o.Progress(e)
		}
		<-release
		return pipeline.Report{Run: o.Run, Status: pipeline.StatusPartial, Streams: []pipeline.StreamReport{
			{Stream: "crm.leads", Status: pipeline.StatusFailed}, {Stream: "crm.deals", Status: pipeline.StatusComplete},
		}}, nil
	}}
	r := newRig(t)
	r.start(p)
	defer r.stop()
	id, err := r.d.RunNow("p", RunRequest{})
	require.NoError(t, err)
	_, err = r.d.RunNow("p", RunRequest{})
	require.ErrorIs(t, err, ErrBusy)
	f := r.d.Hub().Follow()
	defer f.Close()
	var s Status
	for s.Running == nil || len(s.Running.Streams) == 0 || s.Running.Streams[0].Reports == nil {
		_, err := f.Next(t.Context())
		require.NoError(t, err)
		s, _ = r.d.Hub().Status("p")
	}
	got := s.Running.Streams[0]
	require.Equal(t, []any{"crm.leads", int64(20), int64(1000), 2, 3, int64(30), int64(20)},
		[]any{got.Stream, got.Records, got.Bytes, got.Pages, got.Requests, got.Total, got.Counts.Written})
	require.Equal(t, "100/s", s.Running.Rates[0].Limit)
	close(release)
	for s.Running != nil {
		_, err := f.Next(t.Context())
		require.NoError(t, err)
		s, _ = r.d.Hub().Status("p")
	}
	require.Equal(t, pipeline.StatusPartial, s.Last.Status)
	rec, ok, err := r.j.Run(t.Context(), id)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "partial manual", rec.Status+" "+rec.Cause)
	require.True(t, slices.ContainsFunc(rec.Log, func(l state.LogLine) bool {
		return l.Level == "error" && l.Stream == "crm.leads" && strings.Contains(l.Text, "unexpected EOF")
	}))
	release = make(chan struct{})
	close(release)
	var again string
	for err = ErrBusy; errors.Is(err, ErrBusy); runtime.Gosched() { // a run can begin a short time after the notice that the previous run has ended
		again, err = r.d.RunNow("p", RunRequest{Trigger: TriggerRetry, Streams: []string{"crm.leads"}})
	}
	require.NoError(t, err)
	for s.Last == nil || s.Last.Run != again {
		_, err := f.Next(t.Context())
		require.NoError(t, err)
		s, _ = r.d.Hub().Status("p")
	}
	require.Equal(t, TriggerRetry, seen[RunStarted](r)[1].Trigger)
}
