package board_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/cmd/internal/serve/facts"
	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlite"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type works struct {
	t       *testing.T
	file    string
	sandbox *sandbox.Server
	wires   map[schemas.Surface]*wire.Client
	client  *extract.Client
	streams []schemas.Stream
	facts   *facts.Facts
	held    atomic.Pointer[chan struct{}] // responses for contacts wait until the channel is closed; nil: they do not wait
}

func daemon(t *testing.T, o sandbox.Options, modules ...string) (*works, *served) {
	t.Helper()
	return daemonOn(t, &state.Folder{Dir: t.TempDir()}, o, modules...)
}

func daemonOn(t *testing.T, folder *state.Folder, o sandbox.Options, modules ...string) (*works, *served) {
	t.Helper()
	w := &works{t: t, file: filepath.Join(t.TempDir(), "warehouse.db"), wires: map[schemas.Surface]*wire.Client{}}
	w.connect(o, modules)
	journal, err := state.OpenJournal(t.Context(), t.TempDir())
	require.NoError(t, err)
	feed := &board.Feed{}
	w.facts = facts.New(facts.Config{
		Destinations: func() []facts.DestinationPart { return []facts.DestinationPart{{Name: "warehouse", Open: w.open}} },
		Workspaces:   facts.Workspaces{Names: func() []string { return []string{"main"} }, State: folder},
		Journal:      journal, Log: slog.New(slog.DiscardHandler),
	}, feed)
	b, err := board.New(board.Config{Facts: w.facts, Control: w.facts, Feed: feed, Version: "1.2.3"})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	plan, err := schedule.Parse("0 2 * * *", berlin(t))
	require.NoError(t, err)
	d := serve.New(serve.Config{
		Listener: l, Observers: []serve.Observer{w.facts}, Journal: journal, Encode: encode,
		Handlers: serve.Handlers{Events: b, API: b, Board: b},
		Pipelines: []serve.Pipeline{{
			Name: "nightly", Sources: []string{"main"}, Destinations: []string{"warehouse"}, Streams: w.names(), Plan: serve.Plan{Schedule: plan}, Run: w.run,
		}},
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	w.facts.Attach(d)
	go func() { done <- d.Run(ctx) }()
	go func() { w.facts.Refresh(ctx); done <- nil }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.NoError(t, journal.Close())
	})
	return w, &served{Server: &httptest.Server{URL: "http://" + l.Addr().String()}, board: b, feed: feed}
}

func berlin(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	return zone
}

func (w *works) connect(o sandbox.Options, modules []string) {
	t := w.t
	var err error
	w.sandbox, err = sandbox.New(o)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if held := w.held.Load(); held != nil && r.URL.Path == "/v2/contacts" {
			<-*held
		}
		w.sandbox.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	catalogue, err := schemas.Load()
	require.NoError(t, err)
	for _, s := range catalogue.Ordered() {
		module, _, _ := strings.Cut(s.Name, ".")
		if s.Readable() && s.Enabled && s.Class != schemas.ClassFile && slices.Contains(modules, module) {
			w.streams = append(w.streams, s)
		}
	}
	for surface, token := range map[schemas.Surface]wire.Secret{schemas.SurfaceV2: "sk_sandbox_readonly", schemas.SurfaceApp: "pat_sandbox_readonly"} {
		var routes []wire.Route
		for _, s := range catalogue.Streams() {
			if s.Readable() && s.Surface == surface {
				routes = append(routes, wire.Route{Method: s.Method, Path: s.Path})
			}
		}
		c, err := wire.New(wire.Options{Name: string(surface), BaseURL: server.URL, Allow: routes, Credential: wire.Bearer(token), Rate: budget.Rate{Limit: 100, Window: time.Second}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		w.wires[surface] = c
	}
	w.client, err = extract.New(extract.Config{V2: w.wires[schemas.SurfaceV2], App: w.wires[schemas.SurfaceApp], Selected: w.streams, Find: catalogue.Find, Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.client.Close() })
}

func (w *works) names() []string {
	var all []string
	for _, s := range w.streams {
		all = append(all, s.Name)
	}
	return all
}

func (w *works) open(context.Context) (load.Destination, error) {
	return sqlite.Open(sqlite.Options{Path: w.file})
}

func (w *works) rates() []serve.Rate {
	var all []serve.Rate
	for _, surface := range []schemas.Surface{schemas.SurfaceV2, schemas.SurfaceApp} {
		g := w.wires[surface].Governor().Stats()
		all = append(all, serve.Rate{Surface: string(surface), Limit: g.Limit.String(), Allowed: g.Allowed, Used: g.Used, Sent: g.Sent, Refused: g.Refused, InFlight: g.InFlight, WaitsFor: g.WaitsFor, Until: g.GateUntil})
	}
	return all
}

func (w *works) run(ctx context.Context, o serve.RunRequest) (pipeline.Report, error) {
	d, err := w.open(ctx)
	if err != nil {
		return pipeline.Report{}, err
	}
	defer d.Close()
	o.Rates(w.rates)
	streams := w.streams
	if o.Streams != nil {
		streams = slices.DeleteFunc(slices.Clone(streams), func(s schemas.Stream) bool { return !slices.Contains(o.Streams, s.Name) })
	}
	return pipeline.Run(ctx, pipeline.Config{
		Name: "nightly", Run: o.Run, Source: w.client, Destinations: []pipeline.Destination{{Name: "warehouse", Destination: d}}, Streams: streams, Progress: o.Progress,
	})
}

func encode(r pipeline.Report) json.RawMessage {
	type stream struct {
		pipeline.StreamReport
		Error string `json:"error,omitempty"`
	}
	out := struct {
		pipeline.Report
		Streams []stream `json:"streams"`
	}{Report: r}
	for _, s := range r.Streams {
		one := stream{StreamReport: s}
		if s.Err != nil {
			one.Error = s.Err.Error()
		}
		out.Streams = append(out.Streams, one)
	}
	text, _ := json.Marshal(out)
	return text
}

func TestRealRun(t *testing.T) {
	w, s := daemon(t, sandbox.Options{}, "crm", "v2", "accounting")
	v := tab(t)
	v.run(t, chromedp.Navigate(s.URL+"/"))
	v.sees(t, `document.getElementById("live").dataset.state === "on"`)
	v.run(t, chromedp.Evaluate[chromedp.Void](`window.same = true`))
	require.NoError(t, w.sandbox.SetFaults(sandbox.Fault{Match: "v2.tickets", Kind: sandbox.FaultStatus, Status: 403}))
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	w.held.Store(&held)
	require.Equal(t, 202, s.do(t, "POST", "/api/v1/pipelines/nightly/run", "").StatusCode)
	require.Equal(t, 409, s.do(t, "POST", "/api/v1/pipelines/nightly/run", "").StatusCode, "a run is in progress")
	v.sees(t, `/[1-9]\d* of \d+ streams/.test(document.querySelector("#running").textContent)`)
	v.picture(t, "running-desktop-light")
	release()
	v.sees(t, `document.querySelector("#running").textContent.includes("Nothing is running.") && document.querySelector("#last tbody tr .badge.attention")`)
	require.True(t, eval[bool](t, v, `window.same`), "the page was reloaded")
	v.sees(t, `/v2.tickets.*403/s.test(document.querySelector("#attention").textContent)`)

	require.NoError(t, w.sandbox.SetFaults())
	v.clicks(t, `button[aria-label="Retry v2.tickets"]`, ".said")
	v.sees(t, fmt.Sprintf(`document.querySelector("#hero").textContent.includes("All %d streams are ok")`, len(w.streams)))

	var runs struct{ Items []board.Run }
	require.Eventually(t, func() bool { // the snapshot is refreshed after each run
		require.NoError(t, json.NewDecoder(s.do(t, "GET", "/api/v1/runs", "").Body).Decode(&runs))
		return len(runs.Items) == 2 && runs.Items[0].Status == pipeline.StatusComplete
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, 1, runs.Items[0].Streams)
	run := runs.Items[1]
	require.Equal(t, []any{pipeline.StatusPartial, len(w.streams), true}, []any{run.Status, run.Streams, run.Open > 0 && run.Sum().AddsUp})
	w.agrees(s)
	paths := []string{"/", "/runs/" + run.ID, "/streams"}
	if !testing.Short() {
		paths = append(paths, "/pipelines", "/pipelines/nightly", "/pipelines/nightly/streams/crm.leads", "/runs", "/rejects", "/schema", "/rate")
	}
	s.lookAround(t, v, "real", paths, allLooks()[3])
	for _, path := range []string{"/", "/api/v1/status", "/events"} {
		require.Equal(t, 403, s.do(t, "GET", path, "", "Host", "evil.example").StatusCode, "a host name that is not allowed")
	}
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}

func (w *works) agrees(s *served) {
	t := w.t
	var streams struct{ Items []board.Stream }
	require.NoError(t, json.NewDecoder(s.do(t, "GET", "/api/v1/streams?limit=200", "").Body).Decode(&streams))
	require.Len(t, streams.Items, len(w.streams))
	d, err := w.open(t.Context())
	require.NoError(t, err)
	defer d.Close()
	for _, one := range streams.Items {
		rows := int64(0)
		require.NoError(t, d.Scan(t.Context(), one.Table, []string{schemas.ColDeletedAt}, func(b arrow.RecordBatch) error {
			rows += int64(b.Column(0).NullN())
			return nil
		}))
		require.Equal(t, rows, one.Rows, one.Name)
		require.Equal(t, pipeline.StatusComplete, one.Status, one.Name)
		require.NotEmpty(t, one.Why, one.Name)
		require.Len(t, one.Recent, 1, one.Name)
	}
}
