package signal

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/wire"
)

// Traces sends OpenTelemetry traces of runs. A run is a span, with a child span for each stream. The span of a stream
// has a child span for each commit, and a child span for the outcome in each destination. Spans are sent in batches
// from a queue of limited length. If the queue is full, spans are dropped. A run never waits for the collector. Traces
// is safe for concurrent use.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	redact   func(string) string

	mu   sync.Mutex
	runs map[string]*runTrace
}

// TraceOptions configure Traces.
type TraceOptions struct {
	// URL is the address of the collector. If the address does not end in /v1/traces, this path is added. If URL is "",
	// the environment variables of OpenTelemetry apply, such as OTEL_EXPORTER_OTLP_ENDPOINT.
	URL     string
	Token   wire.Secret
	Version string
	Log     *slog.Logger
	Redact  func(string) string
}

type runTrace struct {
	ctx     context.Context //nolint:containedctx // OpenTelemetry passes the parent span in a context
	span    trace.Span
	streams map[string]*streamTrace
}

type streamTrace struct {
	ctx          context.Context //nolint:containedctx // has the parent span, as in runTrace
	span         trace.Span
	lastCommit   time.Time // before the first commit: when the stream began
	pages, bytes int64     // how much was read since lastCommit
	last         time.Time
	began        time.Time
}

// NewTraces returns Traces. It connects only when there is a span to send.
func NewTraces(ctx context.Context, o TraceOptions) (*Traces, error) {
	var opts []otlptracehttp.Option
	if o.URL != "" {
		u := strings.TrimRight(o.URL, "/")
		if !strings.HasSuffix(u, "/v1/traces") {
			u += "/v1/traces"
		}
		opts = append(opts, otlptracehttp.WithEndpointURL(u))
	}
	if o.Token != "" {
		opts = append(opts, otlptracehttp.WithHeaders(map[string]string{"Authorization": "Bearer " + o.Token.Reveal()}))
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("open traces: %w", err)
	}
	p := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&quietExporter{SpanExporter: exporter, log: o.Log, redact: o.Redact}),
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "penstock"), attribute.String("service.version", o.Version))),
	)
	return &Traces{provider: p, tracer: p.Tracer("github.com/penstock-data/penstock"), redact: o.Redact, runs: map[string]*runTrace{}}, nil
}

// Close sends the queued spans until ctx ends.
func (t *Traces) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

var _ serve.Observer = (*Traces)(nil)

// Observe begins and ends spans.
func (t *Traces) Observe(n serve.Notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := n.(type) {
	case serve.RunStarted:
		r := &runTrace{streams: map[string]*streamTrace{}}
		r.ctx, r.span = t.tracer.Start(context.Background(), "run", trace.WithTimestamp(n.At), trace.WithAttributes(
			attribute.String("penstock.pipeline", n.Pipeline), attribute.String("penstock.run", n.Run), attribute.String("penstock.trigger", string(n.Trigger))))
		t.runs[n.Run] = r
	case serve.RunProgress:
		if r := t.runs[n.Run]; r != nil {
			t.step(r, n.Event)
		}
	case serve.RunEnded:
		if r := t.runs[n.Run]; r != nil {
			delete(t.runs, n.Run)
			t.end(r, n)
		}
	case serve.DeltasApplied:
		t.deltas(n)
	}
}

func (t *Traces) step(r *runTrace, e pipeline.Event) {
	now := time.Now()
	s := r.streams[e.Stream]
	if s == nil {
		s = &streamTrace{lastCommit: now, began: now}
		s.ctx, s.span = t.tracer.Start(r.ctx, "stream", trace.WithTimestamp(now), trace.WithAttributes(attribute.String("penstock.stream", e.Stream)))
		r.streams[e.Stream] = s
	}
	s.last = now
	switch e.Kind {
	case pipeline.EventPage:
		s.pages++
		s.bytes += e.Bytes
	case pipeline.EventCommit:
		_, span := t.tracer.Start(s.ctx, "commit", trace.WithTimestamp(s.lastCommit), trace.WithAttributes(
			attribute.Int64("penstock.pages", s.pages), attribute.Int64("penstock.bytes", s.bytes), attribute.Int64("penstock.written", e.Counts.Written)))
		span.End(trace.WithTimestamp(now))
		s.lastCommit, s.pages, s.bytes = now, 0, 0
	case pipeline.EventEnd:
		if e.Report != nil {
			t.landed(s, *e.Report, now)
		}
	}
}

func (t *Traces) landed(s *streamTrace, r pipeline.StreamReport, now time.Time) {
	_, span := t.tracer.Start(s.ctx, "destination", trace.WithTimestamp(s.began), trace.WithAttributes(
		attribute.String("penstock.destination", r.Destination), attribute.String("penstock.status", string(r.Status)), attribute.String("penstock.verdict", string(r.Verdict)),
		attribute.Int64("penstock.fetched", r.Counts.Fetched), attribute.Int64("penstock.written", r.Counts.Written), attribute.Int64("penstock.deleted", r.Counts.Deleted),
		attribute.Int("penstock.pages", r.Pages), attribute.Int("penstock.requests", r.Requests)))
	t.fault(span, r.Status == pipeline.StatusFailed, r.Err)
	if r.Status == pipeline.StatusFailed {
		s.span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(now))
}

func (t *Traces) end(r *runTrace, n serve.RunEnded) {
	for _, s := range r.streams {
		s.span.End(trace.WithTimestamp(s.last))
	}
	err := n.Err
	if err == nil {
		err = n.Report.Err
	}
	r.span.SetAttributes(attribute.String("penstock.status", string(n.Report.Status)), attribute.Int("penstock.requests", n.Report.Requests))
	t.fault(r.span, n.Report.Status == pipeline.StatusFailed || n.Err != nil, err)
	r.span.End(trace.WithTimestamp(n.At))
}

func (t *Traces) deltas(n serve.DeltasApplied) {
	if n.Deltas.Applied == 0 && n.Err == nil {
		return
	}
	now := time.Now()
	_, span := t.tracer.Start(context.Background(), "deltas", trace.WithTimestamp(now.Add(-n.Took)), trace.WithAttributes(
		attribute.String("penstock.pipeline", n.Pipeline), attribute.Int("penstock.applied", n.Deltas.Applied), attribute.Int("penstock.waiting", n.Deltas.Waiting)))
	t.fault(span, n.Err != nil, n.Err)
	span.End(trace.WithTimestamp(now))
}

func (t *Traces) fault(s trace.Span, failed bool, err error) {
	if !failed {
		return
	}
	why := ""
	if err != nil {
		why = clip(t.redact(err.Error()), mostWhy) // Invariant 5
	}
	s.SetStatus(codes.Error, why)
}

// quietExporter sends spans, and logs lost spans at most every ten minutes. OpenTelemetry itself would write to
// stderr each time.
type quietExporter struct {
	sdktrace.SpanExporter
	log    *slog.Logger
	redact func(string) string

	mu     sync.Mutex
	logged time.Time
	lost   int
}

// ExportSpans sends spans. It never returns an error: spans that cannot be sent are lost.
func (q *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	const every = 10 * time.Minute
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost += len(spans)
	if now := time.Now(); now.Sub(q.logged) >= every {
		q.log.Warn("drop spans", "spans", q.lost, "error", q.redact(clip(err.Error(), mostWhy)))
		q.logged, q.lost = now, 0
	}
	return nil
}
