package board_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/cmd/internal/serve/facts"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type workspace struct {
	source, status, counts, verdict string
	rows                            string
}

func several() []workspace {
	return []workspace{
		{"acme", "complete", `{"fetched": 12, "written": 12, "requests": 3, "streams": {"complete": 1}}`, "proven", "12"},
		{"zeta", "failed", `{"fetched": 5, "written": 5, "requests": 9, "streams": {"failed": 1}, "open": {"failed": ["crm.leads"]}, "words": {"crm.leads": "401 of zeta"}}`, "unproven", "5"},
	}
}

func (w workspace) leave(t *testing.T, lake load.Destination) {
	ctx, k := t.Context(), state.Key{Pipeline: "all", Stream: "crm.leads"}
	part, err := load.Share(lake, w.source)
	require.NoError(t, err)
	x, err := part.Begin(ctx, k, "", load.Pass{Run: "r1", Whole: true})
	require.NoError(t, err)
	const at = "2026-11-20T08:00:00Z"
	for _, own := range []struct {
		table schemas.Table
		row   loadtest.Row
	}{
		{load.Runs, loadtest.Row{"run": "r1", "pipeline": "all", "started_at": at, "ended_at": at, "status": w.status, "counts": w.counts}},
		{load.Certificates, loadtest.Row{"run": "r1", "pipeline": "all", "stream": "crm.leads", "at": at, "verdict": w.verdict, "witnesses": `{"why": "as ` + w.source + ` says"}`,
			"fetched": w.rows, "distinct": w.rows, "written": w.rows, "unchanged": "0", "deduplicated": "0", "rejected": "0", "deleted": "0", "pages": "1", "requests": "3"}},
		{load.Rejects, loadtest.Row{"run": "r1", "pipeline": "all", "stream": "crm.leads", "pass": "1", "ordinal": "1", "pointer": "/a", "at": at, "key": w.source, "record_id": w.source, "reason": "too large"}},
	} {
		b := loadtest.Batch(t, own.table, own.row)
		require.NoError(t, x.Write(ctx, own.table, b))
		b.Release()
	}
	_, err = x.Apply(ctx, load.Sweep{})
	require.NoError(t, err)
	require.NoError(t, x.Commit(ctx, "c1"))
}

func shared(t *testing.T) *served {
	dir := t.TempDir()
	lake, err := parquet.Open(t.Context(), parquet.Options{Path: dir})
	require.NoError(t, err)
	var names []string
	for _, w := range several() {
		w.leave(t, lake)
		names = append(names, w.source)
	}
	require.NoError(t, lake.Close())
	open := func(ctx context.Context) (load.Destination, error) {
		return parquet.Open(ctx, parquet.Options{Path: dir})
	}
	of := func(ctx context.Context, source string) (load.Destination, error) {
		if !slices.Contains(names, source) {
			t.Errorf("%q was opened, but no pipeline reads it", source)
		}
		l, err := open(ctx)
		if err != nil {
			return nil, err
		}
		part, err := load.Share(l, source)
		return opened{part, l}, err
	}
	journal, err := state.OpenJournal(t.Context(), t.TempDir())
	require.NoError(t, err)
	feed := &board.Feed{}
	f := facts.New(facts.Config{
		Destinations: func() []facts.DestinationPart {
			return []facts.DestinationPart{{Name: "lake", Open: open, OpenPart: of}}
		},
		Journal: journal, Log: slog.New(slog.DiscardHandler),
	}, feed)
	b, err := board.New(board.Config{Facts: f, Control: f, Feed: feed})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := serve.New(serve.Config{Listener: l, Observers: []serve.Observer{f}, Journal: journal, Encode: encodeNothing, Handlers: serve.Handlers{Events: b, API: b, Board: b},
		Pipelines: []serve.Pipeline{{Name: "all", Sources: names, Destinations: []string{"lake"}, Streams: []string{"crm.leads"}, Run: runNothing}}})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	f.Attach(d)
	go func() { done <- d.Run(ctx) }()
	go func() { f.Refresh(ctx); done <- nil }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.NoError(t, journal.Close())
	})
	return &served{Server: &httptest.Server{URL: "http://" + l.Addr().String()}, board: b, feed: feed}
}

type opened struct {
	load.Destination
	whole load.Destination
}

func (o opened) Close() error { return o.whole.Close() }

func encodeNothing(pipeline.Report) json.RawMessage { return nil }

func runNothing(context.Context, serve.RunRequest) (pipeline.Report, error) {
	return pipeline.Report{}, nil
}

func listOf[T any](t *testing.T, s *served, path string) []T {
	t.Helper()
	var l struct{ Items []T }
	require.NoError(t, json.NewDecoder(s.do(t, "GET", path, "").Body).Decode(&l))
	return l.Items
}

// Each source has its own row, with only its own state. A run over both sources is one run, and has a page for
// each source.
func TestSourcesApart(t *testing.T) {
	s := shared(t)
	streams := listOf[board.Stream](t, s, "/api/v1/streams")
	require.Len(t, streams, 2)
	slices.SortFunc(streams, func(a, b board.Stream) int { return strings.Compare(a.Source, b.Source) })
	require.Equal(t, []any{"acme", pipeline.StatusComplete, "", int64(12), "zeta", pipeline.StatusFailed, "401 of zeta", int64(5)},
		[]any{streams[0].Source, streams[0].Status, streams[0].Error, streams[0].Rows, streams[1].Source, streams[1].Status, streams[1].Error, streams[1].Rows})
	require.Equal(t, streams[1:], listOf[board.Stream](t, s, "/api/v1/streams?source=zeta"))
	for _, list := range []string{"streams", "runs", "rejects"} {
		require.Empty(t, listOf[board.Stream](t, s, "/api/v1/"+list+"?source=..%2Fnobody"))
	}

	runs := listOf[board.Run](t, s, "/api/v1/runs")
	require.Len(t, runs, 1)
	require.Equal(t, []any{2, "", pipeline.StatusPartial, int64(17), 12, 1}, []any{runs[0].Sources, runs[0].Source, runs[0].Status, runs[0].Counts.Fetched, runs[0].Requests, runs[0].Open})
	runs = listOf[board.Run](t, s, "/api/v1/runs?source=acme")
	require.Len(t, runs, 1)
	require.Equal(t, []any{"acme", pipeline.StatusComplete, int64(12)}, []any{runs[0].Source, runs[0].Status, runs[0].Counts.Fetched})
	require.Equal(t, "zeta", listOf[board.Reject](t, s, "/api/v1/rejects?source=zeta")[0].Key)
	for path, want := range map[string][]string{"/api/v1/runs/r1": {"acme", "zeta"}, "/api/v1/runs/r1?source=zeta": {"zeta"}} {
		var d board.RunDetail
		require.NoError(t, json.NewDecoder(s.do(t, "GET", path, "").Body).Decode(&d))
		var of []string
		for _, p := range d.Passes {
			of = append(of, p.Source)
		}
		slices.Sort(of)
		require.Equal(t, want, of, path)
		require.Equal(t, len(want), d.Total, path)
	}
	require.Equal(t, 404, s.do(t, "GET", "/api/v1/runs/r1?source=nobody", "").StatusCode)

	v := tab(t)
	for _, l := range []looks{allLooks()[0], allLooks()[3]} {
		v.look(t, l)
		v.run(t, chromedp.Navigate(s.URL+"/streams"), chromedp.WaitReady(chromedp.CSS("#list tbody tr")))
		require.Equal(t, 2, eval[int](t, v, `document.querySelectorAll("#list tbody tr").length`))
		require.Empty(t, eval[[]string](t, v, flaws), l.name)
		v.picture(t, "streams-of-sources-"+l.name)
		v.clicks(t, `#list a[href="/pipelines/all/streams/crm.leads?source=zeta"]`, "#in")
		require.Equal(t, 1, eval[int](t, v, `document.querySelectorAll("#in > section").length`))
		v.sees(t, `document.querySelector("#in")?.textContent.includes("401 of zeta") && document.querySelector("#rejects tbody")?.textContent.includes("zeta") && !document.querySelector("#main").textContent.includes("acme")`)
		v.clicks(t, `#in p a.mono`, "#timeline")
		v.sees(t, `location.search === "?source=zeta" && document.querySelectorAll("#timeline tbody tr th").length === 1`)
		require.Empty(t, eval[[]string](t, v, flaws), l.name)
		v.run(t, chromedp.Navigate(s.URL+"/runs"), chromedp.WaitReady(chromedp.CSS("#list tbody tr")))
		v.sees(t, `document.querySelector("#list tbody")?.textContent.includes("2 sources")`)
	}
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}
