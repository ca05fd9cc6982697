package signal

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	prototrace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/wire"
)

var redactTest = wire.NewRedactor("hunter22").Redact

func TestTraces(t *testing.T) {
	var mu sync.Mutex
	spans := map[string]*prototrace.Span{}
	var token string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		token = r.Header.Get("Authorization")
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, _ := io.ReadAll(body)
		var req coltrace.ExportTraceServiceRequest
		if r.URL.Path != "/v1/traces" || proto.Unmarshal(text, &req) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					name := s.Name
					for _, a := range s.Attributes {
						if a.Key == "penstock.stream" || a.Key == "penstock.destination" {
							name += " " + a.Value.GetStringValue()
						}
					}
					spans[name] = s
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer srv.Close()
	tr, err := NewTraces(t.Context(), TraceOptions{URL: srv.URL, Token: "t0ken", Version: "v1", Log: slog.New(slog.DiscardHandler), Redact: redactTest})
	require.NoError(t, err)
	begun := time.Now().Add(-time.Minute)
	failed := pipeline.StreamReport{Stream: "crm.leads", Destination: "warehouse", Status: pipeline.StatusFailed, Err: errors.New("401 for hunter22")}
	progress := func(e pipeline.Event) serve.Notice {
		return serve.RunProgress{Pipeline: "nightly", Run: "r1", Event: e}
	}
	for _, n := range []serve.Notice{
		serve.RunStarted{Pipeline: "nightly", Run: "r1", Trigger: serve.TriggerSchedule, At: begun},
		progress(pipeline.Event{Kind: pipeline.EventStart, Stream: "crm.leads"}),
		progress(pipeline.Event{Kind: pipeline.EventPage, Stream: "crm.leads", Bytes: 100}),
		progress(pipeline.Event{Kind: pipeline.EventCommit, Stream: "crm.leads", Counts: pipeline.Counts{Written: 7}}),
		progress(pipeline.Event{Kind: pipeline.EventEnd, Stream: "crm.leads", Report: &failed}),
		serve.RunEnded{Pipeline: "nightly", Run: "r1", At: begun.Add(time.Minute), Report: pipeline.Report{Status: pipeline.StatusPartial, Streams: []pipeline.StreamReport{failed}}},
		serve.RunProgress{Run: "unknown"}, serve.RunEnded{Run: "unknown"},
		serve.DeltasApplied{Pipeline: "nightly", Deltas: serve.Deltas{Applied: 3}, Took: time.Second},
		serve.DeltasApplied{Pipeline: "nightly"},
	} {
		tr.Observe(n)
	}
	require.Empty(t, tr.runs)
	require.NoError(t, tr.Close(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, "Bearer t0ken", token)
	require.Len(t, spans, 5)
	run, stream := spans["run"], spans["stream crm.leads"]
	require.Equal(t, uint64(time.Minute), run.EndTimeUnixNano-run.StartTimeUnixNano)
	require.Equal(t, run.SpanId, stream.ParentSpanId)
	require.Equal(t, stream.SpanId, spans["commit"].ParentSpanId)
	landed := spans["destination warehouse"]
	require.Equal(t, stream.SpanId, landed.ParentSpanId)
	require.Equal(t, prototrace.Status_STATUS_CODE_ERROR, landed.Status.Code)
	require.Equal(t, "401 for [redacted]", landed.Status.Message)
	require.Equal(t, run.TraceId, landed.TraceId)
	require.NotEqual(t, run.TraceId, spans["deltas"].TraceId)
}

// Lost spans are logged once, and no run waits.
func TestTracesWithoutCollector(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer srv.Close()
	var said logged
	tr, err := NewTraces(t.Context(), TraceOptions{URL: srv.URL, Log: slog.New(slog.NewTextHandler(&said, nil)), Redact: redactTest})
	require.NoError(t, err)
	for range 3 {
		tr.Observe(serve.DeltasApplied{Pipeline: "nightly", Deltas: serve.Deltas{Applied: 1}})
		require.NoError(t, tr.provider.ForceFlush(t.Context()))
	}
	require.NoError(t, tr.Close(t.Context()))
	require.Equal(t, 1, said.count())
}

type logged struct {
	mu sync.Mutex
	n  int
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return len(p), nil
}

func (l *logged) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

func lineageTo(t *testing.T, refuse int, notices ...serve.Notice) (bodies []map[string]any, log *logged) {
	t.Helper()
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if refuse > 0 {
			refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var m map[string]any
		if r.URL.Path != "/api/v1/lineage" || r.Header.Get("Authorization") != "Bearer t0ken" || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		bodies = append(bodies, m)
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	log = &logged{}
	l := NewLineage(LineageOptions{URL: srv.URL, Token: "t0ken", Producer: "https://github.com/penstock-data/penstock", Log: slog.New(slog.NewTextHandler(log, nil)), Redact: redactTest})
	l.Configure(map[string]LineagePipeline{"nightly": {Source: "https://api.example.com", Destinations: map[string]LineagePlace{"warehouse": {"postgres://db:5432", "x.platform."}}}})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { l.Run(ctx) })
	for _, n := range notices {
		l.Observe(n)
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(bodies) == len(notices) || log.count() > 0 }, time.Minute, time.Millisecond)
	cancel()
	done.Wait()
	return bodies, log
}

func TestLineage(t *testing.T) {
	at := time.Date(2026, 3, 1, 2, 0, 1, 0, time.UTC)
	leads := pipeline.StreamReport{Stream: "crm.leads", Table: "crm_leads", Destination: "warehouse", Status: pipeline.StatusComplete, Counts: pipeline.Counts{Written: 7}}
	deals := pipeline.StreamReport{Stream: "crm.deals", Table: "crm_deals", Destination: "warehouse", Status: pipeline.StatusParked}
	bodies, log := lineageTo(t, 1,
		serve.RunStarted{Pipeline: "nightly", Run: "r1", Due: at.Add(-time.Second), At: at},
		serve.RunEnded{Pipeline: "nightly", Run: "r1", At: at.Add(time.Minute), Report: pipeline.Report{Status: pipeline.StatusPartial, Streams: []pipeline.StreamReport{leads, deals}}},
		serve.RunEnded{Pipeline: "nightly", Run: "r2", At: at, Err: errors.New("open source: hunter22 refused")},
		serve.RunEnded{Pipeline: "nightly", Run: "r3", At: at, Report: pipeline.Report{Status: pipeline.StatusStopped}},
	)
	require.Zero(t, log.count())
	require.Len(t, bodies, 4)
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	var kinds []any
	for _, b := range bodies {
		kinds = append(kinds, b["eventType"])
		require.Regexp(t, uuid, b["run"].(map[string]any)["runId"])
		require.Equal(t, map[string]any{"namespace": "penstock", "name": "nightly"}, b["job"])
		require.Equal(t, "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent", b["schemaURL"])
	}
	require.Equal(t, []any{"START", "COMPLETE", "FAIL", "ABORT"}, kinds)
	require.Equal(t, bodies[0]["run"].(map[string]any)["runId"], bodies[1]["run"].(map[string]any)["runId"])
	require.Equal(t, []any{map[string]any{"namespace": "https://api.example.com", "name": "crm.leads"}}, bodies[1]["inputs"])
	out := bodies[1]["outputs"].([]any)[0].(map[string]any)
	require.Equal(t, "x.platform.crm_leads", out["name"])
	require.InDelta(t, 7, out["outputFacets"].(map[string]any)["outputStatistics"].(map[string]any)["rowCount"], 0)
	fault := bodies[2]["run"].(map[string]any)["facets"].(map[string]any)["errorMessage"].(map[string]any)
	require.Equal(t, "open source: [redacted] refused", fault["message"])
	require.Equal(t, "2026-03-01T02:00:00Z", bodies[0]["run"].(map[string]any)["facets"].(map[string]any)["nominalTime"].(map[string]any)["nominalStartTime"])
}

func TestLineageIsBounded(t *testing.T) {
	log := &logged{}
	l := NewLineage(LineageOptions{URL: "http://127.0.0.1:1", Log: slog.New(slog.NewTextHandler(log, nil)), Redact: redactTest})
	for range lineageQueue + 10 {
		l.Observe(serve.RunStarted{Pipeline: "nightly", Run: "r"})
	}
	require.Equal(t, 10, log.count())
}
