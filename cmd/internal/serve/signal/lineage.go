package signal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state/retry"
)

// Lineage sends OpenLineage run events, in the version of lineageSchema: START when a run begins, and COMPLETE, FAIL or
// ABORT when it ends. The last event lists the streams that were read and the tables that were filled. Events wait in a
// queue of limited length. If the queue is full, or the collector does not respond, events are dropped, and the log
// says so. A run never waits for the collector. Lineage is safe for concurrent use.
type Lineage struct {
	o     LineageOptions
	url   string
	queue chan runEvent

	mu     sync.Mutex
	places map[string]LineagePipeline
}

// LineageOptions configure Lineage.
type LineageOptions struct {
	URL      string // address of the collector; if it has no path, /api/v1/lineage is added
	Token    wire.Secret
	Producer string // a URI that names this program and its version
	Log      *slog.Logger
	Redact   func(string) string
}

// LineagePipeline has the names of the datasets that a pipeline reads and writes.
type LineagePipeline struct {
	Source       string // namespace of the streams, which is the address of the source
	Destinations map[string]LineagePlace
}

// LineagePlace has the namespace of the tables in a destination, and the prefix of their names.
type LineagePlace struct{ Namespace, Prefix string }

const (
	lineageSchema  = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
	facetSchemas   = "https://openlineage.io/spec/facets/"
	lineageQueue   = 256
	lineageTimeout = 10 * time.Second
	lineageFlush   = 800 * time.Millisecond
	lineageJobs    = "penstock" // namespace of the pipelines
)

var lineageRetry = retry.Policy{First: time.Second, Longest: time.Minute, Attempts: 3}

// NewLineage returns a Lineage. The caller must also call [Lineage.Run], which sends the events.
func NewLineage(o LineageOptions) *Lineage {
	l := &Lineage{o: o, url: strings.TrimRight(o.URL, "/"), queue: make(chan runEvent, lineageQueue)}
	if u, err := url.Parse(l.url); err == nil && u.Path == "" {
		l.url += "/api/v1/lineage"
	}
	return l
}

// Configure sets the names of each pipeline's datasets.
func (l *Lineage) Configure(pipelines map[string]LineagePipeline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places = pipelines
}

// The parts of OpenLineage's events that are used.
type (
	runEvent struct {
		EventType string    `json:"eventType"`
		EventTime time.Time `json:"eventTime"`
		Run       lineRun   `json:"run"`
		Job       lineName  `json:"job"`
		Inputs    []dataset `json:"inputs"`
		Outputs   []dataset `json:"outputs"`
		Producer  string    `json:"producer"`
		SchemaURL string    `json:"schemaURL"`
	}
	lineRun struct {
		RunID  string         `json:"runId"`
		Facets map[string]any `json:"facets,omitempty"`
	}
	lineName struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	dataset struct {
		lineName
		OutputFacets map[string]any `json:"outputFacets,omitempty"`
	}
)

var _ serve.Observer = (*Lineage)(nil)

// Observe queues an event when a run begins and when it ends.
func (l *Lineage) Observe(n serve.Notice) {
	switch n := n.(type) {
	case serve.RunStarted:
		e := l.event("START", n.Pipeline, n.Run, n.At)
		if !n.Due.IsZero() {
			e.Run.Facets = l.facet("nominalTime", "1-0-1/NominalTimeRunFacet.json", map[string]any{"nominalStartTime": n.Due.UTC()})
		}
		l.offer(e)
	case serve.RunEnded:
		l.offer(l.ended(n))
	}
}

func (l *Lineage) event(kind, name, run string, at time.Time) runEvent {
	return runEvent{
		EventType: kind, EventTime: at.UTC(), Run: lineRun{RunID: runUUID(name, run)}, Job: lineName{lineageJobs, name},
		Inputs: []dataset{}, Outputs: []dataset{}, Producer: l.o.Producer, SchemaURL: lineageSchema,
	}
}

// ended returns the event for the end of a run. The event lists only the streams that were read completely. A partial
// run may have such streams too.
func (l *Lineage) ended(n serve.RunEnded) runEvent {
	kind, why := lineageOutcome(n)
	e := l.event(kind, n.Pipeline, n.Run, n.At)
	if why != "" {
		e.Run.Facets = l.facet("errorMessage", "1-0-1/ErrorMessageRunFacet.json", map[string]any{
			"message": clip(l.o.Redact(why), mostWhy), "programmingLanguage": "Go",
		})
	}
	l.mu.Lock()
	named := l.places[n.Pipeline]
	l.mu.Unlock()
	read := map[string]bool{}
	for _, s := range n.Report.Streams {
		if s.Status != pipeline.StatusComplete {
			continue
		}
		if !read[s.Stream] {
			read[s.Stream] = true
			e.Inputs = append(e.Inputs, dataset{lineName: lineName{named.Source, s.Stream}})
		}
		if place, ok := named.Destinations[s.Destination]; ok {
			e.Outputs = append(e.Outputs, dataset{
				lineName:     lineName{place.Namespace, place.Prefix + s.Table},
				OutputFacets: l.facet("outputStatistics", "1-0-2/OutputStatisticsOutputDatasetFacet.json", map[string]any{"rowCount": s.Counts.Written}),
			})
		}
	}
	return e
}

// lineageOutcome returns the type of the event for the end of a run. A partial run counts as complete, because
// the event lists only outputs that are complete.
func lineageOutcome(n serve.RunEnded) (kind, why string) {
	if err := n.Err; err != nil {
		why = err.Error()
	}
	switch {
	case n.Report.Status == pipeline.StatusStopped:
		return "ABORT", why
	case n.Err != nil && len(n.Report.Streams) == 0, n.Report.Status == pipeline.StatusFailed:
		if n.Report.Err != nil && why == "" {
			why = n.Report.Err.Error()
		}
		return "FAIL", why
	}
	return "COMPLETE", why
}

func (l *Lineage) facet(name, schema string, values map[string]any) map[string]any {
	values["_producer"], values["_schemaURL"] = l.o.Producer, facetSchemas+schema
	return map[string]any{name: values}
}

// runUUID returns the UUID that OpenLineage requires for a run. It depends only on the pipeline's name and the
// run's id.
func runUUID(name, run string) string {
	sum := sha256.Sum256([]byte("penstock run\x00" + name + "\x00" + run))
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8: custom format (RFC 9562)
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func (l *Lineage) offer(e runEvent) {
	select {
	case l.queue <- e:
	default:
		l.o.Log.Warn("drop OpenLineage event: queue is full", "pipeline", e.Job.Name)
	}
}

// Run sends events until ctx ends. Then it sends the events that are still queued, for at most lineageFlush.
func (l *Lineage) Run(ctx context.Context) {
	client := &http.Client{Timeout: lineageTimeout}
	defer client.CloseIdleConnections()
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lineageFlush, end) })()
	for {
		select {
		case e := <-l.queue:
			l.send(last, client, e)
		case <-ctx.Done():
			select {
			case e := <-l.queue:
				l.send(last, client, e)
			default:
				return
			}
		}
	}
}

func (l *Lineage) send(ctx context.Context, client *http.Client, e runEvent) {
	text, err := json.Marshal(e)
	for tries := lineageRetry.Begin(); err == nil; err = nil {
		if err = l.post(ctx, client, text); err == nil {
			return
		}
		if !tries.Again(ctx) {
			break
		}
	}
	l.o.Log.Warn("drop OpenLineage event", "pipeline", e.Job.Name, "error", l.o.Redact(fmt.Sprint(err)))
}

func (l *Lineage) post(ctx context.Context, client *http.Client, text []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if l.o.Token != "" {
		r.Header.Set("Authorization", "Bearer "+l.o.Token.Reveal())
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("post run event: %s", resp.Status)
	}
	return nil
}
